"""Queries of the call log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q, QuerySet

from checkpoints.calls import signed_decisions
from checkpoints.db.clock import database_now
from checkpoints.db.database_operation import database_operation
from checkpoints.enums import (
    LOGGED_EFFECTS,
    POLICIES_MATCHING_ARGUMENTS,
    UNDECIDED_CALL_STATUSES,
    CallStatus,
    DecisionKind,
    KeyScope,
)
from checkpoints.exceptions import CheckpointCorrupted, ReviewRequired, SessionNotFound
from checkpoints.formats import digests
from checkpoints.formats.canonical import parse_json
from checkpoints.ids import validate_id
from checkpoints.models import Decision, Run, Session, ToolCall
from checkpoints.models.tool_call import INTERRUPT_KEY_PREFIX
from checkpoints.seals import row_seals
from checkpoints.store import row_lookups, run_liveness
from checkpoints.store.store import Store


def get_call(store: Store, session_id: str, call_pk: int) -> ToolCall:
    """Return a logged call. Raises `SessionNotFound` if it was removed: that happens with its session only."""
    with database_operation(store.using, writes=False):
        call = ToolCall.objects.using(store.using).filter(pk=call_pk).first()
    if call is None:
        raise SessionNotFound(session_id)
    row_seals.verify_row(call)
    return call


def find_completed_call(store: Store, key: str) -> dict[str, Any] | None:
    """Find the completed call of an idempotency key in this workspace, or None."""
    with database_operation(store.using, writes=False):
        call = (
            ToolCall.objects.using(store.using)
            .filter(
                workspace_id=store.workspace_id,
                idempotency_key=validate_id("idempotency key", key),
                status=CallStatus.COMPLETED,
            )
            .select_related("session", "run")
            .order_by("-pk")
            .first()
        )
        if call is None:
            return None
        require_unaltered(call)
        return {**call_to_dict(call), "session_id": call.session.session_id, "result_text": call.result_text}


def list_pending_calls(store: Store, session_id: str) -> list[dict[str, Any]]:
    """List the calls that were issued and have no outcome: running, interrupted or awaiting approval; oldest first.

    `alive` says whether the run that issued a call is alive. A session that does not exist yet has none.
    """
    with database_operation(store.using, writes=False):
        try:
            row = row_lookups.get_session(store, session_id)
        except SessionNotFound:
            return []
        unsettled = list_calls_with_status(store, row, {CallStatus.ISSUED, *UNDECIDED_CALL_STATUSES})
        calls = [call for call in unsettled if not call.is_imported]
        alive = {run.pk: run_liveness.is_run_alive(run) for run in {call.run for call in calls}}
        reasons = load_verify_hook_reasons(store, calls)
        return [
            call_to_dict(
                call,
                alive=call.status == CallStatus.ISSUED and alive[call.run_id],
                verify_reason=reasons.get(call.pk),
            )
            for call in calls
        ]


@dataclass(frozen=True)
class DecidedCall:
    """Newest attempt of a call, and who decided about it last; `actor` is empty if nobody did."""

    call: ToolCall
    actor: str


def find_decided_calls(store: Store, session_id: str, places: Iterable[tuple[str, int]]) -> list[DecidedCall] | None:
    """Find the decisions about calls, by call id and step. Returns None while one of them is undecided.

    Raises `SessionNotFound`, `CallNotFound`, and what `require_unaltered` raises.
    """
    with database_operation(store.using, writes=False):
        row = row_lookups.get_session(store, session_id)
        calls = [row_lookups.get_latest_attempt(store, row, call_id, step=step) for call_id, step in places]
        if any(call.status in UNDECIDED_CALL_STATUSES for call in calls):
            return None
        for call in calls:
            require_unaltered(call)
        decisions = signed_decisions.select_decisions(store.using).filter(tool_call__in=calls, final=True)
        signed_decisions.verify_decisions(decisions)
        actors = {decision.tool_call_id: decision.actor for decision in decisions.order_by("pk")}
        return [DecidedCall(call, actors.get(call.pk, "")) for call in calls]


def abandoned(store: Store) -> QuerySet[ToolCall]:
    """Select the calls with side effects that lost runs of the workspace have left without an outcome.

    A person has to decide about them, although no process has declared the run lost yet.
    """
    issued_calls = ToolCall.objects.using(store.using).filter(workspace_id=store.workspace_id, status=CallStatus.ISSUED)
    effects = (Q(side_effects__contains=effect) for effect in sorted(LOGGED_EFFECTS))
    issued_calls = issued_calls.filter(reduce(or_, effects))
    now = database_now(store.using)
    runs = Run.objects.using(store.using).filter(pk__in=issued_calls.values("run"))
    return issued_calls.filter(run__in=[run.pk for run in runs if not run_liveness.is_run_alive(run, now)])


def list_undecided_calls(store: Store, row: Session) -> list[ToolCall]:
    """List the calls of a session that wait for a decision, oldest first."""
    return list_calls_with_status(store, row, UNDECIDED_CALL_STATUSES)


def list_calls_at_gate(store: Store, row: Session) -> list[ToolCall]:
    """List the undecided calls that hold a run at the gate: all but those that a framework's own interrupt holds."""
    return [
        call
        for call in list_undecided_calls(store, row)
        if call.status == CallStatus.INTERRUPTED or not call.idempotency_key.startswith(INTERRUPT_KEY_PREFIX)
    ]


def list_calls_with_status(store: Store, row: Session, statuses: Iterable[CallStatus]) -> list[ToolCall]:
    """List the calls of a session with one of `statuses`, oldest first. Raises `IntegrityError`."""
    rows = ToolCall.objects.using(store.using).filter(session=row.pk, status__in=sorted(statuses))
    calls = list(rows.select_related("run").order_by("pk"))
    row_seals.verify_rows(calls)
    return calls


def list_unanswered_calls(store: Store, session_pk: int) -> list[ToolCall]:
    """List the calls of a session's tools that no saved version has answered, oldest first, without their results."""
    with database_operation(store.using, writes=False):
        return list(_select_unanswered_calls(session_pk).using(store.using))


def list_answered_call_ids(store: Store, session_pk: int, call_ids: Iterable[str]) -> set[str]:
    """List those of the identifiers that name calls whose results a saved version has."""
    with database_operation(store.using, writes=False):
        calls = ToolCall.objects.using(store.using).filter(session=session_pk, call_id__in=list(call_ids))
        return set(calls.filter(answered_version__isnull=False).values_list("call_id", flat=True))


def _select_unanswered_calls(session: int) -> QuerySet[ToolCall]:
    calls = ToolCall.objects.filter(
        session=session,
        key_policy__in=sorted(POLICIES_MATCHING_ARGUMENTS),
        key_scope=KeyScope.SESSION,
        answered_version__isnull=True,
    )
    return calls.order_by("pk").defer("args", "result", "sentence")


def list_args_digests(store: Store, call: ToolCall) -> set[str]:
    """List the digests of a call's arguments: the current ones, and those it was requested with before an edit."""
    edits = signed_decisions.select_decisions(store.using).filter(tool_call=call, kind=DecisionKind.EDIT)
    signed_decisions.verify_decisions(edits)
    previous_args = [parse_json(edit.evidence)["args_before"] for edit in edits if edit.evidence]
    asked_digests = {call.asked_args_digest} - {""}
    return {call.args_digest, *asked_digests, *(digests.digest_text(args) for args in previous_args)}


def require_unaltered(call: ToolCall) -> None:
    """Require that a call is as this library wrote it, before its result or an approval of it is used.

    Raises `IntegrityError` if it does not match its seal or what people have signed about it, and
    `CheckpointCorrupted` if its arguments or its result do not match their logged digests.
    """
    row_seals.verify_row(call)
    signed_decisions.verify_call(call)
    require_matching_digests(call)


def require_matching_digests(call: ToolCall) -> None:
    """Raise `CheckpointCorrupted` if the arguments or the result of a call do not match their logged digests."""
    columns = (("arguments", call.args, call.args_digest), ("result", call.result, call.result_digest))
    for label, text, digest in columns:
        if text is not None and digest != digests.digest_text(text):
            raise CheckpointCorrupted(
                call.session.session_id, f"the {label} of call {call.call_id!r}", "its digest does not match"
            )


def load_verify_hook_reasons(store: Store, calls: Iterable[ToolCall]) -> dict[int, str]:
    """Load the reason of the last verify hook that could not tell, by the primary key of the interrupted call."""
    unknown = [call.pk for call in calls if call.status == CallStatus.INTERRUPTED]
    if not unknown:
        return {}
    answers = Decision.objects.using(store.using).filter(tool_call__in=unknown, kind=DecisionKind.PROBE_UNKNOWN)
    return dict(answers.order_by("pk").values_list("tool_call_id", "reason"))


def calls_to_dicts(store: Store, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """Convert calls to the dicts that users get, each with the last answer of its verify hook."""
    with database_operation(store.using, writes=False):
        reasons = load_verify_hook_reasons(store, calls)
    return [call_to_dict(call, verify_reason=reasons.get(call.pk)) for call in calls]


def build_review_required(store: Store, session_id: str, calls: Sequence[ToolCall]) -> ReviewRequired:
    """Build the error that names undecided calls, and why their verify hooks could not tell."""
    return ReviewRequired(session_id, calls_to_dicts(store, calls))


def call_to_dict(call: ToolCall, *, alive: bool = False, verify_reason: str | None = None) -> dict[str, Any]:
    """Convert a call to the dict that users get.

    `verify_reason` is why its verify hook could not tell; None if none was asked.
    """
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
