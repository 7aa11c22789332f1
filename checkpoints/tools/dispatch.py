"""One call from intent to outcome."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from checkpoints.conf import MAX_VALUE_BYTES
from checkpoints.enums import UNDECIDED_CALL, CallStatus, InterruptReason
from checkpoints.exceptions import (
    ApprovalRequired,
    CallInProgress,
    InsideTransaction,
    InvalidArguments,
    NotRepresentable,
    RegistryNotBound,
    ResultNotRecorded,
    StorageError,
    TooLarge,
)
from checkpoints.flows import Flow, Invoke, Sleep, Transact
from checkpoints.ids import checked, checked_number
from checkpoints.models import ToolCall
from checkpoints.outcomes import ToolResult
from checkpoints.resuming import verification
from checkpoints.saving import calls, issuing, liveness, lookup, settling
from checkpoints.saving.intents import Intent, Issued, Outcome, require_argument_dict
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Held, Store
from checkpoints.serde import digests
from checkpoints.serde.canonical import canonical, parse
from checkpoints.tools.idempotency import key_for

if TYPE_CHECKING:
    from checkpoints.tools.registry import Tool, ToolRegistry

#: Seconds between two looks at a call that runs elsewhere.
POLL_SECONDS = 0.05
#: Seconds between two looks at whether a person has approved.
APPROVAL_POLL_SECONDS = 0.25
_ANSWERS = frozenset({CallStatus.COMPLETED, CallStatus.REJECTED})
#: How often recording a result is tried before giving up: the tool has run, and its result matters.
RECORD_ATTEMPTS = 5


@dataclass(frozen=True)
class Waiting:
    """What a dispatch waits for: the same call running elsewhere, and a person's approval."""

    for_others: bool = True
    for_approval: bool = False


def dispatch_flow(
    registry: ToolRegistry, name: str, args: dict[str, Any], call_id: str, *, step: int | None, waiting: Waiting
) -> Flow[ToolResult]:
    """The whole life of one call, for blocking and async drivers."""
    checked("call id", call_id)
    if step is not None:
        checked_number("step", step)
    tool = registry.tools.get(name)
    if tool is None:
        return ToolResult(call_id, f"There is no tool {name!r}. Nothing was run.", is_error=True)
    log = _log_of(registry, tool)
    try:
        require_argument_dict(name, args)
        stored = canonical(args, "args")
        bound = tool.bound(args)
        if log is None:
            return (yield from _run_unlogged(tool, bound, call_id))
        store, session_id = log
        held: Held = yield Transact(lambda: lookup.owned(store, session_id))
        wanted = _intent(store, held, tool, args, stored, call_id, step)
    except (InvalidArguments, NotRepresentable, TooLarge) as error:
        return ToolResult(call_id, str(error), is_error=True)
    issued: Issued | ToolCall = yield from issue(store, held, wanted, waiting)
    if isinstance(issued, ToolCall):
        return _answer(wanted, issued)
    try:
        return (yield from _run_logged(store, held, tool, bound, issued))
    finally:
        store.executing.discard(issued.pk)


def _log_of(registry: ToolRegistry, tool: Tool) -> tuple[Store, str] | None:
    """Where a call of `tool` is logged: the store and the session; None for a call that is not.

    Raises `RegistryNotBound` for a tool with side effects that nobody has said may run without a log.
    """
    if not tool.logged:
        return None
    if registry.checkpointer is not None and registry.session_id is not None:
        return registry.checkpointer.store, registry.session_id
    if registry.unlogged and not tool.requires_approval:  # an approval is asked for in the log
        return None
    raise RegistryNotBound(tool.name, "checkpointer" if registry.checkpointer is None else "session id")


def _intent(
    store: Store, held: Held, tool: Tool, args: dict[str, Any], stored: str, call_id: str, step: int | None
) -> Intent:
    if step is None:
        opened = held.open_calls.get(call_id)
        asked = opened is not None and (opened.tool, opened.args_digest) == (tool.name, digests.text_digest(stored))
        step = opened.step if opened is not None and asked else held.head.version
    key = key_for(
        tool.idempotency,
        tool.scope,
        workspace=store.workspace,
        key_space=held.key_space,
        tool=tool.name,
        args=args,
        call_id=call_id,
        step=step,
    )
    return intent_of(tool, args, stored, key, call_id, step)


def intent_of(tool: Tool, args: dict[str, Any], stored: str, key: str, call_id: str, step: int | None) -> Intent:
    """The intent to run `tool`; `stored` is the canonical text of `args`."""
    return Intent(
        call_id=call_id,
        tool=tool.name,
        args=stored,
        key=key,
        step=step,
        scope=tool.scope,
        side_effects=tool.side_effects,
        declared_risk=tool.risk,
        sentence=tool.describe(args).encode("utf-8", "replace").decode().replace("\0", ""),
        verifiable=tool.verify is not None,
        requires_approval=tool.requires_approval,
        approvals=tool.approvals,
        decide_within=None if tool.decide_within is None else timedelta(seconds=tool.decide_within),
    )


def _run_unlogged(tool: Tool, bound: dict[str, Any], call_id: str) -> Flow[ToolResult]:
    try:
        value = yield Invoke(tool.run, bound, tool.timeout)
    except Exception as error:
        return ToolResult(call_id, _said(tool, error), is_error=True)
    return ToolResult(call_id, content_of(value))


def issue(store: Store, held: Held, wanted: Intent, waiting: Waiting) -> Flow[Issued | ToolCall]:
    """Log the intent, or find the call that answers it: one that has happened, or that a person did not let happen.
    What stands in its way otherwise is waited for.

    An `Issued` call runs now; whoever asked for it takes it out of `store.executing` at the end.
    """
    while True:
        found: Issued | ToolCall = yield Transact(lambda: issuing.issue(store, held, wanted, executing=True))
        if isinstance(found, Issued):
            return found
        if found.status in _ANSWERS:
            calls.require_intact(found)
            yield Transact(partial(issuing.count_replay, store, held, found))
            return found
        yield from _wait_for(store, held, found, waiting)


def _answer(wanted: Intent, found: ToolCall) -> ToolResult:
    rejected = found.status == CallStatus.REJECTED
    content = found.result_text or ""
    return ToolResult(wanted.call_id, content, is_error=rejected, replayed=True, attempt=found.attempt)


def _wait_for(store: Store, held: Held, found: ToolCall, waiting: Waiting) -> Flow[None]:
    """Let time pass while somebody works on the call that is in the way, or say why that makes no sense."""
    session_id = found.session.session_id
    if found.status == CallStatus.AWAITING_APPROVAL:
        if not waiting.for_approval:
            raise ApprovalRequired(session_id, [calls.as_dict(found)])
        yield Sleep(APPROVAL_POLL_SECONDS)
        return
    if found.status == CallStatus.INTERRUPTED:
        raise (yield Transact(partial(calls.review_required, store, session_id, [found])))
    alive: bool = yield Transact(partial(_executor_lives, store, held, found))
    if not alive:
        call: ToolCall = yield Transact(partial(calls.get, store, found.pk))
        if call.status in {CallStatus.ISSUED, CallStatus.INTERRUPTED}:
            raise (yield Transact(partial(calls.review_required, store, session_id, [call])))
        return  # it ended between the two looks
    if not waiting.for_others:
        raise CallInProgress(session_id, found.call_id, found.tool)
    yield Sleep(POLL_SECONDS)


def _executor_lives(store: Store, held: Held, found: ToolCall) -> bool:
    """Whether somebody still works on the call that is in the way. One that this run has left behind is interrupted."""
    if found.run_id != held.run_id:
        with operation(store.using, writes=False):
            return liveness.is_alive(found.run)
    if found.pk in store.executing:
        return True
    settling.interrupt(store, held, found)
    return False


def _run_logged(store: Store, held: Held, tool: Tool, bound: dict[str, Any], issued: Issued) -> Flow[ToolResult]:
    if issued.args is not None:
        try:
            bound = tool.bound(parse(issued.args))
        except InvalidArguments as error:
            outcome = Outcome(CallStatus.FAILED, canonical(str(error)), type(error).__name__)
            yield from record(store, held, issued, outcome, str(error))
            return ToolResult(issued.call_id, str(error), is_error=True, attempt=issued.attempt)
    invoke = Invoke(tool.run, bound, tool.timeout)
    try:
        value = yield invoke
    except GeneratorExit:
        raise
    except BaseException as error:
        return (yield from _failed(store, held, tool, issued, error, started=invoke.started))
    content = content_of(value)
    yield from record(store, held, issued, Outcome(CallStatus.COMPLETED, canonical(content, "result")), content)
    return ToolResult(issued.call_id, content, attempt=issued.attempt)


def _failed(
    store: Store, held: Held, tool: Tool, issued: Issued, error: BaseException, *, started: bool
) -> Flow[ToolResult]:
    call = yield from record_error(store, held, tool, issued, error, started=started)
    if call is None:
        return ToolResult(issued.call_id, _said(tool, error), is_error=True, attempt=issued.attempt)
    failed = call.status != CallStatus.COMPLETED
    return ToolResult(issued.call_id, call.result_text or "", is_error=failed, attempt=issued.attempt)


def record_error(
    store: Store, held: Held, tool: Tool, issued: Issued, error: BaseException, *, started: bool
) -> Flow[ToolCall | None]:
    """Log what is true after an error: it did not happen (None), or nobody knows; then the call as a probe settled it.

    Raises `error` where it is to stop the run, and `ReviewRequired` where a person has to decide.
    """
    said = _said(tool, error)
    if not started:
        outcome = Outcome(CallStatus.FAILED, canonical("It was stopped before it began."), type(error).__name__)
        yield from record(store, held, issued, outcome, said)
        raise error
    if not tool.logged or not tool.leaves_unknown(error):
        outcome = Outcome(CallStatus.FAILED, canonical(said), type(error).__name__)
        yield from record(store, held, issued, outcome, said)
        return None
    reason = InterruptReason.AMBIGUOUS_ERROR if isinstance(error, Exception) else InterruptReason.CANCELLED
    outcome = Outcome(CallStatus.INTERRUPTED, canonical(said), type(error).__name__, reason)
    yield from record(store, held, issued, outcome, said)
    if not isinstance(error, Exception):
        raise error
    return (yield from _probed(store, held, issued, error))


def _probed(store: Store, held: Held, issued: Issued, error: Exception) -> Flow[ToolCall]:
    """The tool's own hook may know what the tool could not say. If not, a person has to."""
    call: ToolCall = yield Transact(lambda: calls.get(store, issued.pk))
    probe = verification.probe_of(store, held.session_id, call)
    if probe is not None:
        yield from verification.probe_flow(store, probe)
        call = yield Transact(lambda: calls.get(store, issued.pk))
    if call.status in UNDECIDED_CALL:
        raise (yield Transact(partial(calls.review_required, store, held.session_id, [call]))) from error
    return call


def record(store: Store, held: Held, issued: Issued, outcome: Outcome, content: str) -> Flow[None]:
    """Write the outcome of a call that has run, however often that takes. Raises `ResultNotRecorded`."""
    for attempt in range(1, RECORD_ATTEMPTS + 1):
        try:
            yield Transact(lambda: settling.settle(store, held, issued, outcome))
        except StorageError as error:
            if attempt == RECORD_ATTEMPTS:
                raise ResultNotRecorded(held.session_id, issued.call_id, content) from error
            yield Sleep(0.1 * attempt)
        except InsideTransaction as error:  # the tool has left one open
            raise ResultNotRecorded(held.session_id, issued.call_id, content) from error
        else:
            return


def content_of(value: Any) -> str:
    """What the model sees of a tool's return value: text as it is, anything else as JSON, or as its `repr` where it
    has no JSON form. The call has happened, so this never fails; what is too large is cut and says so."""
    try:
        text = value if isinstance(value, str) else canonical(value, "result")
        canonical(text, "result")
    except TooLarge:
        text = value if isinstance(value, str) else repr(value)
        kept = MAX_VALUE_BYTES // 8
        text = f"{_visible(text[:kept])}\n(cut: the tool returned {len(text):,} characters, {kept:,} are kept)"
    except Exception:  # no exact JSON form
        text = f"(not JSON) {_visible(_shown(value))}"
    return text


def _shown(value: object) -> str:
    """`repr` or `str`, whatever the object's own code does."""
    try:
        return repr(value) if not isinstance(value, BaseException | str) else str(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def _visible(text: str) -> str:
    """`text` without what has no JSON form."""
    return text.encode("utf-8", "backslashreplace").decode()


def _said(tool: Tool, error: BaseException) -> str:
    return _visible(f"{tool.name} raised {type(error).__name__}: {_shown(error)}")
