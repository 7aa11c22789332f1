"""Row of the list of decided calls, with all displayed values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from checkpoints.enums import DecisionKind
from checkpoints.models import Decision
from harness_site.core import status_labels


@dataclass(frozen=True, slots=True)
class EarlierDecision:
    """Decision before the last one: a vote, a change of the arguments, or one that was `withdrawn` since."""

    kind: str
    actor: str
    withdrawn: bool


@dataclass(frozen=True, slots=True)
class DecidedRow:
    """Call `call_pk`, described by `tool`, `sentence` and `args`, with its last decision and those `earlier`."""

    pk: int
    kind: str
    final: bool
    actor: str
    reason: str
    created_at: datetime
    earlier: tuple[EarlierDecision, ...]
    call_pk: int
    tool: str
    sentence: str
    #: Left out of the representation; `args_digest` identifies the arguments.
    args: str = field(repr=False)
    args_json_in_caller_order: str = field(repr=False)
    args_digest: str
    asked_args_digest: str
    is_question: bool
    approvals: int
    has_evidence: bool
    #: Chip shape and label of whether the call has run since; None if the decision does not let it run.
    run_since: tuple[str, str] | None
    session_pk: int
    session_id: str


def build_decided_row(decisions: Sequence[Decision]) -> DecidedRow:
    """Build the row of a call from its decisions, in their order."""
    decision = decisions[-1]
    call = decision.tool_call
    return DecidedRow(
        pk=decision.pk,
        kind=decision.kind,
        final=decision.final,
        actor=decision.actor,
        reason=decision.reason,
        created_at=decision.created_at,
        earlier=tuple(
            EarlierDecision(earlier.kind, earlier.actor, _is_withdrawn(earlier, decisions[number + 1 :]))
            for number, earlier in enumerate(decisions[:-1])
        ),
        call_pk=call.pk,
        tool=call.tool,
        sentence=call.sentence,
        args=call.args,
        args_json_in_caller_order=call.args_json_in_caller_order,
        args_digest=call.args_digest,
        asked_args_digest=call.asked_args_digest,
        is_question=call.is_question,
        approvals=call.approvals,
        has_evidence=decision.evidence is not None,
        run_since=None
        if call.is_question or not decision.final
        else status_labels.find_shape_and_label_of_run_since_decision(call.status, final_kind=decision.kind),
        session_pk=decision.session_id,
        session_id=decision.session.session_id,
    )


def _is_withdrawn(decision: Decision, later: Sequence[Decision]) -> bool:
    """Return whether a later withdrawal concerns a decision: all that agreed, or the vote of its own actor alone."""
    if decision.kind in {DecisionKind.EDIT, DecisionKind.WITHDRAW}:
        return False
    return any(
        other.kind == DecisionKind.WITHDRAW and (other.final or other.actor == decision.actor) for other in later
    )
