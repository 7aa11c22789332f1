"""Reading the call log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q, QuerySet

from checkpoints.clock import database_now
from checkpoints.enums import LOGGED_EFFECTS, MATCHED_BY_ARGUMENTS, UNDECIDED_CALL, CallStatus, DecisionKind, KeyScope
from checkpoints.exceptions import CheckpointCorrupted, ReviewRequired, SessionNotFound
from checkpoints.ids import checked
from checkpoints.models import Decision, Run, Session, ToolCall
from checkpoints.saving import liveness, lookup
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store
from checkpoints.serde import digests
from checkpoints.serde.canonical import parse


def get(store: Store, session_id: str, call_pk: int) -> ToolCall:
    """A logged call. Raises `SessionNotFound` where it was removed: that happens with its session only."""
    with operation(store.using, writes=False):
        call = ToolCall.objects.using(store.using).filter(pk=call_pk).first()
    if call is None:
        raise SessionNotFound(session_id)
    return call


def find_completed(store: Store, key: str) -> dict[str, Any] | None:
    """The completed call of an idempotency key in this workspace, or None."""
    with operation(store.using, writes=False):
        call = (
            ToolCall.objects.using(store.using)
            .filter(
                workspace_id=store.workspace_id,
                idempotency_key=checked("idempotency key", key),
                status=CallStatus.COMPLETED,
            )
            .select_related("session", "run")
            .order_by("-pk")
            .first()
        )
        if call is None:
            return None
        require_intact(call)
        return {**as_dict(call), "session_id": call.session.session_id, "result_text": call.result_text}


def pending(store: Store, session_id: str) -> list[dict[str, Any]]:
    """Calls that were issued and have no outcome: running, interrupted or awaiting approval; oldest first.

    `alive` says whether the run that issued a call still lives. A session that does not exist yet has none.
    """
    with operation(store.using, writes=False):
        try:
            row = lookup.session(store, session_id)
        except SessionNotFound:
            return []
        found = with_status(store, row, {CallStatus.ISSUED, *UNDECIDED_CALL})
        alive = {run.pk: liveness.is_alive(run) for run in {call.run for call in found}}
        reasons = verify_reasons(store, found)
        return [
            as_dict(
                call,
                alive=call.status == CallStatus.ISSUED and alive[call.run_id],
                verify_reason=reasons.get(call.pk),
            )
            for call in found
        ]


def abandoned(store: Store) -> QuerySet[ToolCall]:
    """The calls of the workspace with side effects that a run which is gone has left without an outcome: a person has
    to decide about them, although nobody has noticed yet."""
    issued = ToolCall.objects.using(store.using).filter(workspace_id=store.workspace_id, status=CallStatus.ISSUED)
    effects = (Q(side_effects__contains=effect) for effect in sorted(LOGGED_EFFECTS))
    issued = issued.filter(reduce(or_, effects))
    now = database_now(store.using)
    runs = Run.objects.using(store.using).filter(pk__in=issued.values("run"))
    return issued.filter(run__in=[run.pk for run in runs if not liveness.is_alive(run, now)])


def undecided(store: Store, row: Session) -> list[ToolCall]:
    """The calls of a session that wait for a decision, oldest first."""
    return with_status(store, row, UNDECIDED_CALL)


def with_status(store: Store, row: Session, statuses: Iterable[CallStatus]) -> list[ToolCall]:
    found = ToolCall.objects.using(store.using).filter(session=row.pk, status__in=sorted(statuses))
    return list(found.select_related("run").order_by("pk"))


def unanswered(store: Store, session_pk: int) -> list[ToolCall]:
    """The calls of a session's tools that no saved version has answered, oldest first, without their results."""
    with operation(store.using, writes=False):
        return list(_unanswered(session_pk).using(store.using))


def _unanswered(session: int) -> QuerySet[ToolCall]:
    found = ToolCall.objects.filter(
        session=session,
        key_policy__in=sorted(MATCHED_BY_ARGUMENTS),
        key_scope=KeyScope.SESSION,
        answered_version__isnull=True,
    )
    return found.order_by("pk").defer("args", "result", "sentence")


def digests_of(store: Store, call: ToolCall) -> set[str]:
    """Digests of the arguments a call stands for: its own, and those it was asked with before a person changed them."""
    edits = Decision.objects.using(store.using).filter(tool_call=call, kind=DecisionKind.EDIT)
    before = [parse(evidence)["args_before"] for evidence in edits.values_list("evidence", flat=True) if evidence]
    asked = {call.asked_args_digest} - {""}
    return {call.args_digest, *asked, *(digests.text_digest(args) for args in before)}


def require_intact(call: ToolCall) -> None:
    """Raises `CheckpointCorrupted` where the arguments or the result of a call are not what was logged."""
    stored = (("arguments", call.args, call.args_digest), ("result", call.result, call.result_digest))
    for what, text, digest in stored:
        if text is not None and digest != digests.text_digest(text):
            raise CheckpointCorrupted(
                call.session.session_id, f"the {what} of call {call.call_id!r}", "its digest does not match"
            )


def verify_reasons(store: Store, found: Iterable[ToolCall]) -> dict[int, str]:
    """Why the verify hook could not tell, by the primary key of each interrupted call whose hook was asked last."""
    unknown = [call.pk for call in found if call.status == CallStatus.INTERRUPTED]
    if not unknown:
        return {}
    answers = Decision.objects.using(store.using).filter(tool_call__in=unknown, kind=DecisionKind.PROBE_UNKNOWN)
    return dict(answers.order_by("pk").values_list("tool_call_id", "reason"))


def as_dicts(store: Store, found: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """Calls as users get them, each with what its verify hook said last."""
    with operation(store.using, writes=False):
        reasons = verify_reasons(store, found)
    return [as_dict(call, verify_reason=reasons.get(call.pk)) for call in found]


def review_required(store: Store, session_id: str, undecided: Sequence[ToolCall]) -> ReviewRequired:
    """The error that names these calls, and why their verify hooks could not tell."""
    return ReviewRequired(session_id, as_dicts(store, undecided))


def as_dict(call: ToolCall, *, alive: bool = False, verify_reason: str | None = None) -> dict[str, Any]:
    """A call as users get it. `verify_reason` is why its verify hook could not tell; None where none was asked."""
    return {
        "call_id": call.call_id,
        "tool_name": call.tool,
        "args_json": call.args,
        "started_at": call.issued_at.isoformat(),
        "status": call.status,
        "reason": call.reason,
        "run_id": str(call.run_id),
        "alive": alive,
        "step": call.step,
        "attempt": call.attempt,
        "revision": call.revision,
        "verify_reason": verify_reason,
    }
