"""Row of the list of decisions, with all displayed values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from checkpoints.models import Decision


@dataclass(frozen=True, slots=True)
class DecidedRow:
    """Decision about the call `call_pk`, described by `tool`, `sentence` and `args`."""

    pk: int
    kind: str
    final: bool
    actor: str
    reason: str
    created_at: datetime
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
    session_pk: int
    session_id: str


def build_decision_list_row(decision: Decision) -> DecidedRow:
    call = decision.tool_call
    return DecidedRow(
        pk=decision.pk,
        kind=decision.kind,
        final=decision.final,
        actor=decision.actor,
        reason=decision.reason,
        created_at=decision.created_at,
        call_pk=call.pk,
        tool=call.tool,
        sentence=call.sentence,
        args=call.args,
        args_json_in_caller_order=call.args_json_in_caller_order,
        args_digest=call.args_digest,
        asked_args_digest=call.asked_args_digest,
        is_question=call.is_question,
        approvals=call.approvals,
        session_pk=decision.session_id,
        session_id=decision.session.session_id,
    )
