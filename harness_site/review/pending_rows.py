"""Row of the review queue, with all displayed values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from checkpoints.enums import CallStatus, DecisionKind, Risk
from checkpoints.models import ToolCall
from harness_site.core import formatting
from harness_site.review.presence import CallPresence
from harness_site.review.selectors.outage_groups import Outage
from harness_site.review.views.outages import build_outage_url
from harness_site.sessions.selectors.agreements import Agreement


@dataclass(frozen=True, slots=True)
class OutageGroupRow:
    """Group of calls that were lost in one outage, and the URL of its page."""

    tool: str
    first: datetime
    last: datetime
    number: int
    address: str


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """Agreement about a call so far: number and names of the people."""

    kind: DecisionKind
    people: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PendingCallRow:
    pk: int
    tool: str
    sentence: str
    #: Left out of the representation; `args_digest` identifies the arguments.
    args: str = field(repr=False)
    args_digest: str
    status: str
    why: str
    risk: str
    since: datetime
    deadline: datetime | None
    overdue: bool
    approvals: int
    voices: tuple[AgreementRow, ...]
    company: CallPresence
    #: The outage, if the call was lost together with others.
    together: OutageGroupRow | None
    session_pk: int
    session_id: str
    agent: str
    #: Final status of the session; empty while it is open.
    ended: str

    @property
    def asking(self) -> bool:
        return self.status == CallStatus.AWAITING_APPROVAL

    @property
    def risk_words(self) -> str:
        return str(Risk(self.risk).label) if self.risk in Risk.values else self.risk

    @property
    def approved(self) -> int:
        """Number of people who have approved."""
        return sum(agreement.people for agreement in self.voices if agreement.kind == DecisionKind.APPROVE)


def build_pending_call_row(
    call: ToolCall,
    agreements: tuple[Agreement, ...],
    company: CallPresence,
    together: OutageGroupRow | None,
    *,
    now: datetime,
) -> PendingCallRow:
    session, deadline = call.session, call.deadline
    return PendingCallRow(
        pk=call.pk,
        tool=call.tool,
        sentence=call.sentence,
        args=call.args,
        args_digest=call.args_digest,
        status=call.status,
        why=formatting.format_unknown_outcome_reason(call.reason, verifiable=call.verifiable),
        risk=call.risk,
        since=call.interrupted_at or call.issued_at,
        deadline=deadline,
        overdue=deadline is not None and deadline < now,
        approvals=call.approvals,
        voices=tuple(_build_agreement_row(agreement) for agreement in agreements),
        company=company,
        together=together,
        session_pk=session.pk,
        session_id=session.session_id,
        agent=session.agent,
        ended=session.status if session.finished else "",
    )


def _build_agreement_row(agreement: Agreement) -> AgreementRow:
    return AgreementRow(agreement.kind, agreement.people, tuple(voice.actor for voice in agreement.voices))


def build_outage_group_row(outage: Outage) -> OutageGroupRow:
    return OutageGroupRow(outage.tool, outage.first, outage.last, outage.number, build_outage_url(outage))
