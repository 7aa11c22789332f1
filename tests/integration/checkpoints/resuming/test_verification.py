"""A tool's own hook finds out whether an interrupted call landed."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from checkpoints import Actor, Landed, NotLanded, SyncCheckpointer, ToolRegistry, ToolResult, Unknown
from checkpoints.enums import ActorKind, Role
from checkpoints.exceptions import (
    AlreadyDecided,
    CallNotFound,
    NotPermitted,
    NotUndecided,
    ReviewRequired,
    SessionNotFound,
)
from checkpoints.models import Decision, Session, ToolCall
from checkpoints.resuming import verification
from tests.conftest import Open
from tests.integration.checkpoints.situations import interrupt, started, statuses

UNSAYABLE = "The result has to be text: it is what the agent sees as the call's answer."
Hook = Callable[[dict[str, Any]], Any]


def hooked(cp: SyncCheckpointer, hook: Hook | None) -> ToolRegistry:
    registry = ToolRegistry(checkpointer=cp, session_id="s")

    @registry.tool(verify=hook)
    def pay(order: int) -> str:
        return f"paid {order}"

    return registry


def died_while_paying(open_checkpointer: Open) -> SyncCheckpointer:
    """A fresh checkpointer on a session whose run died inside `pay(order=17)`."""
    with open_checkpointer() as first:
        started(first).record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    return open_checkpointer()


class Asked:
    """A hook that remembers what it was asked."""

    def __init__(self, answer: Landed | Unknown) -> None:
        self.answer, self.asked = answer, list[dict[str, Any]]()

    def __call__(self, args: dict[str, Any]) -> Landed | Unknown:
        self.asked.append(args)
        return self.answer


def as_coroutine(hook: Hook) -> Hook:
    async def ask(args: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        return hook(args)

    return ask


def raising(error: BaseException) -> Hook:
    def ask(args: dict[str, Any]) -> Any:
        raise error

    return ask


def decisions() -> list[tuple[str, str, str, str]]:
    return list(Decision.objects.order_by("pk").values_list("kind", "actor_kind", "actor", "reason"))


@pytest.mark.parametrize("shape", [lambda hook: hook, as_coroutine], ids=["blocking", "async"])
def test_landed_call_is_completed_and_replayed(open_checkpointer: Open, shape: Callable[[Hook], Hook]) -> None:
    cp = died_while_paying(open_checkpointer)
    hook = Asked(Landed("receipt 5"))
    registry = hooked(cp, shape(hook))
    point = cp.resume("s", registry)

    assert (hook.asked, statuses()) == ([{"order": 17}], [("call_1", 1, "completed")])
    assert point.replayable == {"call_1": ToolResult("call_1", "receipt 5", replayed=True)}
    assert decisions() == [("probe_landed", "hook", "verify hook of pay", "The effect was found.")]
    assert Session.objects.get().status == "active"


@pytest.mark.parametrize("shape", [lambda hook: hook, as_coroutine], ids=["blocking", "async"])
def test_call_that_did_not_land_may_run_again(open_checkpointer: Open, shape: Callable[[Hook], Hook]) -> None:
    cp = died_while_paying(open_checkpointer)
    registry = hooked(cp, shape(lambda args: NotLanded()))
    point = cp.resume("s", registry)

    assert (point.replayable, statuses()) == ({}, [("call_1", 1, "failed")])
    assert registry.dispatch("pay", {"order": 17}, "call_1") == ToolResult("call_1", "paid 17", attempt=2)


@pytest.mark.parametrize(
    ("hook", "reason"),
    [
        (lambda args: Unknown("the bank is closed"), "the bank is closed"),
        (lambda args: Unknown(), ""),
        (raising(ValueError("no connection")), "the probe raised ValueError: no connection"),
        (raising(TimeoutError()), "the probe gave no answer within 30 seconds"),
        (lambda args: None, "the probe answered NoneType"),
        (lambda args: True, "the probe answered bool"),
        (lambda args: "landed", "the probe answered str"),
        (lambda args: Landed({1}), f"its answer could not be recorded: {UNSAYABLE}"),  # type: ignore[arg-type]
        (lambda args, more: Landed(""), None),
    ],
    ids=[
        "unknown",
        "unknown without words",
        "error",
        "timeout",
        "None",
        "True",
        "text",
        "unsayable",
        "other signature",
    ],
)
def test_answer_that_settles_nothing_leaves_it_to_a_person(
    open_checkpointer: Open, hook: Hook, reason: str | None
) -> None:
    cp = died_while_paying(open_checkpointer)

    with pytest.raises(ReviewRequired):
        cp.resume("s", hooked(cp, hook))
    assert statuses() == [("call_1", 1, "interrupted")]
    assert [(kind, said if reason is not None else None) for kind, _, _, said in decisions()] == [
        ("probe_unknown", reason)
    ]


@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
def test_hook_that_hangs_is_left_behind(
    open_checkpointer: Open, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    monkeypatch.setattr(verification, "VERIFY_TIMEOUT", 0.05)
    cp, released = died_while_paying(open_checkpointer), threading.Event()

    async def forever(args: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    with pytest.raises(ReviewRequired):
        cp.resume("s", hooked(cp, forever if is_async else lambda args: released.wait(60)))
    released.set()
    assert decisions() == [
        ("probe_unknown", "hook", "verify hook of pay", "the probe gave no answer within 0.05 seconds")
    ]


def test_tool_without_a_hook_is_left_to_a_person(open_checkpointer: Open) -> None:
    cp = died_while_paying(open_checkpointer)

    for registry in (hooked(cp, None), ToolRegistry(), None):
        with pytest.raises(ReviewRequired):
            cp.resume("s", registry)
    assert decisions() == []


def test_hook_is_asked_once_for_each_resume(open_checkpointer: Open) -> None:
    cp, hook = died_while_paying(open_checkpointer), Asked(Unknown())
    registry = hooked(cp, hook)

    for _ in range(3):
        with pytest.raises(ReviewRequired):
            cp.resume("s", registry)
    assert hook.asked == [{"order": 17}] * 3


def test_hook_does_not_overrule_a_person_who_was_quicker(open_checkpointer: Open) -> None:
    cp, person = died_while_paying(open_checkpointer), open_checkpointer()

    def slow(args: dict[str, Any]) -> Landed:
        (call,) = person.pending_tool_calls("s")
        person.mark_failed("s", "call_1", actor="alice", reason="the bank says no", revision=call["revision"])
        return Landed("receipt 5")

    point = cp.resume("s", hooked(cp, slow))
    assert (statuses(), [kind for kind, *_ in decisions()]) == ([("call_1", 1, "failed")], ["mark_failed"])
    assert point.replayable["call_1"].is_error is True


# asked for by a person


def test_person_may_ask_the_hook(open_checkpointer: Open) -> None:
    cp, _ = interrupt(started(open_checkpointer()), open_checkpointer)
    registry = hooked(cp, lambda args: Landed("receipt 5"))

    assert cp.verify_call("s", "call_1", actor="alice") == "landed"
    assert (registry.session_id, statuses()) == ("s", [("call_1", 1, "completed")])


@pytest.mark.parametrize(
    ("answer", "said", "status"),
    [(NotLanded(), "not_landed", "failed"), (Unknown("closed"), "unknown", "interrupted")],
    ids=["not landed", "unknown"],
)
def test_answer_to_a_person(open_checkpointer: Open, answer: object, said: str, status: str) -> None:
    cp, _ = interrupt(started(open_checkpointer()), open_checkpointer)
    registry = hooked(cp, lambda args: answer)

    assert (cp.verify_call("s", "call_1", actor="alice"), registry.session_id) == (said, "s")
    assert statuses() == [("call_1", 1, status)]
    assert ToolCall.objects.get().verify_requested_by == ""


def test_question_where_no_hook_is_known_is_left_for_the_run_that_has_it(open_checkpointer: Open) -> None:
    interrupt(started(open_checkpointer()), open_checkpointer)

    assert open_checkpointer().verify_call("s", "call_1", actor="alice") == "requested"
    assert (ToolCall.objects.get().verify_requested_by, statuses()) == ("alice", [("call_1", 1, "interrupted")])


def test_question_is_refused_to_an_auditor(open_checkpointer: Open) -> None:
    cp, _ = interrupt(started(open_checkpointer()), open_checkpointer)
    registry = hooked(cp, lambda args: Landed("receipt 5"))

    with pytest.raises(NotPermitted):
        cp.verify_call("s", "call_1", actor=Actor(ActorKind.PERSON, "bob", Role.AUDITOR))
    assert (registry.session_id, statuses()) == ("s", [("call_1", 1, "interrupted")])


def test_question_about_a_settled_call_is_refused(open_checkpointer: Open) -> None:
    cp, call = interrupt(started(open_checkpointer()), open_checkpointer)
    cp.mark_failed("s", "call_1", actor="alice", reason="no", revision=call["revision"])
    with pytest.raises(AlreadyDecided):
        cp.verify_call("s", "call_1", actor="alice")

    cp.record_tool_call_issued("s", "call_2", "pay", {}, "other key")
    with pytest.raises(NotUndecided):
        cp.verify_call("s", "call_2", actor="alice")


def test_question_about_nothing_is_refused(cp: SyncCheckpointer) -> None:
    with pytest.raises(SessionNotFound):
        cp.verify_call("s", "call_1", actor="alice")
    started(cp)
    with pytest.raises(CallNotFound):
        cp.verify_call("s", "call_1", actor="alice")
