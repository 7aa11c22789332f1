"""Log of calls in this process's database."""

from __future__ import annotations

import logging
import weakref
from dataclasses import dataclass, replace
from functools import partial

from checkpoints.calls import (
    call_queries,
    convert_calls_to_dicts,
    intent_log,
    registry_of_running_tools,
    require_unaltered_call,
    write_outcomes_and_interruptions,
)
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.db import clock
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.decisions import record_verify_hook_answers
from checkpoints.decisions.decision_poll_interval import compute_decision_poll_interval
from checkpoints.enums import UNDECIDED_CALL_STATUSES, CallStatus
from checkpoints.exceptions import (
    ApprovalRequired,
    CallInProgress,
    CheckpointCorrupted,
    InvalidArguments,
    NotRepresentable,
    SessionNotFound,
    TooLarge,
)
from checkpoints.integrity import quarantine
from checkpoints.models import ToolCall
from checkpoints.store import look_up_and_lock_rows, run_liveness_check
from checkpoints.store.call_intent_and_outcome_types import CallIntent, CallOutcome, IssuedCall
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.sync_and_async_flow_runners import Flow, Sleep, Transact
from checkpoints.tools.idempotency import get_policy_name, make_idempotency_key, make_key_by_unanswered_policy
from checkpoints.tools.run_call_and_record_outcome import (
    POLL_SECONDS,
    DispatchRequest,
    WaitOptions,
    build_call_intent_of_tool,
)
from checkpoints.tools.tool import Tool

logger = logging.getLogger(__name__)

_ANSWER_STATUSES = frozenset({CallStatus.COMPLETED, CallStatus.REJECTED})


@dataclass(frozen=True)
class DatabaseCallLog:
    """Call log of a session of this process's database."""

    store: Store
    session_id: str

    def issue_or_answer_call_flow(
        self, request: DispatchRequest, wait_options: WaitOptions
    ) -> Flow[DatabaseExecution | ToolResult]:
        store = self.store
        pairing = store.find_owned_session(self.session_id) if request.policy == "unanswered" else None
        if pairing is not None:
            pairing.operations.remember_requested_call(
                request.call_fingerprint, request.call_id
            )  # before another call of this kind arrives
        try:
            owned_session: OwnedSession = yield Transact(
                lambda: look_up_and_lock_rows.flush_and_require_owned_session(store, self.session_id)
            )
            try:
                intent: CallIntent = yield Transact(
                    lambda: _assign_operation_key_and_build_intent(store, owned_session, request)
                )
            except (InvalidArguments, NotRepresentable, TooLarge) as error:
                return ToolResult(request.call_id, str(error), is_error=True)
            issued_call: IssuedCall | ToolCall = yield from issue_call_or_find_answer_flow(
                store, owned_session, intent, wait_options
            )
            if isinstance(issued_call, ToolCall):
                result = _build_result_of_logged_call(owned_session, request, issued_call)
                return (yield from _add_stored_result_value_flow(store, request.tool, issued_call, result))
            return DatabaseExecution(store, owned_session, request.tool, issued_call, request)
        except (ApprovalRequired, CallInProgress):  # will be requested again with the same call id
            raise
        except BaseException:
            if pairing is not None:
                pairing.operations.release_pairing(request.call_fingerprint, request.call_id)
            raise


@dataclass(frozen=True)
class DatabaseExecution:
    """Issued call of a session that this process owned when it issued it; `request` is None for a workflow's step."""

    store: Store
    owned_session: OwnedSession
    tool: Tool
    issued_call: IssuedCall
    request: DispatchRequest | None = None

    @property
    def session_id(self) -> str:
        return self.owned_session.session_id

    @property
    def run_id(self) -> str:
        return str(self.owned_session.run_id)

    def write_outcome(self, outcome: CallOutcome) -> None:
        with quarantine.quarantine_on_integrity_error(self.store, self.session_id):
            write_outcomes_and_interruptions.write_call_outcome_or_store_late_result_and_raise(
                self.store, self.owned_session, self.issued_call, outcome
            )

    def settle_by_verify_hook_flow(self, error: Exception) -> Flow[ToolResult]:
        call = yield from _settle_call_by_verify_hook_flow(
            self.store, self.session_id, self.tool, self.issued_call, error
        )
        is_error = call.status != CallStatus.COMPLETED
        return ToolResult(call.call_id, call.result_text or "", is_error=is_error, attempt=call.attempt)

    def mark_execution_as_ended(self, *, answered: bool) -> None:
        self.store.executing.discard(self.issued_call.pk)
        if not answered and self.request is not None and self.request.policy == "unanswered":
            self.owned_session.operations.release_pairing(self.request.call_fingerprint, self.request.call_id)


def _assign_operation_key_and_build_intent(
    store: Store, owned_session: OwnedSession, request: DispatchRequest
) -> CallIntent:
    tool, step, call_id = request.tool, request.step, request.call_id
    if step is None:
        open_call = owned_session.open_calls.get(call_id)
        is_open = open_call is not None and (open_call.tool, open_call.args_digest) == request.call_fingerprint
        step = open_call.step if open_call is not None and is_open else owned_session.head.version
    if request.policy == "unanswered":
        key = _find_or_make_operation_key(store, owned_session, request)
    else:
        key = make_idempotency_key(
            request.policy,
            tool.scope,
            workspace=store.workspace,
            key_space=owned_session.key_space,
            tool=tool.name,
            args=request.args,
            call_id=call_id,
            step=step,
        )
        if request.policy == "call" and request.tool.continues_open_calls and request.step is None:
            key = owned_session.operations.assign_operation_key_by_call_id(
                request.call_fingerprint, call_id, key, partial(_list_unanswered_calls, store, owned_session)
            )
    return build_call_intent_of_tool(
        tool, request.args, request.stored, get_policy_name(request.policy), key, call_id, step
    )


def _find_or_make_operation_key(store: Store, owned_session: OwnedSession, request: DispatchRequest) -> str:
    """Return the key of the operation of an unanswered call: one of the log or a new one."""
    step = owned_session.head.version
    new_key = partial(
        make_key_by_unanswered_policy,
        workspace=store.workspace,
        key_space=owned_session.key_space,
        session=owned_session.pk,
        tool=request.tool.name,
        args=request.args,
        step=step,
    )
    return owned_session.operations.assign_operation_key(
        request.call_fingerprint,
        request.call_id,
        step,
        make_key=lambda number: new_key(number=number),
        read=partial(_list_unanswered_calls, store, owned_session),
    )


def _list_unanswered_calls(store: Store, owned_session: OwnedSession) -> list[ToolCall]:
    with quarantine.quarantine_on_integrity_error(store, owned_session.session_id):
        return call_queries.list_unanswered_calls_and_require_complete_log(store, owned_session.pk)


def issue_call_or_find_answer_flow(
    store: Store, owned_session: OwnedSession, intent: CallIntent, wait_options: WaitOptions
) -> Flow[IssuedCall | ToolCall]:
    """Log the intent, or find the call that answers it: one that has happened, or that a person rejected.

    Waits for a running call or an approval. An `IssuedCall` runs now; its caller removes it from `store.executing` at
    the end.
    """
    while True:
        call: IssuedCall | ToolCall = yield Transact(partial(_issue_call_or_quarantine, store, owned_session, intent))
        if isinstance(call, IssuedCall):
            return call
        if call.status in _ANSWER_STATUSES:
            with quarantine.quarantine_on_integrity_error(store, owned_session.session_id):
                require_unaltered_call.require_matching_digests(call)
            if (yield Transact(partial(_count_replay_if_call_unchanged, store, owned_session, call))):
                return call
            continue  # a person has just withdrawn the decision that made the result
        yield from _sleep_while_other_call_runs_or_raise_flow(store, owned_session, call, wait_options)


def _issue_call_or_quarantine(store: Store, owned_session: OwnedSession, intent: CallIntent) -> IssuedCall | ToolCall:
    with quarantine.quarantine_on_integrity_error(store, owned_session.session_id):
        return intent_log.issue_call_or_find_live_call(store, owned_session, intent, executing=True)


def _count_replay_if_call_unchanged(store: Store, owned_session: OwnedSession, call: ToolCall) -> bool:
    with quarantine.quarantine_on_integrity_error(store, owned_session.session_id):
        return intent_log.count_replay_if_unchanged(store, owned_session, call)


def _build_result_of_logged_call(owned_session: OwnedSession, request: DispatchRequest, call: ToolCall) -> ToolResult:
    is_rejected = call.status == CallStatus.REJECTED
    is_answered = call.answered_version is not None and call.session_id == owned_session.pk
    if is_answered:
        _log_repeated_replay_once_per_tool(owned_session.session_id, request)
    return ToolResult(
        request.call_id,
        call.result_text or "",
        is_error=is_rejected,
        replayed=True,
        attempt=call.attempt,
        answered_before=is_answered,
    )


def _add_stored_result_value_flow(store: Store, tool: Tool, call: ToolCall, result: ToolResult) -> Flow[ToolResult]:
    """Add the value of a replayed call, if its tool has a codec and the value is stored.

    Raises `CheckpointCorrupted` if the codec cannot read the stored value.
    """
    codec = tool.codec
    if codec is None or result.is_error:
        return result
    encoded: tuple[str, bytes] | None = yield Transact(
        lambda: write_outcomes_and_interruptions.load_encoded_result_value(store, call)
    )
    if encoded is None:
        return result
    try:
        return replace(result, value=codec.decode(encoded))
    except Exception as error:
        why = f"the codec of {tool.name!r} cannot read it: {type(error).__name__}: {error}"
        raise CheckpointCorrupted(call.session.session_id, f"the value of call {call.call_id!r}", why) from error


#: Tools of this process whose replay was logged, by object identity.
_reported_tools: weakref.WeakValueDictionary[int, Tool] = weakref.WeakValueDictionary()


def _log_repeated_replay_once_per_tool(session_id: str, request: DispatchRequest) -> None:
    """Log, once for each tool, that its policy replays a result that the model has already seen.

    A default policy may surprise the author of the tool, so that is a warning.
    """
    tool = request.tool
    if _reported_tools.get(id(tool)) is tool:
        return
    _reported_tools[id(tool)] = tool
    logger.log(
        logging.WARNING if tool.idempotency is None else logging.INFO,
        "Session %s: the call %s of tool %r was answered from the log. A saved version had answered the same call "
        "before, and by the idempotency policy %r both are one operation, so the tool did not run. With "
        "idempotency='unanswered' it runs again once its last result is saved, with 'call' each call runs.",
        session_id,
        request.call_id,
        tool.name,
        get_policy_name(request.policy).value,
    )


def _sleep_while_other_call_runs_or_raise_flow(
    store: Store, owned_session: OwnedSession, other_call: ToolCall, wait_options: WaitOptions
) -> Flow[None]:
    """Sleep while another run works on the call of the same key, or raise the error that says why waiting is
    useless."""
    session_id = other_call.session.session_id
    if other_call.status == CallStatus.AWAITING_APPROVAL:
        if not wait_options.for_approval:
            raise ApprovalRequired(session_id, [convert_calls_to_dicts.call_to_dict(other_call)])
        waited = (clock.now() - other_call.issued_at).total_seconds()
        yield Sleep(compute_decision_poll_interval(waited))
        return
    if other_call.status == CallStatus.INTERRUPTED:
        raise (
            yield Transact(
                partial(convert_calls_to_dicts.load_reasons_and_build_review_required, store, session_id, [other_call])
            )
        )
    alive: bool = yield Transact(partial(_is_executing_else_interrupt_if_abandoned, store, owned_session, other_call))
    if not alive:
        try:
            call: ToolCall = yield Transact(
                partial(call_queries.get_verified_call_by_pk, store, session_id, other_call.pk)
            )
        except SessionNotFound:
            return  # deleted with its session; the next check finds out if it was this one
        if call.status in {CallStatus.ISSUED, CallStatus.INTERRUPTED}:
            raise (
                yield Transact(
                    partial(convert_calls_to_dicts.load_reasons_and_build_review_required, store, session_id, [call])
                )
            )
        return  # it ended between the two checks
    if not wait_options.for_others:
        raise CallInProgress(session_id, other_call.call_id, other_call.tool)
    registry_of_running_tools.require_not_inside_running_call(session_id, other_call.tool, other_call.call_id)
    yield Sleep(POLL_SECONDS)


def _is_executing_else_interrupt_if_abandoned(store: Store, owned_session: OwnedSession, call: ToolCall) -> bool:
    """Return whether a process still works on the call of the same key. A call that this run abandoned is
    interrupted."""
    if call.run_id != owned_session.run_id:
        with database_operation(store.using, writes=False):
            return run_liveness_check.is_run_alive(call.run)
    if not store.is_issued_call_no_longer_executing(call.pk):
        return True
    write_outcomes_and_interruptions.interrupt_or_discard_call(store, owned_session, call)
    return False


def _settle_call_by_verify_hook_flow(
    store: Store, session_id: str, tool: Tool, issued_call: IssuedCall, error: Exception
) -> Flow[ToolCall]:
    """Ask the tool's own verify hook about the call. If it cannot tell, a person has to decide."""
    call: ToolCall = yield Transact(lambda: call_queries.get_verified_call_by_pk(store, session_id, issued_call.pk))
    probe = record_verify_hook_answers.build_probe_with_hook(tool.verify, session_id, call)
    if probe is not None:
        yield from record_verify_hook_answers.ask_hook_and_record_answer_flow(store, probe)
        call = yield Transact(lambda: call_queries.get_verified_call_by_pk(store, session_id, issued_call.pk))
    if call.status in UNDECIDED_CALL_STATUSES:
        raise (
            yield Transact(
                partial(convert_calls_to_dicts.load_reasons_and_build_review_required, store, session_id, [call])
            )
        ) from error
    return call
