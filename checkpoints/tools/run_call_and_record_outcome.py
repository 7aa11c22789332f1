"""Run one call of a known tool and record its outcome, after the log has its intent; what a dispatch of it needs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol

from checkpoints.calls.registry_of_running_tools import CallPlace, ToolRun
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.constants import MAX_VALUE_BYTES
from checkpoints.enums import CallStatus, InterruptReason, KeyPolicy
from checkpoints.exceptions import (
    CheckpointCorrupted,
    InsideTransaction,
    InvalidArguments,
    OwnershipLost,
    ResultNotRecorded,
    ReviewRequired,
    SealError,
    StorageError,
    TooLarge,
    WitnessError,
)
from checkpoints.formats import digests
from checkpoints.formats.caller_argument_order import encode_argument_order
from checkpoints.formats.canonical_json import parse_json, to_canonical_json
from checkpoints.formats.storable_text import replace_unstorable_characters
from checkpoints.store.call_intent_and_outcome_types import CallIntent, CallOutcome, IssuedCall
from checkpoints.store.replayed_call_matching import CallFingerprint
from checkpoints.sync_and_async_flow_runners import Flow, Invoke, Sleep, Transact
from checkpoints.tools.idempotency import IdempotencyPolicy
from checkpoints.tools.tool import Tool

logger = logging.getLogger(__name__)

#: Seconds between two checks of a call that runs elsewhere.
POLL_SECONDS = 0.05
#: Number of attempts to record a result: the tool has run, and its result matters.
RECORD_ATTEMPTS = 5
#: Errors that end the run of an agent, also if a tool raises them that has made a call itself.
_RUN_ENDING_ERRORS = (ReviewRequired, OwnershipLost, ResultNotRecorded, StorageError)


@dataclass(frozen=True)
class WaitOptions:
    """Conditions a dispatch waits for: the same call running elsewhere, and a person's approval."""

    for_others: bool = True
    for_approval: bool = False


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

    def settle_by_verify_hook_flow(self, error: Exception) -> Flow[ToolResult]:
        """Ask the tool's own verify hook about the interrupted call.

        Returns the result that it found. Raises `ReviewRequired` from `error` if a person has to decide.
        """

    def mark_execution_as_ended(self, *, answered: bool) -> None:
        """Report that nothing executes the call any more, and whether its dispatch ended with a result."""


class CallLog(Protocol):
    """Log of the calls of one session, in this process's database or behind a server."""

    def issue_or_answer_call_flow(
        self, request: DispatchRequest, wait_options: WaitOptions
    ) -> Flow[Execution | ToolResult]:
        """Log the intent of a call, or find its answer, after which nothing runs.

        Raises what a dispatch raises before its tool runs.
        """


def dispatch_logged_call_flow(
    log: CallLog, request: DispatchRequest, bound_args: dict[str, Any], wait_options: WaitOptions
) -> Flow[ToolResult]:
    """Run a call that a log records, unless the log has its answer already."""
    execution: Execution | ToolResult = yield from log.issue_or_answer_call_flow(request, wait_options)
    if isinstance(execution, ToolResult):
        return execution
    answered = False
    try:
        result = yield from _run_issued_call_and_record_outcome_flow(execution, bound_args)
        answered = True
    finally:
        execution.mark_execution_as_ended(answered=answered)
    return replace(result, call_id=request.call_id)


def build_call_intent_of_tool(
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
        sentence=replace_unstorable_characters(tool.describe_call(args)),
        sentence_template=replace_unstorable_characters(tool.sentence),
        verifiable=tool.verify is not None,
        requires_approval=tool.requires_approval,
        approvals=tool.approvals,
        decide_within=None if tool.decide_within is None else timedelta(seconds=tool.decide_within),
    )


def run_unlogged_call_flow(tool: Tool, bound_args: dict[str, Any], call_id: str) -> Flow[ToolResult]:
    """Run a call that no log records."""
    try:
        value = yield Invoke(tool.run, bound_args, tool.timeout)
    except _RUN_ENDING_ERRORS:
        raise
    except Exception as error:
        return ToolResult(call_id, _describe_tool_error(tool, error), is_error=True)
    return ToolResult(call_id, _to_model_text(tool, value), value=value)


def _run_issued_call_and_record_outcome_flow(execution: Execution, bound_args: dict[str, Any]) -> Flow[ToolResult]:
    tool, issued_call = execution.tool, execution.issued_call
    if issued_call.args is not None:
        try:
            bound_args = tool.bind_arguments(_parse_stored_args(execution))
        except InvalidArguments as error:
            outcome = build_invalid_arguments_outcome(error)
            yield from record_outcome_with_retries_flow(execution, outcome, str(error))
            return ToolResult(issued_call.call_id, str(error), is_error=True, attempt=issued_call.attempt)
    invoke = build_tool_invocation(execution, tool.run, bound_args)
    try:
        value = yield invoke
    except GeneratorExit:
        raise
    except BaseException as error:
        result = yield from record_error_outcome_and_ask_verify_hook_flow(execution, error, started=invoke.started)
        if result is not None:
            return result
        if isinstance(error, _RUN_ENDING_ERRORS):
            raise
        return ToolResult(
            issued_call.call_id, _describe_tool_error(tool, error), is_error=True, attempt=issued_call.attempt
        )
    content = _to_model_text(tool, value)
    outcome = CallOutcome(
        CallStatus.COMPLETED, to_canonical_json(content, "result"), value=_encode_value_with_codec_or_none(tool, value)
    )
    yield from record_outcome_with_retries_flow(execution, outcome, content)
    return ToolResult(issued_call.call_id, content, attempt=issued_call.attempt, value=value)


def build_tool_invocation(execution: Execution, function: Callable[..., Any], arguments: dict[str, Any]) -> Invoke:
    """Build the step that calls the function of an issued call; this process knows from its start to its end that
    it runs."""
    call = execution.issued_call
    session_id, tool = execution.session_id, execution.tool.name
    place = CallPlace(execution.run_id, session_id, tool, call.call_id, call.step, call.attempt)
    run = ToolRun(place, function)
    return Invoke(run.function, arguments, execution.tool.timeout, on_start=run.increment_running_count)


def _to_model_text(tool: Tool, value: Any) -> str:
    """Return the model's text of a value. The call has happened, so this never fails."""
    if tool.codec is not None and tool.codec.to_text is not None:
        try:
            value = tool.codec.to_text(value)
        except Exception:
            logger.warning("The codec of tool %r could not make a text of its value.", tool.name, exc_info=True)
    return to_model_content(value)


def _encode_value_with_codec_or_none(tool: Tool, value: Any) -> tuple[str, bytes] | None:
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


def record_error_outcome_and_ask_verify_hook_flow(
    execution: Execution, error: BaseException, *, started: bool
) -> Flow[ToolResult | None]:
    """Log the outcome after an error: the call did not happen (None), or the result that a probe found if that is
    unknown.

    Raises `error` if it has to stop the run, and `ReviewRequired` if a person has to decide.
    """
    tool = execution.tool
    description = _describe_tool_error(tool, error)
    error_type, message = type(error).__name__, replace_unstorable_characters(_to_error_message(error))
    if not started:
        outcome = CallOutcome(
            CallStatus.FAILED, to_canonical_json("It was stopped before it began."), error_type, message
        )
        yield from record_outcome_with_retries_flow(execution, outcome, description)
        raise error
    if not tool.logged or not tool.leaves_outcome_unknown(error):
        outcome = CallOutcome(CallStatus.FAILED, to_canonical_json(description), error_type, message)
        yield from record_outcome_with_retries_flow(execution, outcome, description)
        return None
    reason = InterruptReason.AMBIGUOUS_ERROR if isinstance(error, Exception) else InterruptReason.CANCELLED
    outcome = CallOutcome(CallStatus.INTERRUPTED, None, error_type, message, reason)
    yield from record_outcome_with_retries_flow(execution, outcome, description)
    if not isinstance(error, Exception):
        raise error
    return (yield from execution.settle_by_verify_hook_flow(error))


def build_invalid_arguments_outcome(error: InvalidArguments) -> CallOutcome:
    """Build the outcome of a call that did not start, because the arguments that a person gave do not fit its tool."""
    message = replace_unstorable_characters(str(error))
    return CallOutcome(CallStatus.FAILED, to_canonical_json(str(error)), type(error).__name__, message)


def record_outcome_with_retries_flow(execution: Execution, outcome: CallOutcome, content: str) -> Flow[None]:
    """Write the outcome of a call that has run, with retries. Raises `ResultNotRecorded`."""
    for attempt in range(1, RECORD_ATTEMPTS + 1):
        try:
            yield Transact(lambda: execution.write_outcome(outcome))
        except (StorageError, WitnessError) as error:
            if attempt == RECORD_ATTEMPTS:
                raise ResultNotRecorded(execution.session_id, execution.issued_call.call_id, content) from error
            yield Sleep(0.1 * attempt)
        except (InsideTransaction, SealError) as error:  # the tool has left a transaction open, or a row was altered
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
        kept = _escape_unencodable_characters(text[:size])
        text = f"{kept}\n(cut: the tool returned {len(text):,} characters, {size:,} are kept)"
    except Exception:  # no exact JSON form
        text = f"(not JSON) {_escape_unencodable_characters(_to_safe_repr(value))}"
    return text


def _to_safe_repr(value: object) -> str:
    """Return `repr` or `str` of the value, whatever the object's own code does."""
    try:
        return repr(value) if not isinstance(value, BaseException | str) else str(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def _escape_unencodable_characters(text: str) -> str:
    """Return `text` with an escape in the place of each character that has no JSON form."""
    return text.encode("utf-8", "backslashreplace").decode()


def _describe_tool_error(tool: Tool, error: BaseException) -> str:
    return f"{tool.name} raised {type(error).__name__}: {_to_error_message(error)}"


def _to_error_message(error: BaseException) -> str:
    return to_model_content(_escape_unencodable_characters(_to_safe_repr(error)))
