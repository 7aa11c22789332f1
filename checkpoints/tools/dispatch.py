"""Dispatch of one call, from intent to outcome."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from checkpoints import tracing
from checkpoints.calls import (
    call_dicts,
    call_queries,
    intent_log,
    running_tools,
    sentence_templates,
    verify_call_seal_signatures_and_digests,
    write_outcomes,
)
from checkpoints.calls.outcome_types import ToolResult
from checkpoints.calls.running_tools import CallPlace, ToolRun
from checkpoints.constants import MAX_VALUE_BYTES
from checkpoints.db.database_operation import database_operation
from checkpoints.decisions import run_verify_hooks
from checkpoints.enums import UNDECIDED_CALL_STATUSES, CallStatus, InterruptReason, KeyPolicy
from checkpoints.exceptions import (
    ApprovalRequired,
    CallInProgress,
    CheckpointCorrupted,
    InsideTransaction,
    InvalidArguments,
    NotRepresentable,
    OwnershipLost,
    RegistryNotBound,
    ResultNotRecorded,
    ReviewRequired,
    SessionNotFound,
    StorageError,
    TooLarge,
)
from checkpoints.formats import digests
from checkpoints.formats.argument_order import encode_argument_order
from checkpoints.formats.canonical import parse_json, to_canonical_json
from checkpoints.ids import validate_id, validate_number
from checkpoints.integrity import quarantine
from checkpoints.models import ToolCall
from checkpoints.sansio import Flow, Invoke, Sleep, Transact
from checkpoints.store import row_lookups, run_liveness
from checkpoints.store.call_intent_and_outcome import CallIntent, CallOutcome, IssuedCall, require_args_dict
from checkpoints.store.database_client_state import OwnedSession, Store
from checkpoints.store.replayed_call_matching import CallFingerprint
from checkpoints.tools.idempotency import IdempotencyPolicy, get_policy_name, make_idempotency_key, make_unanswered_key

if TYPE_CHECKING:
    from checkpoints.tools.registry import ToolRegistry
    from checkpoints.tools.tool import Tool

logger = logging.getLogger(__name__)

#: Seconds between two checks of a call that runs elsewhere.
POLL_SECONDS = 0.05
#: Seconds between two checks for a person's approval.
APPROVAL_POLL_SECONDS = 0.25
_ANSWER_STATUSES = frozenset({CallStatus.COMPLETED, CallStatus.REJECTED})
#: Number of attempts to record a result: the tool has run, and its result matters.
RECORD_ATTEMPTS = 5
#: Errors that end the run of an agent, also if a tool raises them that has made a call itself.
_RUN_ENDING_ERRORS = (ReviewRequired, OwnershipLost, ResultNotRecorded, StorageError)


@dataclass(frozen=True)
class WaitOptions:
    """Conditions a dispatch waits for: the same call running elsewhere, and a person's approval."""

    for_others: bool = True
    for_approval: bool = False


def dispatch_call_flow(
    registry: ToolRegistry,
    name: str,
    args: dict[str, Any],
    call_id: str,
    *,
    step: int | None,
    waiting: WaitOptions,
) -> Flow[ToolResult]:
    """Dispatch one call from its intent to its result, for blocking and async drivers."""
    about = {tracing.OPERATION: "execute_tool", tracing.TOOL: str(name), tracing.CALL: str(call_id)}
    if registry.session_id is not None:
        about[tracing.SESSION] = registry.session_id
    with tracing.open_span(f"execute_tool {name}", about) as span:
        result = yield from _validate_and_dispatch_call_flow(registry, name, args, call_id, step, waiting)
        span.set_attributes(
            {
                "harness.call.replayed": result.replayed,
                "harness.call.attempt": result.attempt,
                "harness.call.is_error": result.is_error,
            }
        )
        return result


def _validate_and_dispatch_call_flow(
    registry: ToolRegistry,
    name: str,
    args: dict[str, Any],
    call_id: str,
    step: int | None,
    waiting: WaitOptions,
) -> Flow[ToolResult]:
    validate_id("call id", call_id)
    if step is not None:
        validate_number("step", step)
    tool = registry.tools.get(name)
    if tool is None:
        return ToolResult(call_id, f"There is no tool {name!r}. Nothing was run.", is_error=True)
    log = _find_call_log(registry, tool)
    try:
        require_args_dict(name, args)
        request = DispatchRequest(tool, registry.policy(tool), args, to_canonical_json(args, "args"), call_id, step)
        bound_args = tool.bind_arguments(args)
        if log is None:
            return (yield from _run_unlogged_flow(tool, bound_args, call_id))
    except (InvalidArguments, NotRepresentable, TooLarge) as error:
        return ToolResult(call_id, str(error), is_error=True)
    return (yield from _dispatch_logged_flow(log, request, bound_args, waiting))


@dataclass(frozen=True)
class DispatchRequest:
    """Requested call. `stored` is the canonical text of `args`."""

    tool: Tool
    policy: IdempotencyPolicy
    args: dict[str, Any]
    stored: str
    call_id: str
    step: int | None

    @property
    def call_fingerprint(self) -> CallFingerprint:
        return self.tool.name, digests.digest_text(self.stored)


class Execution(Protocol):
    """Issued call that this process runs now, and the log that it reports to."""

    @property
    def session_id(self) -> str: ...

    @property
    def run_id(self) -> str: ...

    @property
    def tool(self) -> Tool: ...

    @property
    def issued_call(self) -> IssuedCall: ...

    def write_outcome(self, outcome: CallOutcome) -> None:
        """Write the outcome. Raises `LateResultRefused`, `StorageError` and what else a write raises."""

    def ask_verify_hook_flow(self, error: Exception) -> Flow[ToolResult]:
        """Ask the tool's own verify hook about the interrupted call.

        Returns the result that it found. Raises `ReviewRequired` from `error` if a person has to decide.
        """

    def end_execution(self, *, answered: bool) -> None:
        """Report that nothing executes the call any more, and whether its dispatch ended with a result."""


class CallLog(Protocol):
    """Log of the calls of one session, in this process's database or behind a server."""

    def issue_call_flow(self, request: DispatchRequest, wait_options: WaitOptions) -> Flow[Execution | ToolResult]:
        """Log the intent of a call, or find its answer, after which nothing runs.

        Raises what a dispatch raises before its tool runs.
        """


def _dispatch_logged_flow(
    log: CallLog, request: DispatchRequest, bound_args: dict[str, Any], wait_options: WaitOptions
) -> Flow[ToolResult]:
    execution: Execution | ToolResult = yield from log.issue_call_flow(request, wait_options)
    if isinstance(execution, ToolResult):
        return execution
    answered = False
    try:
        result = yield from _run_logged_flow(execution, bound_args)
        answered = True
    finally:
        execution.end_execution(answered=answered)
    return replace(result, call_id=request.call_id)


@dataclass(frozen=True)
class StoreCallLog:
    """Call log of a session of this process's database."""

    store: Store
    session_id: str

    def issue_call_flow(self, request: DispatchRequest, wait_options: WaitOptions) -> Flow[StoreExecution | ToolResult]:
        store = self.store
        pairing = store.find_owned_session(self.session_id) if request.policy == "unanswered" else None
        if pairing is not None:
            pairing.operations.record_requested_call(
                request.call_fingerprint, request.call_id
            )  # before another call of this kind arrives
        try:
            owned_session: OwnedSession = yield Transact(
                lambda: row_lookups.flush_and_require_owned_session(store, self.session_id)
            )
            try:
                intent: CallIntent = yield Transact(lambda: _build_request_intent(store, owned_session, request))
            except (InvalidArguments, NotRepresentable, TooLarge) as error:
                return ToolResult(request.call_id, str(error), is_error=True)
            issued_call: IssuedCall | ToolCall = yield from issue_call_or_find_answer_flow(
                store, owned_session, intent, wait_options
            )
            if isinstance(issued_call, ToolCall):
                result = _build_result_of_logged_call(owned_session, request, issued_call)
                return (yield from _add_stored_value_flow(store, request.tool, issued_call, result))
            return StoreExecution(store, owned_session, request.tool, issued_call, request)
        except (ApprovalRequired, CallInProgress):  # will be requested again with the same call id
            raise
        except BaseException:
            if pairing is not None:
                pairing.operations.release_pairing(request.call_fingerprint, request.call_id)
            raise


@dataclass(frozen=True)
class StoreExecution:
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
        write_outcomes.write_call_outcome(self.store, self.owned_session, self.issued_call, outcome)

    def ask_verify_hook_flow(self, error: Exception) -> Flow[ToolResult]:
        call = yield from _ask_verify_hook_about_call_flow(
            self.store, self.session_id, self.tool, self.issued_call, error
        )
        is_error = call.status != CallStatus.COMPLETED
        return ToolResult(call.call_id, call.result_text or "", is_error=is_error, attempt=call.attempt)

    def end_execution(self, *, answered: bool) -> None:
        self.store.executing.discard(self.issued_call.pk)
        if not answered and self.request is not None and self.request.policy == "unanswered":
            self.owned_session.operations.release_pairing(self.request.call_fingerprint, self.request.call_id)


def _find_call_log(registry: ToolRegistry, tool: Tool) -> CallLog | None:
    """Return the log in which a call of `tool` is logged; None for a call that is not logged.

    Raises `RegistryNotBound` for a tool with side effects unless the registry permits calls without a log.
    """
    if not tool.logged:
        return None
    if registry.checkpointer is not None and registry.session_id is not None:
        store = registry.checkpointer.store
        open_log = StoreCallLog if store.open_call_log is None else store.open_call_log
        return open_log(store, registry.session_id)
    if registry.unlogged and not tool.requires_approval:  # approvals need the log
        return None
    raise RegistryNotBound(tool.name, "checkpointer" if registry.checkpointer is None else "session id")


def _build_request_intent(store: Store, owned_session: OwnedSession, request: DispatchRequest) -> CallIntent:
    tool, step, call_id = request.tool, request.step, request.call_id
    if step is None:
        open_call = owned_session.open_calls.get(call_id)
        is_open = open_call is not None and (open_call.tool, open_call.args_digest) == request.call_fingerprint
        step = open_call.step if open_call is not None and is_open else owned_session.head.version
    if request.policy == "unanswered":
        key = _assign_operation_key(store, owned_session, request)
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
    return build_tool_intent(tool, request.args, request.stored, get_policy_name(request.policy), key, call_id, step)


def _assign_operation_key(store: Store, owned_session: OwnedSession, request: DispatchRequest) -> str:
    """Return the key of the operation of an unanswered call: one of the log or a new one."""
    step = owned_session.head.version
    new_key = partial(
        make_unanswered_key,
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
        read=lambda: call_queries.list_unanswered_calls(store, owned_session.pk),
    )


def build_tool_intent(
    tool: Tool, args: dict[str, Any], stored: str, policy: KeyPolicy, key: str, call_id: str, step: int | None
) -> CallIntent:
    """Build the intent to run `tool`; `stored` is the canonical text of `args`, and `policy` the one that made
    `key`."""
    return CallIntent(
        call_id=call_id,
        tool=tool.name,
        args=stored,
        args_order=encode_argument_order(args),
        key=key,
        step=step,
        scope=tool.scope,
        policy=policy,
        side_effects=tool.side_effects,
        declared_risk=tool.risk,
        sentence=sentence_templates.replace_unstorable_characters(tool.describe(args)),
        sentence_template=sentence_templates.replace_unstorable_characters(tool.sentence),
        verifiable=tool.verify is not None,
        requires_approval=tool.requires_approval,
        approvals=tool.approvals,
        decide_within=None if tool.decide_within is None else timedelta(seconds=tool.decide_within),
    )


def _run_unlogged_flow(tool: Tool, bound_args: dict[str, Any], call_id: str) -> Flow[ToolResult]:
    try:
        value = yield Invoke(tool.run, bound_args, tool.timeout)
    except _RUN_ENDING_ERRORS:
        raise
    except Exception as error:
        return ToolResult(call_id, _describe_tool_error(tool, error), is_error=True)
    return ToolResult(call_id, _to_model_text(tool, value), value=value)


def issue_call_or_find_answer_flow(
    store: Store, owned_session: OwnedSession, intent: CallIntent, wait_options: WaitOptions
) -> Flow[IssuedCall | ToolCall]:
    """Log the intent, or find the call that answers it: one that has happened, or that a person rejected.

    Waits for a running call or an approval. An `IssuedCall` runs now; its caller removes it from `store.executing`
    at the
    end.
    """
    while True:
        call: IssuedCall | ToolCall = yield Transact(partial(_issue_call, store, owned_session, intent))
        if isinstance(call, IssuedCall):
            return call
        if call.status in _ANSWER_STATUSES:
            verify_call_seal_signatures_and_digests.require_matching_digests(call)
            if (yield Transact(partial(intent_log.increment_replay_count, store, owned_session, call))):
                return call
            continue  # a person has just withdrawn the decision that made the result
        yield from _wait_for_other_call_flow(store, owned_session, call, wait_options)


def _issue_call(store: Store, owned_session: OwnedSession, intent: CallIntent) -> IssuedCall | ToolCall:
    with quarantine.quarantine_on_integrity_error(store, owned_session.session_id):
        return intent_log.issue_call(store, owned_session, intent, executing=True)


def _build_result_of_logged_call(owned_session: OwnedSession, request: DispatchRequest, call: ToolCall) -> ToolResult:
    is_rejected = call.status == CallStatus.REJECTED
    is_answered = call.answered_version is not None and call.session_id == owned_session.pk
    if is_answered:
        _warn_about_repeated_replay(owned_session.session_id, request)
    return ToolResult(
        request.call_id,
        call.result_text or "",
        is_error=is_rejected,
        replayed=True,
        attempt=call.attempt,
        answered_before=is_answered,
    )


def _add_stored_value_flow(store: Store, tool: Tool, call: ToolCall, result: ToolResult) -> Flow[ToolResult]:
    """Add the value of a replayed call, if its tool has a codec and the value is stored."""
    codec = tool.codec
    if codec is None or result.is_error:
        return result
    encoded: tuple[str, bytes] | None = yield Transact(lambda: write_outcomes.load_encoded_result_value(store, call))
    return result if encoded is None else replace(result, value=codec.decode(encoded))


#: Tools of this process whose replay was logged, by object identity.
_reported_tools: weakref.WeakValueDictionary[int, Tool] = weakref.WeakValueDictionary()


def _warn_about_repeated_replay(session_id: str, request: DispatchRequest) -> None:
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


def _wait_for_other_call_flow(
    store: Store, owned_session: OwnedSession, other_call: ToolCall, wait_options: WaitOptions
) -> Flow[None]:
    """Sleep while another run works on the call of the same key, or raise the error that says why waiting is
    useless."""
    session_id = other_call.session.session_id
    if other_call.status == CallStatus.AWAITING_APPROVAL:
        if not wait_options.for_approval:
            raise ApprovalRequired(session_id, [call_dicts.call_to_dict(other_call)])
        yield Sleep(APPROVAL_POLL_SECONDS)
        return
    if other_call.status == CallStatus.INTERRUPTED:
        raise (yield Transact(partial(call_dicts.build_review_required, store, session_id, [other_call])))
    alive: bool = yield Transact(partial(_is_call_still_executed, store, owned_session, other_call))
    if not alive:
        try:
            call: ToolCall = yield Transact(partial(call_queries.get_call, store, session_id, other_call.pk))
        except SessionNotFound:
            return  # deleted with its session; the next check finds out if it was this one
        if call.status in {CallStatus.ISSUED, CallStatus.INTERRUPTED}:
            raise (yield Transact(partial(call_dicts.build_review_required, store, session_id, [call])))
        return  # it ended between the two checks
    if not wait_options.for_others:
        raise CallInProgress(session_id, other_call.call_id, other_call.tool)
    running_tools.require_outside_call(session_id, other_call.tool, other_call.call_id)
    yield Sleep(POLL_SECONDS)


def _is_call_still_executed(store: Store, owned_session: OwnedSession, call: ToolCall) -> bool:
    """Return whether a process still works on the call of the same key. A call that this run abandoned is
    interrupted."""
    if call.run_id != owned_session.run_id:
        with database_operation(store.using, writes=False):
            return run_liveness.is_run_alive(call.run)
    if call.pk in store.executing:
        return True
    write_outcomes.interrupt_call(store, owned_session, call)
    return False


def _run_logged_flow(execution: Execution, bound_args: dict[str, Any]) -> Flow[ToolResult]:
    tool, issued_call = execution.tool, execution.issued_call
    if issued_call.args is not None:
        try:
            bound_args = tool.bind_arguments(_parse_stored_args(execution))
        except InvalidArguments as error:
            outcome = CallOutcome(CallStatus.FAILED, to_canonical_json(str(error)), type(error).__name__)
            yield from record_outcome_flow(execution, outcome, str(error))
            return ToolResult(issued_call.call_id, str(error), is_error=True, attempt=issued_call.attempt)
    invoke = build_tool_invocation(execution, tool.run, bound_args)
    try:
        value = yield invoke
    except GeneratorExit:
        raise
    except BaseException as error:
        result = yield from record_outcome_of_error_flow(execution, error, started=invoke.started)
        if result is not None:
            return result
        if isinstance(error, _RUN_ENDING_ERRORS):
            raise
        return ToolResult(
            issued_call.call_id, _describe_tool_error(tool, error), is_error=True, attempt=issued_call.attempt
        )
    content = _to_model_text(tool, value)
    outcome = CallOutcome(
        CallStatus.COMPLETED, to_canonical_json(content, "result"), value=_encode_value_for_log(tool, value)
    )
    yield from record_outcome_flow(execution, outcome, content)
    return ToolResult(issued_call.call_id, content, attempt=issued_call.attempt, value=value)


def build_tool_invocation(execution: Execution, function: Callable[..., Any], arguments: dict[str, Any]) -> Invoke:
    """Build the step that calls the function of an issued call; this process knows from its start to its end that
    it runs."""
    call = execution.issued_call
    session_id, tool = execution.session_id, execution.tool.name
    place = CallPlace(execution.run_id, session_id, tool, call.call_id, call.step, call.attempt)
    run = ToolRun(place, function)
    return Invoke(run.function, arguments, execution.tool.timeout, on_start=run.begin)


def _to_model_text(tool: Tool, value: Any) -> str:
    """Return the model's text of a value. The call has happened, so this never fails."""
    if tool.codec is not None and tool.codec.to_text is not None:
        try:
            value = tool.codec.to_text(value)
        except Exception:
            logger.warning("The codec of tool %r could not make a text of its value.", tool.name, exc_info=True)
    return to_model_content(value)


def _encode_value_for_log(tool: Tool, value: Any) -> tuple[str, bytes] | None:
    """Encode a value for the log; None if the tool has no codec, or if that fails: the call has happened."""
    if tool.codec is None:
        return None
    try:
        type_, content = tool.codec.encode(value)
        if len(content) <= MAX_VALUE_BYTES:
            return str(type_)[:40], bytes(content)
        logger.warning("The value of tool %r is too large, so only its text is stored.", tool.name)
    except Exception:
        logger.warning("The value of tool %r could not be encoded: only its text is stored.", tool.name, exc_info=True)
    return None


def _parse_stored_args(execution: Execution) -> Any:
    try:
        return parse_json(execution.issued_call.args or "{}")
    except ValueError as error:
        label = f"the arguments of call {execution.issued_call.call_id!r}"
        raise CheckpointCorrupted(execution.session_id, label, str(error)) from error


def record_outcome_of_error_flow(
    execution: Execution, error: BaseException, *, started: bool
) -> Flow[ToolResult | None]:
    """Log the outcome after an error: the call did not happen (None), or the result that a probe found if that is
    unknown.

    Raises `error` if it has to stop the run, and `ReviewRequired` if a person has to decide.
    """
    tool = execution.tool
    description = _describe_tool_error(tool, error)
    if not started:
        outcome = CallOutcome(
            CallStatus.FAILED, to_canonical_json("It was stopped before it began."), type(error).__name__
        )
        yield from record_outcome_flow(execution, outcome, description)
        raise error
    if not tool.logged or not tool.leaves_outcome_unknown(error):
        outcome = CallOutcome(CallStatus.FAILED, to_canonical_json(description), type(error).__name__)
        yield from record_outcome_flow(execution, outcome, description)
        return None
    reason = InterruptReason.AMBIGUOUS_ERROR if isinstance(error, Exception) else InterruptReason.CANCELLED
    outcome = CallOutcome(CallStatus.INTERRUPTED, to_canonical_json(description), type(error).__name__, reason)
    yield from record_outcome_flow(execution, outcome, description)
    if not isinstance(error, Exception):
        raise error
    return (yield from execution.ask_verify_hook_flow(error))


def _ask_verify_hook_about_call_flow(
    store: Store, session_id: str, tool: Tool, issued_call: IssuedCall, error: Exception
) -> Flow[ToolCall]:
    """Ask the tool's own verify hook about the call. If it cannot tell, a person has to decide."""
    call: ToolCall = yield Transact(lambda: call_queries.get_call(store, session_id, issued_call.pk))
    probe = run_verify_hooks.build_probe_with_hook(tool.verify, session_id, call)
    if probe is not None:
        yield from run_verify_hooks.run_probe_flow(store, probe)
        call = yield Transact(lambda: call_queries.get_call(store, session_id, issued_call.pk))
    if call.status in UNDECIDED_CALL_STATUSES:
        raise (yield Transact(partial(call_dicts.build_review_required, store, session_id, [call]))) from error
    return call


def record_outcome_flow(execution: Execution, outcome: CallOutcome, content: str) -> Flow[None]:
    """Write the outcome of a call that has run, with retries. Raises `ResultNotRecorded`."""
    for attempt in range(1, RECORD_ATTEMPTS + 1):
        try:
            yield Transact(lambda: execution.write_outcome(outcome))
        except StorageError as error:
            if attempt == RECORD_ATTEMPTS:
                raise ResultNotRecorded(execution.session_id, execution.issued_call.call_id, content) from error
            yield Sleep(0.1 * attempt)
        except InsideTransaction as error:  # the tool has left a transaction open
            raise ResultNotRecorded(execution.session_id, execution.issued_call.call_id, content) from error
        else:
            return


def to_model_content(value: Any) -> str:
    """Convert a tool's return value to the model's text: text as it is, anything else as JSON, or as its `repr`.

    The call has happened, so this never fails; text that is too long is truncated with a note.
    """
    try:
        text = value if isinstance(value, str) else to_canonical_json(value, "result")
        to_canonical_json(text, "result")
    except TooLarge:
        text = value if isinstance(value, str) else repr(value)
        size = MAX_VALUE_BYTES // 8
        text = f"{_drop_unencodable(text[:size])}\n(cut: the tool returned {len(text):,} characters, {size:,} are kept)"
    except Exception:  # no exact JSON form
        text = f"(not JSON) {_drop_unencodable(_to_safe_repr(value))}"
    return text


def _to_safe_repr(value: object) -> str:
    """Return `repr` or `str` of the value, whatever the object's own code does."""
    try:
        return repr(value) if not isinstance(value, BaseException | str) else str(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def _drop_unencodable(text: str) -> str:
    """Return `text` without the characters that have no JSON form."""
    return text.encode("utf-8", "backslashreplace").decode()


def _describe_tool_error(tool: Tool, error: BaseException) -> str:
    return _drop_unencodable(f"{tool.name} raised {type(error).__name__}: {_to_safe_repr(error)}")
