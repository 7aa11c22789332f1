"""A call that waits for people, as a row of the queue: everything that is shown of it, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from checkpoints.enums import CallStatus, DecisionKind, Risk
from checkpoints.models import ToolCall
from checkpoints.queries.outages import Outage
from checkpoints.queries.voices import Agreement
from harness_site import wording
from harness_site.review.company import Company
from harness_site.review.outage import address_of


@dataclass(frozen=True, slots=True)
class Group:
    """Calls that were lost in one outage, and the address of their page."""

    tool: str
    first: datetime
    last: datetime
    number: int
    address: str


@dataclass(frozen=True, slots=True)
class Voices:
    """Who said the same about a call so far, by name."""

    kind: DecisionKind
    people: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    pk: int
    tool: str
    sentence: str
    #: `args_digest` tells them.
    args: str = field(repr=False)
    args_digest: str
    status: str
    why: str
    risk: str
    since: datetime
    deadline: datetime | None
    overdue: bool
    approvals: int
    voices: tuple[Voices, ...]
    company: Company
    #: Where it was lost together with others.
    together: Group | None
    session_pk: int
    session_id: str
    agent: str
    #: How the session ended; empty while it goes on.
    ended: str

    @property
    def asking(self) -> bool:
        return self.status == CallStatus.AWAITING_APPROVAL

    @property
    def risk_words(self) -> str:
        return str(Risk(self.risk).label) if self.risk in Risk.values else self.risk

    @property
    def approved(self) -> int:
        """How many people have approved."""
        return sum(said.people for said in self.voices if said.kind == DecisionKind.APPROVE)


def waiting(
    call: ToolCall, agreements: tuple[Agreement, ...], company: Company, together: Group | None, *, now: datetime
) -> Waiting:
    session, deadline = call.session, call.deadline
    return Waiting(
        pk=call.pk,
        tool=call.tool,
        sentence=call.sentence,
        args=call.args,
        args_digest=call.args_digest,
        status=call.status,
        why=wording.why(call.reason, verifiable=call.verifiable),
        risk=call.risk,
        since=call.interrupted_at or call.issued_at,
        deadline=deadline,
        overdue=deadline is not None and deadline < now,
        approvals=call.approvals,
        voices=tuple(_voices(agreement) for agreement in agreements),
        company=company,
        together=together,
        session_pk=session.pk,
        session_id=session.session_id,
        agent=session.agent,
        ended=session.status if session.finished else "",
    )


def _voices(agreement: Agreement) -> Voices:
    return Voices(agreement.kind, agreement.people, tuple(voice.actor for voice in agreement.voices))


def group(outage: Outage) -> Group:
    return Group(outage.tool, outage.first, outage.last, outage.number, address_of(outage))
