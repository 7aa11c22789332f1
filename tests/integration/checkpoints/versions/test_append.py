from decimal import Decimal
from typing import Any

import pytest

from checkpoints import UNCHANGED, SyncCheckpointer
from checkpoints.exceptions import (
    NotRepresentable,
    OwnershipLost,
    SessionFinished,
    SessionNotFound,
    VersionConflict,
)
from checkpoints.models import Checkpoint
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import conversation, count_messages, lose_run, start_session


def test_append_returns_the_next_version(cp: SyncCheckpointer) -> None:
    start_session(cp)

    assert cp.append_checkpoint("s", conversation("a"), expected_version=0) == 1
    assert cp.append_checkpoint("s", conversation("bc"), expected_version=1) == 2
    assert cp.load("s", 2)["transcript"] == [*conversation("a"), *conversation("bc")]
    assert count_messages() == 3


def test_append_of_no_messages_creates_a_version(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint("s", conversation("ab"), None, 0)

    assert cp.append_checkpoint("s", [], expected_version=1) == 2
    assert cp.load("s", 2)["transcript"] == conversation("ab")


def test_appends_and_complete_saves_can_alternate(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint("s", conversation("ab"), None, 0)
    cp.append_checkpoint("s", [conversation("abc")[2]], expected_version=1)
    cp.save_checkpoint("s", conversation("abcd"), None, 0)

    assert [cp.load("s", version)["transcript"] for version in (1, 2, 3)] == [
        conversation("ab"),
        conversation("abc"),
        conversation("abcd"),
    ]
    assert count_messages() == 4


def test_omitted_values_are_kept(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint(
        "s",
        conversation("a"),
        {"goal": 1},
        Decimal("1.50"),
        usage={"total_tokens": 9},
        phase="post_llm",
        payload={"p": 1},
    )
    cp.append_checkpoint("s", [], expected_version=1)

    loaded = cp.load("s", 2)
    kept = {key: loaded[key] for key in ("plan", "budget_spent_usd", "usage", "phase", "payload")}
    assert kept == {
        "plan": {"goal": 1},
        "budget_spent_usd": Decimal("1.50"),
        "usage": {"total_tokens": 9},
        "phase": "turn",
        "payload": None,
    }


def test_omitted_values_are_kept_for_the_next_run(open_checkpointer: Open) -> None:
    start_session(open_checkpointer()).save_checkpoint("s", conversation("a"), {"goal": 1}, 2.5)
    lose_run(open_checkpointer).append_checkpoint("s", [], expected_version=1)

    loaded = open_checkpointer().load("s", 2)
    assert (loaded["plan"], loaded["budget_spent_usd"]) == ({"goal": 1}, 2.5)


def test_first_append_starts_an_empty_transcript(cp: SyncCheckpointer) -> None:
    start_session(cp).append_checkpoint("s", conversation("a"), expected_version=0)

    loaded = cp.load("s", 1)
    assert (loaded["plan"], loaded["budget_spent_usd"], loaded["usage"]) == (None, 0, None)


@pytest.mark.parametrize("plan", [None, {}, {"goal": 2}, UNCHANGED], ids=repr)
def test_given_plan_replaces_the_previous_one(cp: SyncCheckpointer, plan: Any) -> None:
    start_session(cp).save_checkpoint("s", [], {"goal": 1}, 0)
    cp.append_checkpoint("s", [], expected_version=1, plan=plan)

    assert cp.load("s", 2)["plan"] == ({"goal": 1} if plan is UNCHANGED else plan)


@pytest.mark.parametrize("expected", [0, 1, 3])
def test_append_to_another_version_is_a_conflict(cp: SyncCheckpointer, expected: int) -> None:
    start_session(cp)
    cp.save_checkpoint("s", conversation("a"), None, 0)
    cp.save_checkpoint("s", conversation("ab"), None, 0)

    with pytest.raises(VersionConflict) as caught:
        cp.append_checkpoint("s", conversation("c"), expected_version=expected)
    assert (caught.value.expected, caught.value.latest, count_messages()) == (expected, 2, 2)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param({"session_id": "unknown"}, SessionNotFound, id="unknown session"),
        pytest.param({"new_messages": [{"a": {1}}]}, NotRepresentable, id="set in a message"),
        pytest.param({"new_messages": "hello"}, NotRepresentable, id="text as messages"),
        pytest.param({"plan": [1]}, NotRepresentable, id="list as plan"),
        pytest.param({"budget_spent_usd": float("nan")}, NotRepresentable, id="NaN as budget"),
    ],
)
def test_refused_append_writes_nothing(cp: SyncCheckpointer, arguments: dict[str, Any], error: type[Exception]) -> None:
    start_session(cp)
    given: dict[str, Any] = {"session_id": "s", "new_messages": conversation("a"), "expected_version": 0} | arguments

    with pytest.raises(error):
        cp.append_checkpoint(**given)
    assert (Checkpoint.objects.count(), count_messages()) == (0, 0)


def test_refused_message_is_named_by_its_position(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint("s", conversation("ab"), None, 0)

    with pytest.raises(NotRepresentable) as caught:
        cp.append_checkpoint("s", [{}, {"a": {1}}], expected_version=1)
    assert caught.value.path == "transcript[3].a"


def test_append_after_a_takeover_is_refused(open_checkpointer: Open) -> None:
    stale = start_session(open_checkpointer())
    stale.save_checkpoint("s", conversation("a"), None, 0)
    lose_run(open_checkpointer)

    with pytest.raises(OwnershipLost):
        stale.append_checkpoint("s", conversation("b"), expected_version=1)
    assert count_messages() == 1


def test_append_to_a_finished_session_is_refused(cp: SyncCheckpointer) -> None:
    start_session(cp).finish_session("s", "cancelled")

    with pytest.raises(SessionFinished):
        cp.append_checkpoint("s", conversation("a"), expected_version=0)
