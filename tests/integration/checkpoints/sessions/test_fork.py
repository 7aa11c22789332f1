"""A fork continues any version of another session, copies no message and repeats no effect."""

from pathlib import Path
from typing import Any

import pytest

from checkpoints import SyncCheckpointer, ToolRegistry, ToolResult
from checkpoints.exceptions import (
    InvalidIdentifier,
    InvalidInput,
    ReviewRequired,
    SessionExists,
    SessionNotFound,
    VersionNotFound,
)
from checkpoints.models import AuditEvent, Message, Run, Session
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import conversation, interrupt_call, lose_run, start_session
from tests.support.processes import append_line


def desk(cp: SyncCheckpointer, session_id: str, effects: Path) -> ToolRegistry:
    registry = ToolRegistry(checkpointer=cp, session_id=session_id)

    @registry.tool
    def pay(order: int) -> str:
        append_line(str(effects), f"pay {order}")
        return f"paid {order}"

    @registry.tool(scope="workspace")
    def welcome(customer: str) -> str:
        append_line(str(effects), f"welcome {customer}")
        return f"welcomed {customer}"

    return registry


@pytest.fixture
def origin(cp: SyncCheckpointer, effects: Path) -> SyncCheckpointer:
    """Session with three turns, each with a payment under the same call id."""
    registry = desk(start_session(cp, "origin"), "origin", effects)
    for turn in (1, 2, 3):
        cp.save_checkpoint("origin", conversation("abc"[:turn]), {"turn": turn}, turn)
        registry.dispatch("pay", {"order": turn}, "call_1")
    registry.dispatch("welcome", {"customer": "bob"}, "call_2")
    return cp


def test_fork_is_a_session_with_the_forked_version(origin: SyncCheckpointer) -> None:
    version = origin.fork_session("origin", "fork", version=2)
    first, source = origin.load("fork", version), origin.load("origin", 2)

    for key in ("transcript", "plan", "budget_spent_usd", "usage", "payload", "phase"):
        assert first[key] == source[key]
    row = Session.objects.get(session_id="fork")
    assert (row.forked_from_id, row.forked_version) == (Session.objects.get(session_id="origin").pk, 2)


def test_title_of_a_fork_is_the_given_one_or_that_of_its_original(origin: SyncCheckpointer) -> None:
    Session.objects.update(title="Refund")
    origin.fork_session("origin", "fork")
    origin.fork_session("origin", "named", title="With a\nvoucher")
    titles = dict(Session.objects.values_list("session_id", "title"))
    assert titles == {"origin": "Refund", "fork": "Refund", "named": "With a voucher"}
    with pytest.raises(InvalidInput):
        origin.fork_session("origin", "other", title=7)  # type: ignore[arg-type]


def test_first_process_of_a_fork_is_run_1(origin: SyncCheckpointer) -> None:
    origin.fork_session("origin", "fork")
    runs = Run.objects.filter(session__session_id="fork").order_by("number").values_list("number", "status")
    assert list(runs) == [(0, "released")]
    origin.resume("fork")
    assert list(runs.all()) == [(0, "released"), (1, "running")]


def test_fork_of_the_newest_version(origin: SyncCheckpointer) -> None:
    origin.fork_session("origin", "fork")

    assert (origin.load_latest("fork") or {})["transcript"] == conversation("abc")


def test_fork_copies_no_message(origin: SyncCheckpointer) -> None:
    origin.fork_session("origin", "fork")

    assert Message.objects.count() == 3


def test_fork_and_origin_continue_independently(origin: SyncCheckpointer) -> None:
    forked = origin.fork_session("origin", "fork", version=2)
    origin.save_checkpoint("origin", conversation("abcd"), None, 0)
    start_session(origin, "fork")
    ours = origin.save_checkpoint("fork", conversation("abxy"), None, 0)

    assert origin.load("origin", 4)["transcript"] == conversation("abcd")
    assert (origin.load("fork", ours)["transcript"], ours > forked) == (conversation("abxy"), True)
    assert origin.load("fork", forked)["transcript"] == conversation("ab")


def test_fork_never_repeats_an_effect(origin: SyncCheckpointer, effects: Path) -> None:
    before = effects.read_text()
    origin.fork_session("origin", "fork", version=1)
    registry = desk(origin, "fork", effects)
    origin.resume("fork", registry)

    assert registry.dispatch("pay", {"order": 2}, "call_7") == ToolResult("call_7", "paid 2", replayed=True)
    assert registry.dispatch("welcome", {"customer": "bob"}, "call_8").replayed is True
    assert effects.read_text() == before


def test_fork_does_not_replay_calls_after_the_forked_version(origin: SyncCheckpointer, effects: Path) -> None:
    origin.fork_session("origin", "fork", version=1)
    registry = desk(origin, "fork", effects)
    point = origin.resume("fork", registry)

    assert point.replayable == {}
    assert registry.dispatch("pay", {"order": 9}, "call_1") == ToolResult("call_1", "paid 9")


def test_effects_of_the_fork_are_independent(origin: SyncCheckpointer, effects: Path) -> None:
    origin.fork_session("origin", "fork")
    registry = desk(origin, "fork", effects)
    origin.resume("fork", registry)
    registry.dispatch("pay", {"order": 9}, "call_9")

    assert desk(origin, "origin", effects).dispatch("pay", {"order": 9}, "call_9").replayed is False
    assert effects.read_text().count("pay 9") == 2


def test_undecided_call_refuses_the_fork_at_the_gate(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("a"), None, 0)
    taker, _ = interrupt_call(cp, open_checkpointer)
    taker.fork_session("s", "fork")

    with pytest.raises(ReviewRequired):
        taker.resume("fork")
    (call,) = taker.pending_tool_calls("fork")
    taker.mark_failed("fork", "call_1", actor="alice", reason="no", revision=call["revision"])
    assert taker.resume("fork").finished is False
    assert [call["status"] for call in taker.pending_tool_calls("s")] == ["interrupted"]


def test_running_call_has_an_unknown_outcome_in_the_fork(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint("s", conversation("a"), None, 0)
    cp.record_tool_call_issued("s", "call_1", "pay", {}, "key")
    cp.fork_session("s", "fork")

    assert [call["status"] for call in cp.pending_tool_calls("fork")] == ["interrupted"]
    assert [call["status"] for call in cp.pending_tool_calls("s")] == ["issued"]
    events = AuditEvent.objects.filter(kind="call_interrupted")
    assert [(event.session_id, event.actor) for event in events] == [
        (Session.objects.get(session_id="fork").pk, "fork")
    ]


def test_fork_requires_no_ownership(origin: SyncCheckpointer, open_checkpointer: Open) -> None:
    open_checkpointer().fork_session("origin", "fork")
    lose_run(open_checkpointer, "fork").save_checkpoint("fork", conversation("abcd"), None, 0)

    assert origin.save_checkpoint("origin", conversation("abce"), None, 0) == 4


def test_fork_of_a_fork(origin: SyncCheckpointer) -> None:
    origin.fork_session("origin", "fork", version=2)
    origin.fork_session("fork", "twig")

    assert (origin.load_latest("twig") or {})["transcript"] == conversation("ab")
    assert Message.objects.count() == 3


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("unknown", "fork"), SessionNotFound),
        (("origin", "origin"), SessionExists),
        (("origin", ""), InvalidIdentifier),
        (("", "fork"), InvalidIdentifier),
    ],
    ids=repr,
)
def test_invalid_fork_is_refused(origin: SyncCheckpointer, arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        origin.fork_session(*arguments)
    assert Session.objects.count() == 1


def test_unknown_version_cannot_be_forked(origin: SyncCheckpointer) -> None:
    for version in (0, 9, 2**70):
        with pytest.raises(VersionNotFound):
            origin.fork_session("origin", "fork", version=version)
    assert Session.objects.count() == 1
