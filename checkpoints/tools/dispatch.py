"""One call from intent to outcome."""

from __future__ import annotations

import logging
import weakref
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from checkpoints.conf import MAX_VALUE_BYTES
from checkpoints.enums import UNDECIDED_CALL, CallStatus, InterruptReason, KeyPolicy
from checkpoints.exceptions import (
    ApprovalRequired,
    CallInProgress,
    CheckpointCorrupted,
    InsideTransaction,
    InvalidArguments,
    NotRepresentable,
    RegistryNotBound,
    ResultNotRecorded,
    SessionNotFound,
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
from checkpoints.saving.open_operations import Kind
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Held, Store
from checkpoints.serde import digests
from checkpoints.serde.canonical import canonical, parse
from checkpoints.tools.idempotency import Policy, key_for, policy_name, unanswered_key

if TYPE_CHECKING:
    from checkpoints.tools.registry import Tool, ToolRegistry

logger = logging.getLogger(__name__)

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
        asked = Asked(tool, registry.policy(tool), args, canonical(args, "args"), call_id, step)
        bound = tool.bound(args)
        if log is None:
            return (yield from _run_unlogged(tool, bound, call_id))
    except (InvalidArguments, NotRepresentable, TooLarge) as error:
        return ToolResult(call_id, str(error), is_error=True)
    store, session_id = log
    return (yield from _dispatch_logged(store, session_id, asked, bound, waiting))


@dataclass(frozen=True)
class Asked:
    """A call as it was asked for. `stored` is the canonical text of `args`."""

    tool: Tool
    policy: Policy
    args: dict[str, Any]
    stored: str
    call_id: str
    step: int | None

    @property
    def kind(self) -> Kind:
        return self.tool.name, digests.text_digest(self.stored)


def _dispatch_logged(
    store: Store, session_id: str, asked: Asked, bound: dict[str, Any], waiting: Waiting
) -> Flow[ToolResult]:
    pairing = store.holds(session_id) if asked.policy == "unanswered" else None
    if pairing is not None:
        pairing.operations.arrive(asked.kind, asked.call_id)  # before another call of this kind can
    try:
        held: Held = yield Transact(lambda: lookup.owned(store, session_id))
        try:
            wanted: Intent = yield Transact(lambda: _intent(store, held, asked))
        except (InvalidArguments, NotRepresentable, TooLarge) as error:
            return ToolResult(asked.call_id, str(error), is_error=True)
        issued: Issued | ToolCall = yield from issue(store, held, wanted, waiting)
        if isinstance(issued, ToolCall):
            return _answer(held, asked, issued)
        try:
            result = yield from _run_logged(store, held, asked.tool, bound, issued)
        finally:
            store.executing.discard(issued.pk)
        return replace(result, call_id=asked.call_id)
    except (ApprovalRequired, CallInProgress):  # asked for again by the same call id
        raise
    except BaseException:
        if pairing is not None:
            pairing.operations.give_back(asked.kind, asked.call_id)
        raise


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


def _intent(store: Store, held: Held, asked: Asked) -> Intent:
    tool, step, call_id = asked.tool, asked.step, asked.call_id
    if step is None:
        opened = held.open_calls.get(call_id)
        known = opened is not None and (opened.tool, opened.args_digest) == asked.kind
        step = opened.step if opened is not None and known else held.head.version
    if asked.policy == "unanswered":
        key = _operation_key(store, held, asked)
    else:
        key = key_for(
            asked.policy,
            tool.scope,
            workspace=store.workspace,
            key_space=held.key_space,
            tool=tool.name,
            args=asked.args,
            call_id=call_id,
            step=step,
        )
    return intent_of(tool, asked.args, asked.stored, policy_name(asked.policy), key, call_id, step)


def _operation_key(store: Store, held: Held, asked: Asked) -> str:
    """The key of the operation that an unanswered call is, be it one of the log or a new one."""
    step = held.head.version
    new_key = partial(
        unanswered_key,
        workspace=store.workspace,
        key_space=held.key_space,
        session=held.pk,
        tool=asked.tool.name,
        args=asked.args,
        step=step,
    )
    return held.operations.key(
        asked.kind,
        asked.call_id,
        step,
        make_key=lambda number: new_key(number=number),
        read=lambda: calls.unanswered(store, held.pk),
    )


def intent_of(
    tool: Tool, args: dict[str, Any], stored: str, policy: KeyPolicy, key: str, call_id: str, step: int | None
) -> Intent:
    """The intent to run `tool`; `stored` is the canonical text of `args`, and `policy` the one that made `key`."""
    return Intent(
        call_id=call_id,
        tool=tool.name,
        args=stored,
        key=key,
        step=step,
        scope=tool.scope,
        policy=policy,
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


def _answer(held: Held, asked: Asked, found: ToolCall) -> ToolResult:
    rejected = found.status == CallStatus.REJECTED
    before = found.answered_version is not None and found.session_id == held.pk
    if before:
        _report_replay(held.session_id, asked)
    return ToolResult(
        asked.call_id,
        found.result_text or "",
        is_error=rejected,
        replayed=True,
        attempt=found.attempt,
        answered_before=before,
    )


#: The tools of this process that were reported, by the identity of their object.
_reported: weakref.WeakValueDictionary[int, Tool] = weakref.WeakValueDictionary()


def _report_replay(session_id: str, asked: Asked) -> None:
    """Say in the log, once for each tool, that its policy gives a result again that the model has seen.

    A policy that nobody chose may surprise the author of the tool, so that is a warning.
    """
    tool = asked.tool
    if _reported.get(id(tool)) is tool:
        return
    _reported[id(tool)] = tool
    logger.log(
        logging.WARNING if tool.idempotency is None else logging.INFO,
        "Session %s: the call %s of tool %r was answered from the log. A saved version had answered the same call "
        "before, and by the idempotency policy %r both are one operation, so the tool did not run. With "
        "idempotency='unanswered' it runs again once its last result is saved, with 'call' each call runs.",
        session_id,
        asked.call_id,
        tool.name,
        policy_name(asked.policy).value,
    )


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
        try:
            call: ToolCall = yield Transact(partial(calls.get, store, session_id, found.pk))
        except SessionNotFound:
            return  # with it, nothing is in the way any more; the next look says if this session is gone
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
            bound = tool.bound(_stored_args(held, issued))
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


def _stored_args(held: Held, issued: Issued) -> Any:
    try:
        return parse(issued.args or "{}")
    except ValueError as error:
        what = f"the arguments of call {issued.call_id!r}"
        raise CheckpointCorrupted(held.session_id, what, str(error)) from error


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
    return (yield from _probed(store, held, tool, issued, error))


def _probed(store: Store, held: Held, tool: Tool, issued: Issued, error: Exception) -> Flow[ToolCall]:
    """The tool's own hook may know what the tool could not say. If not, a person has to."""
    call: ToolCall = yield Transact(lambda: calls.get(store, held.session_id, issued.pk))
    probe = verification.probe_with(tool.verify, held.session_id, call)
    if probe is not None:
        yield from verification.probe_flow(store, probe)
        call = yield Transact(lambda: calls.get(store, held.session_id, issued.pk))
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
