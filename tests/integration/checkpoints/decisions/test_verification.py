"""Verify hooks find out whether an interrupted call happened."""

import asyncio
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from checkpoints import Actor, Checkpointer, Landed, NotLanded, SyncCheckpointer, ToolRegistry, ToolResult, Unknown
from checkpoints.calls.tool_result_and_verify_answer_types import LANDED_WITHOUT_RESULT
from checkpoints.decisions import ask_verify_hooks, record_verify_hook_answers
from checkpoints.enums import ActorKind, Role
from checkpoints.exceptions import (
    AlreadyDecided,
    CallNotFound,
    IntegrityError,
    NotPermitted,
    NotUndecided,
    ReviewRequired,
    SessionNotFound,
    SessionQuarantined,
)
from checkpoints.models import Decision, Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import call_statuses, interrupt_call, start_session

#: What is recorded about an answer that is none of those a hook may give.
HOOKS_WITHOUT_ANSWER = "the verify hook returned {} instead of Landed(result), NotLanded() or Unknown(why)"
UNPRINTABLE_ERRORS = (
    "the answer of the verify hook could not be recorded: result cannot be kept exactly: a set has no JSON form."
)
Hook = Callable[[dict[str, Any]], Any]


def make_registry_with_hook(cp: SyncCheckpointer, hook: Hook | None) -> ToolRegistry:
    registry = ToolRegistry(checkpointer=cp, session_id="s")

    @registry.tool(verify=hook)
    def pay(order: int) -> str:
        return f"paid {order}"

    return registry


def open_after_interrupted_payment(open_checkpointer: Open) -> SyncCheckpointer:
    """Return a new checkpointer for a session whose run ended inside `pay(order=17)`."""
    with open_checkpointer() as first:
        start_session(first).record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    return open_checkpointer()


class RecordingHook:
    """Verify hook that records its arguments."""

    def __init__(self, answer: Landed | Unknown) -> None:
        self.answer, self.asked = answer, list[dict[str, Any]]()

    def __call__(self, args: dict[str, Any]) -> Landed | Unknown:
        self.asked.append(args)
        return self.answer


def make_async_hook(hook: Hook) -> Hook:
    async def ask(args: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        return hook(args)

    return ask


def make_raising_hook(error: BaseException) -> Hook:
    def ask(args: dict[str, Any]) -> Any:
        raise error

    return ask


class Unprintable(Exception):
    """Error whose message cannot be built."""

    def __str__(self) -> str:
        raise ValueError("no text")


def decisions() -> list[tuple[str, str, str, str]]:
    return list(Decision.objects.order_by("pk").values_list("kind", "actor_kind", "actor", "reason"))


@pytest.mark.parametrize("shape", [lambda hook: hook, make_async_hook], ids=["blocking", "async"])
def test_confirmed_call_is_completed_and_replayed(open_checkpointer: Open, shape: Callable[[Hook], Hook]) -> None:
    cp = open_after_interrupted_payment(open_checkpointer)
    hook = RecordingHook(Landed("receipt 5"))
    registry = make_registry_with_hook(cp, shape(hook))
    point = cp.resume("s", registry)

    assert (hook.asked, call_statuses()) == ([{"order": 17}], [("call_1", 1, "completed")])
    assert point.replayable == {"call_1": ToolResult("call_1", "receipt 5", replayed=True)}
    assert decisions() == [("probe_landed", "hook", "verify hook of pay", "The effect was found.")]
    assert Session.objects.get().status == "active"


@pytest.mark.parametrize("shape", [lambda hook: hook, make_async_hook], ids=["blocking", "async"])
def test_call_that_did_not_happen_may_run_again(open_checkpointer: Open, shape: Callable[[Hook], Hook]) -> None:
    cp = open_after_interrupted_payment(open_checkpointer)
    registry = make_registry_with_hook(cp, shape(lambda args: NotLanded()))
    point = cp.resume("s", registry)

    assert (point.replayable, call_statuses()) == ({}, [("call_1", 1, "failed")])
    assert registry.dispatch("pay", {"order": 17}, "call_1") == ToolResult("call_1", "paid 17", attempt=2)


@pytest.mark.parametrize(
    ("hook", "reason"),
    [
        (lambda args: Unknown("the bank is closed"), "the bank is closed"),
        (lambda args: Unknown(), "the verify hook gave no reason"),
        (lambda args: Unknown, "the verify hook gave no reason"),
        (lambda args: Unknown(ValueError("closed")), "ValueError('closed')"),  # type: ignore[arg-type]
        (make_raising_hook(ValueError("no connection")), "the verify hook raised ValueError: no connection"),
        (make_raising_hook(TimeoutError("of a request")), "the verify hook raised TimeoutError: of a request"),
        (make_raising_hook(Unprintable()), "the verify hook raised Unprintable"),
        (lambda args: None, HOOKS_WITHOUT_ANSWER.format("None")),
        (lambda args: "landed", HOOKS_WITHOUT_ANSWER.format("a value of type str")),
        (lambda args: 1, HOOKS_WITHOUT_ANSWER.format("a value of type int")),
        (lambda args: Landed({1}), UNPRINTABLE_ERRORS),
        (lambda args: args["other"], "the verify hook raised KeyError: 'other'"),
    ],
    ids=[
        "unknown",
        "unknown without words",
        "the class Unknown",
        "unknown, and no text",
        "error",
        "timeout of its own",
        "error without text",
        "None",
        "text",
        "number",
        "unsayable",
        "other arguments",
    ],
)
def test_unusable_answer_of_a_hook_leaves_the_decision_to_a_person(
    open_checkpointer: Open, caplog: pytest.LogCaptureFixture, hook: Hook, reason: str
) -> None:
    cp = open_after_interrupted_payment(open_checkpointer)

    with caplog.at_level(logging.WARNING), pytest.raises(ReviewRequired) as caught:
        cp.resume("s", make_registry_with_hook(cp, hook))
    assert call_statuses() == [("call_1", 1, "interrupted")]
    assert [(kind, why) for kind, _, _, why in decisions()] == [("probe_unknown", reason)]
    assert [call["verify_reason"] for call in caught.value.calls] == [reason]
    assert f"The verify hook was asked about 'call_1': {reason}." in str(caught.value)
    assert [call["verify_reason"] for call in cp.pending_tool_calls("s")] == [reason]
    (warning,) = [
        record.getMessage() for record in caplog.records if record.name == record_verify_hook_answers.__name__
    ]
    assert warning == (
        "A verify hook could not tell whether call 'call_1' of pay in session 's' happened, "
        f"so a person has to: {reason}"
    )


@pytest.mark.parametrize(
    ("answer", "status", "result"),
    [
        (True, "completed", LANDED_WITHOUT_RESULT),
        (Landed, "completed", LANDED_WITHOUT_RESULT),
        (Landed(), "completed", LANDED_WITHOUT_RESULT),
        (Landed({"receipt": 5}), "completed", '{"receipt":5}'),
        (Landed(None), "completed", "null"),
        (False, "failed", "The effect was not found."),
        (NotLanded, "failed", "The effect was not found."),
    ],
    ids=["True", "the class Landed", "no result", "object", "null", "False", "the class NotLanded"],
)
def test_unambiguous_answer_of_a_hook_settles_the_call(
    open_checkpointer: Open, answer: object, status: str, result: str
) -> None:
    cp = open_after_interrupted_payment(open_checkpointer)
    cp.resume("s", make_registry_with_hook(cp, lambda args: answer))

    call = ToolCall.objects.get()
    assert (call.status, call.result_text) == (status, result)


class Bank:
    """Callables of every kind as verify hooks."""

    async def __call__(self, args: dict[str, Any]) -> Landed:
        return self.found(args)

    def found(self, args: dict[str, Any], retries: int = 3, **options: Any) -> Landed:
        return Landed(f"receipt {args['order']}")

    async def found_later(self, wanted: dict[str, Any], /) -> Landed:
        await asyncio.sleep(0)
        return self.found(wanted)

    @staticmethod
    def found_in(place: str, args: dict[str, Any]) -> Landed:
        return Landed(f"receipt {args['order']}")


@pytest.mark.parametrize(
    "hook",
    [
        lambda order: Bank().found(order),
        lambda order: Bank().found_later(order),
        lambda *given: Bank().found(*given),
        Bank(),
        Bank().found,
        Bank().found_later,
        partial(Bank.found_in, "bank"),
        partial(Bank().found_later),
    ],
    ids=["lambda", "lambda of a coroutine", "any number", "object", "method", "coroutine", "partial", "async partial"],
)
@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
def test_hook_of_any_signature_gets_the_arguments_by_position(
    open_checkpointer: Open, hook: Hook, is_async: bool
) -> None:
    cp = open_after_interrupted_payment(open_checkpointer)
    registry = make_registry_with_hook(cp, hook)

    async def resume() -> None:
        async with Checkpointer() as other:
            await other.resume("s", registry)

    if is_async:
        asyncio.run(resume())
    else:
        cp.resume("s", registry)
    assert ToolCall.objects.get().result_text == "receipt 17"


def test_async_hook_runs_on_the_event_loop_of_the_caller(open_checkpointer: Open) -> None:
    cp = open_after_interrupted_payment(open_checkpointer)
    cp.sweep_lost_runs()
    loops = list[asyncio.AbstractEventLoop]()

    async def was_paid(args: dict[str, Any]) -> Landed:
        loops.append(asyncio.get_running_loop())
        return Landed(f"receipt {args['order']}")

    async def verify() -> tuple[str, asyncio.AbstractEventLoop]:
        async with Checkpointer() as other:
            registry = make_registry_with_hook(cp, was_paid)
            registry.bind(other, "s")
            return await other.verify_call("s", "call_1", actor="alice"), asyncio.get_running_loop()

    answer, loop = asyncio.run(verify())
    assert (answer, loops) == ("landed", [loop])
    assert ToolCall.objects.get().result_text == "receipt 17"


def test_hook_is_not_asked_about_altered_arguments(open_checkpointer: Open) -> None:
    cp = open_after_interrupted_payment(open_checkpointer)
    asked: list[object] = []
    ToolCall.objects.update(args='{"order":18}')
    registry = make_registry_with_hook(cp, asked.append)

    for ask in (
        lambda: cp.verify_call("s", "call_1", actor="alice"),
        lambda: cp.resume("s", registry),
    ):
        with pytest.raises((IntegrityError, SessionQuarantined)):
            ask()
    assert (asked, call_statuses()) == ([], [("call_1", 1, "interrupted")])


def test_newest_answer_of_a_hook_is_reported(open_checkpointer: Open) -> None:
    cp, reasons = open_after_interrupted_payment(open_checkpointer), iter(["closed", "still closed"])
    registry = make_registry_with_hook(cp, lambda args: Unknown(next(reasons)))

    for reason in ("closed", "still closed"):
        with pytest.raises(ReviewRequired, match=f"'call_1': {reason}"):
            cp.resume("s", registry)
    assert [call["verify_reason"] for call in cp.pending_tool_calls("s")] == ["still closed"]


def test_ambiguous_error_contains_the_answer_of_the_hook(cp: SyncCheckpointer) -> None:
    registry = ToolRegistry(checkpointer=start_session(cp), session_id="s")

    @registry.tool(verify=lambda args: Unknown("the bank is closed"))
    def pay(order: int) -> str:
        raise ConnectionError

    for _ in range(2):  # where it happens, and where the same call comes again
        with pytest.raises(ReviewRequired, match="'call_1': the bank is closed") as caught:
            registry.dispatch("pay", {"order": 17}, "call_1")
        assert [call["verify_reason"] for call in caught.value.calls] == ["the bank is closed"]


@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
def test_hanging_hook_times_out(open_checkpointer: Open, monkeypatch: pytest.MonkeyPatch, is_async: bool) -> None:
    monkeypatch.setattr(ask_verify_hooks, "VERIFY_TIMEOUT", 0.05)
    cp, released = open_after_interrupted_payment(open_checkpointer), threading.Event()

    async def forever(args: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    with pytest.raises(ReviewRequired):
        cp.resume("s", make_registry_with_hook(cp, forever if is_async else lambda args: released.wait(60)))
    released.set()
    assert decisions() == [
        ("probe_unknown", "hook", "verify hook of pay", "the verify hook gave no answer within 0.05 seconds")
    ]


def test_call_without_a_hook_is_left_to_a_person(open_checkpointer: Open) -> None:
    cp = open_after_interrupted_payment(open_checkpointer)

    for registry in (make_registry_with_hook(cp, None), ToolRegistry(), None):
        with pytest.raises(ReviewRequired):
            cp.resume("s", registry)
    assert decisions() == []


def test_hook_is_called_once_for_each_resume(open_checkpointer: Open) -> None:
    cp, hook = open_after_interrupted_payment(open_checkpointer), RecordingHook(Unknown())
    registry = make_registry_with_hook(cp, hook)

    for _ in range(3):
        with pytest.raises(ReviewRequired):
            cp.resume("s", registry)
    assert hook.asked == [{"order": 17}] * 3


def test_hook_does_not_overrule_an_earlier_decision(open_checkpointer: Open) -> None:
    cp, person = open_after_interrupted_payment(open_checkpointer), open_checkpointer()

    def slow(args: dict[str, Any]) -> Landed:
        (call,) = person.pending_tool_calls("s")
        person.mark_failed("s", "call_1", actor="alice", reason="the bank says no", revision=call["revision"])
        return Landed("receipt 5")

    point = cp.resume("s", make_registry_with_hook(cp, slow))
    assert (call_statuses(), [kind for kind, *_ in decisions()]) == ([("call_1", 1, "failed")], ["mark_failed"])
    assert point.replayable["call_1"].is_error is True


# asked for by a person


def test_person_may_call_the_hook(open_checkpointer: Open) -> None:
    cp, _ = interrupt_call(start_session(open_checkpointer()), open_checkpointer)
    registry = make_registry_with_hook(cp, lambda args: Landed("receipt 5"))

    assert cp.verify_call("s", "call_1", actor="alice") == "landed"
    assert (registry.session_id, call_statuses()) == ("s", [("call_1", 1, "completed")])


@pytest.mark.parametrize(
    ("answer", "expected_message", "status"),
    [(NotLanded(), "not_landed", "failed"), (Unknown("closed"), "unknown", "interrupted")],
    ids=["not landed", "unknown"],
)
def test_answer_of_the_hook_is_returned_to_the_person(
    open_checkpointer: Open, answer: object, expected_message: str, status: str
) -> None:
    cp, _ = interrupt_call(start_session(open_checkpointer()), open_checkpointer)
    registry = make_registry_with_hook(cp, lambda args: answer)

    assert (cp.verify_call("s", "call_1", actor="alice"), registry.session_id) == (expected_message, "s")
    assert call_statuses() == [("call_1", 1, status)]
    assert ToolCall.objects.get().verify_requested_by == ""


def registry_with(hook: Hook | None) -> ToolRegistry:
    registry = ToolRegistry()
    registry.tool(name="pay", verify=hook)(lambda order: f"paid {order}")
    return registry


def ask_nobody(args: dict[str, Any]) -> Landed:
    raise AssertionError("the hook of another agent was asked")


def test_hook_of_another_session_is_not_called(open_checkpointer: Open) -> None:
    """Two agents of one process may have different tools with the same name."""
    cp = open_after_interrupted_payment(open_checkpointer)
    others = [registry_with(ask_nobody).for_session(cp, f"other {number}") for number in range(5)]
    with pytest.raises(ReviewRequired, match="it is unknown whether this happened: pay \\(call_1\\)") as undecided:
        cp.resume("s")
    assert (undecided.value.calls[0]["verify_reason"], len(others)) == (None, 5)
    mine = registry_with(lambda args: Landed("receipt 5"))

    assert cp.resume("s", mine).replayable["call_1"].content == "receipt 5"


def test_last_bound_registry_of_a_session_is_used(open_checkpointer: Open) -> None:
    cp = open_after_interrupted_payment(open_checkpointer)
    earlier = [registry_with(ask_nobody) for _ in range(5)]
    for registry in earlier:
        registry.bind(cp, "s")
    last = registry_with(lambda args: Landed("receipt 5"))

    assert cp.resume("s", last).replayable["call_1"].content == "receipt 5"


def test_tool_without_a_hook_in_its_session_has_none(open_checkpointer: Open) -> None:
    cp = open_after_interrupted_payment(open_checkpointer)
    anywhere, mine = registry_with(ask_nobody), registry_with(None)
    anywhere.bind(cp)

    with pytest.raises(ReviewRequired) as undecided:
        cp.resume("s", mine)
    assert undecided.value.calls[0]["verify_reason"] is None


def test_unbound_registries_must_agree_on_the_hook(open_checkpointer: Open) -> None:
    cp = open_after_interrupted_payment(open_checkpointer)
    first, second = registry_with(lambda args: Landed("receipt 5")), registry_with(lambda args: NotLanded())
    first.bind(cp)
    second.bind(cp)
    with pytest.raises(ReviewRequired, match="several registries have different verify hooks for 'pay'"):
        cp.resume("s")
    second.tools = first.tools

    assert cp.resume("s").replayable["call_1"].content == "receipt 5"


def test_ambiguous_error_is_verified_by_the_hook_of_the_same_tool(cp: SyncCheckpointer) -> None:
    def cut_off(order: int) -> str:
        raise ConnectionError("the line was cut")

    registries = [ToolRegistry(checkpointer=cp, session_id="s") for _ in range(5)]
    for number, registry in enumerate(registries):
        registry.tool(name="pay", verify=RecordingHook(Landed(f"receipt {number}")))(cut_off)
    cp.start_session("s")

    results = [registry.dispatch("pay", {"order": at}, f"call_{at}") for at, registry in enumerate(registries)]
    assert [result.content for result in results] == [f"receipt {number}" for number in range(5)]


def test_verification_without_a_known_hook_is_left_to_the_owner(open_checkpointer: Open) -> None:
    interrupt_call(start_session(open_checkpointer()), open_checkpointer)

    assert open_checkpointer().verify_call("s", "call_1", actor="alice") == "requested"
    assert (ToolCall.objects.get().verify_requested_by, call_statuses()) == ("alice", [("call_1", 1, "interrupted")])


def test_verification_is_refused_to_an_auditor(open_checkpointer: Open) -> None:
    cp, _ = interrupt_call(start_session(open_checkpointer()), open_checkpointer)
    registry = make_registry_with_hook(cp, lambda args: Landed("receipt 5"))

    with pytest.raises(NotPermitted):
        cp.verify_call("s", "call_1", actor=Actor(ActorKind.PERSON, "bob", Role.AUDITOR))
    assert (registry.session_id, call_statuses()) == ("s", [("call_1", 1, "interrupted")])


def test_verification_of_a_settled_call_is_refused(open_checkpointer: Open) -> None:
    cp, call = interrupt_call(start_session(open_checkpointer()), open_checkpointer)
    cp.mark_failed("s", "call_1", actor="alice", reason="no", revision=call["revision"])
    with pytest.raises(AlreadyDecided):
        cp.verify_call("s", "call_1", actor="alice")

    cp.record_tool_call_issued("s", "call_2", "pay", {}, "other key")
    with pytest.raises(NotUndecided):
        cp.verify_call("s", "call_2", actor="alice")


def test_verification_of_an_unknown_call_is_refused(cp: SyncCheckpointer) -> None:
    with pytest.raises(SessionNotFound):
        cp.verify_call("s", "call_1", actor="alice")
    start_session(cp)
    with pytest.raises(CallNotFound):
        cp.verify_call("s", "call_1", actor="alice")
