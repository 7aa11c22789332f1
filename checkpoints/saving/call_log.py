"""The log of tool calls: intent before the effect, outcome after it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db import connections, transaction
from django.db.models import F, Max
from django.db.models.functions import Now

from checkpoints.enums import (
    DISPATCHABLE_SESSION,
    FINISHED_SESSION,
    LIVE_CALL,
    UNDECIDED_CALL,
    AuditKind,
    CallStatus,
    InterruptReason,
    KeyScope,
    SideEffect,
)
from checkpoints.exceptions import (
    CallAlreadySettled,
    CallConflict,
    CallInProgress,
    InvalidInput,
    LateResultRefused,
    ReviewRequired,
    StorageUnavailable,
)
from checkpoints.ids import checked
from checkpoints.models import LateResult, Session, ToolCall
from checkpoints.saving import audit, liveness, lookup, statements
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Held, Store
from checkpoints.serde import digests
from checkpoints.serde.canonical import canonical


@dataclass(frozen=True)
class Intent:
    """A call about to be made. `args` is canonical JSON text."""

    call_id: str
    tool: str
    args: str
    key: str
    step: int | None = None
    scope: KeyScope = KeyScope.SESSION
    side_effects: frozenset[str] = field(default_factory=lambda: frozenset({SideEffect.MUTATE}))
    sentence: str = ""
    verifiable: bool = False

    @property
    def args_digest(self) -> str:
        return digests.text_digest(self.args)


@dataclass(frozen=True)
class Issued:
    """A logged intent: the call may run now."""

    pk: int
    call_id: str
    step: int
    attempt: int


@dataclass(frozen=True)
class Outcome:
    """How a call ended: completed, failed or interrupted."""

    status: CallStatus
    result: str | None  #: canonical JSON text
    error_type: str = ""
    reason: InterruptReason | str = ""


def intent(
    call_id: str, tool: str, args: dict[str, Any], key: str, *, side_effects: Iterable[str], step: int | None
) -> Intent:
    """An intent from what users give. Raises `InvalidInput` and its kinds."""
    if not isinstance(args, dict):
        raise InvalidInput(f"The arguments of {call_id!r} are a {type(args).__name__}, not a dict.")
    return Intent(
        call_id=checked("call id", call_id),
        tool=checked("tool name", tool)[:200],
        args=canonical(args, "args"),
        key=checked("idempotency key", key),
        step=step,
        side_effects=frozenset(side_effects),
    )


def issue(store: Store, held: Held, wanted: Intent) -> Issued | ToolCall:
    """Log `wanted` and return it `Issued`, or return the call that stands in its way: the live call of the same
    key or id, in whatever state it is.

    Raises `OwnershipLost`, `SessionFinished`, `CallConflict`, and `ReviewRequired` where another call of the
    session is undecided.
    """
    with store.issuing(wanted.key):
        try:
            with operation(store.using) as connection:
                row = statements.issue(connection, held.pk, held.fence, wanted.step, _values(held, wanted, 1))
                found: Issued | ToolCall = (
                    _issue_locked(store, held, wanted) if row is None else Issued(row[0], wanted.call_id, row[1], 1)
                )
        except StorageUnavailable as error:
            found = _read_back_intent(store, held, wanted, error)
        if isinstance(found, Issued):
            store.in_flight.add(found.pk)
        return found


def _read_back_intent(store: Store, held: Held, wanted: Intent, error: StorageUnavailable) -> Issued:
    """After a commit whose answer was lost: the intent of this run that nobody here runs is the one just written."""
    if not error.may_have_happened:
        raise error
    with operation(store.using, writes=False):
        mine = ToolCall.objects.using(store.using).filter(
            session_id=held.pk, run_id=held.run_id, call_id=wanted.call_id, idempotency_key=wanted.key
        )
        call = mine.filter(status=CallStatus.ISSUED).order_by("-pk").first()
    if call is None or call.pk in store.in_flight:
        raise StorageUnavailable(error.what, may_have_happened=False) from error
    return Issued(call.pk, call.call_id, call.step, call.attempt)


def _values(held: Held, wanted: Intent, attempt: int, supersedes: int | None = None) -> dict[str, Any]:
    return {
        "run": held.run_id,
        "call_id": wanted.call_id,
        "attempt": attempt,
        "supersedes": supersedes,
        "tool": wanted.tool,
        "args": wanted.args,
        "args_digest": wanted.args_digest,
        "idempotency_key": wanted.key,
        "key_scope": wanted.scope,
        "side_effects": ",".join(sorted(wanted.side_effects)),
        "sentence": wanted.sentence,
        "verifiable": wanted.verifiable,
        "status": CallStatus.ISSUED,
        "reason": "",
        "result_digest": "",
        "error_type": "",
        "verify_requested_by": "",
    }


def _issue_locked(store: Store, held: Held, wanted: Intent) -> Issued | ToolCall:
    """The slow path: something is in the way. Look under the session's lock at what it is."""
    with transaction.atomic(using=store.using):
        session = Session.objects.using(store.using).select_for_update().filter(pk=held.pk, fence=held.fence).first()
        if session is None or session.status in FINISHED_SESSION:
            raise lookup.fence_lost(store, held)
        step = session.latest_version if wanted.step is None else wanted.step
        same = _same_call(store, held, wanted, step)
        found = _live_call(store, session, wanted)
        if found is not None and found.status != CallStatus.RERUN_APPROVED:
            return found
        if session.status not in DISPATCHABLE_SESSION:
            raise ReviewRequired(held.session_id, [as_dict(call) for call in undecided(store, session)])
        if found is not None:
            _supersede(store, found)
        attempt = 1 + (same or 0)
        values = _values(held, wanted, attempt, found.pk if found is not None else None)
        row = statements.issue(connections[store.using], held.pk, held.fence, step, values)
        if row is not None:
            return Issued(row[0], wanted.call_id, row[1], attempt)
        # Only a workspace-wide key can appear in spite of the lock, from another session.
        rival = _live_call(store, session, wanted)
        if rival is None:
            raise CallConflict(held.session_id, wanted.call_id, step)
        return rival


def _same_call(store: Store, held: Held, wanted: Intent, step: int) -> int | None:
    """The last attempt of this call in this step. Raises `CallConflict` where it was for something else."""
    mine = ToolCall.objects.using(store.using).filter(session_id=held.pk, step=step, call_id=wanted.call_id)
    if mine.exclude(tool=wanted.tool, args_digest=wanted.args_digest).exists():
        raise CallConflict(held.session_id, wanted.call_id, step)
    last: int | None = mine.aggregate(last=Max("attempt"))["last"]
    return last


def _live_call(store: Store, session: Session, wanted: Intent) -> ToolCall | None:
    live = ToolCall.objects.using(store.using).filter(
        idempotency_key=wanted.key, key_scope=wanted.scope, status__in=sorted(LIVE_CALL)
    )
    if wanted.scope == KeyScope.SESSION:
        live = live.filter(session=session)
    else:
        live = live.filter(workspace_id=session.workspace_id)
    return live.select_related("run", "session").first()


def _supersede(store: Store, approved: ToolCall) -> None:
    """Consume the approval of a re-run: it allows one execution."""
    ToolCall.objects.using(store.using).filter(pk=approved.pk, status=CallStatus.RERUN_APPROVED).update(
        status=CallStatus.SUPERSEDED, revision=F("revision") + 1, settled_at=Now()
    )


def settle(store: Store, held: Held, call: Issued, outcome: Outcome) -> None:
    """Write the outcome of a call that this run issued.

    Raises `LateResultRefused` where the call or the session is no longer this run's; the result is then kept as
    late evidence.
    """
    values = {
        "status": outcome.status,
        "result": outcome.result,
        "result_digest": "" if outcome.result is None else digests.text_digest(outcome.result),
        "error_type": outcome.error_type[:200],
        "reason": outcome.reason,
    }
    try:
        with operation(store.using) as connection:
            settled = statements.settle(connection, held.pk, held.fence, call.pk, held.run_id, values)
            if not settled:
                raise _keep_late(store, held.session_id, call.pk, held, outcome)
    except StorageUnavailable as error:
        _read_back_outcome(store, call, outcome, error)
    store.in_flight.discard(call.pk)


def _read_back_outcome(store: Store, call: Issued, outcome: Outcome, error: StorageUnavailable) -> None:
    """After a commit whose answer was lost: only this run may settle the call, so its outcome there is this one."""
    if not error.may_have_happened:
        raise error
    row = get(store, call.pk)
    if (row.status, row.result) != (outcome.status, outcome.result):
        raise StorageUnavailable(error.what, may_have_happened=False) from error


def _keep_late(store: Store, session_id: str, call_pk: int, held: Held | None, outcome: Outcome) -> LateResultRefused:
    with transaction.atomic(using=store.using):
        call = ToolCall.objects.using(store.using).select_for_update().get(pk=call_pk)
        LateResult.objects.using(store.using).create(
            session_id=call.session_id,
            tool_call=call,
            run_id=held.run_id if held else None,
            success=outcome.status == CallStatus.COMPLETED,
            result=outcome.result,
        )
        touch(store, call.session_id)
        audit.record(
            store,
            AuditKind.LATE_RESULT,
            session_pk=call.session_id,
            actor=f"run {held.run.number}" if held else "unknown run",
            call_id=call.call_id,
            step=call.step,
            attempt=call.attempt,
            status=call.status,
        )
    return LateResultRefused(session_id, call.call_id, call.status)


def touch(store: Store, session_pk: int) -> None:
    """Let the pages notice that something of a session changed."""
    Session.objects.using(store.using).filter(pk=session_pk).update(revision=F("revision") + 1, updated_at=Now())


def get(store: Store, call_pk: int) -> ToolCall:
    with operation(store.using, writes=False):
        return ToolCall.objects.using(store.using).get(pk=call_pk)


def count_replay(store: Store, call_pk: int) -> None:
    """Count that a stored result was given instead of running the call again."""
    with operation(store.using):
        ToolCall.objects.using(store.using).filter(pk=call_pk).update(replay_count=F("replay_count") + 1)


# the interface of the log, for loops that do not use the registry


def record_issued(store: Store, session_id: str, wanted: Intent) -> None:
    """Log an intent, or say why it cannot be."""
    with operation(store.using):
        held = lookup.owned(store, session_id)
        found = issue(store, held, wanted)
        if isinstance(found, Issued):
            return
        if found.status == CallStatus.ISSUED:
            raise CallInProgress(found.session.session_id, found.call_id, found.tool)
        if found.status in UNDECIDED_CALL:
            raise ReviewRequired(session_id, [as_dict(found)])
        raise CallAlreadySettled(session_id, found.call_id, found.status)


def record_result(
    store: Store, session_id: str, call_id: str, result: str, success: bool, *, step: int | None = None
) -> None:
    """Write the result of an issued call. Raises `CallNotFound`, `LateResultRefused`."""
    if not isinstance(result, str):
        raise InvalidInput(f"The result of {call_id!r} is a {type(result).__name__}, not text.")
    outcome = Outcome(CallStatus.COMPLETED if success else CallStatus.FAILED, canonical(result, "result"))
    with operation(store.using):
        row = lookup.session(store, session_id)
        call = lookup.latest_call(store, row, call_id, step=step)
        held = store.holds(session_id)
        if held is None:
            raise _keep_late(store, session_id, call.pk, None, outcome)
        settle(store, held, Issued(call.pk, call.call_id, call.step, call.attempt), outcome)


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
        return {**as_dict(call), "session_id": call.session.session_id, "result_text": call.result_text}


def pending(store: Store, session_id: str) -> list[dict[str, Any]]:
    """Calls that were issued and have no outcome: running, interrupted or awaiting approval; oldest first.

    `alive` says whether the run that issued a call still lives. Raises `SessionNotFound`.
    """
    with operation(store.using, writes=False):
        row = lookup.session(store, session_id)
        found = _of(store, row, {CallStatus.ISSUED, *UNDECIDED_CALL})
        alive = {run.pk: liveness.is_alive(run) for run in {call.run for call in found}}
        return [as_dict(call, alive=call.status == CallStatus.ISSUED and alive[call.run_id]) for call in found]


def undecided(store: Store, row: Session) -> list[ToolCall]:
    """The calls of a session that wait for a decision, oldest first."""
    return _of(store, row, set(UNDECIDED_CALL))


def _of(store: Store, row: Session, statuses: set[CallStatus]) -> list[ToolCall]:
    calls = ToolCall.objects.using(store.using).filter(session=row, status__in=sorted(statuses))
    return list(calls.select_related("run").order_by("pk"))


def as_dict(call: ToolCall, *, alive: bool = False) -> dict[str, Any]:
    """A call as users get it."""
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
    }
