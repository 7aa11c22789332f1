"""A decision as a row of the list of what was decided: everything that is shown of it, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from checkpoints.models import Decision


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided about the call `call_pk`, which `tool`, `sentence` and `args` say in words."""

    pk: int
    kind: str
    final: bool
    actor: str
    reason: str
    created_at: datetime
    call_pk: int
    tool: str
    sentence: str
    #: `args_digest` tells them.
    args: str = field(repr=False)
    args_digest: str
    approvals: int
    session_pk: int
    session_id: str


def verdict(decision: Decision) -> Verdict:
    call = decision.tool_call
    return Verdict(
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
        args_digest=call.args_digest,
        approvals=call.approvals,
        session_pk=decision.session_id,
        session_id=decision.session.session_id,
    )
