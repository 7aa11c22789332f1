from decimal import Decimal
from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import (
    InvalidIdentifier,
    InvalidInput,
    NotOwner,
    NotRepresentable,
    OwnershipLost,
    SessionFinished,
    SessionNotFound,
    VersionConflict,
)
from checkpoints.models import Checkpoint, Message, Session
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import (
    conversation,
    count_messages,
    lose_run,
    start_session,
    text_message,
)


def latest(cp: SyncCheckpointer, session_id: str = "s") -> dict[str, Any]:
    loaded = cp.load_latest(session_id)
    assert loaded is not None
    return loaded


def test_versions_count_from_one(cp: SyncCheckpointer) -> None:
    start_session(cp)

    assert [cp.save_checkpoint("s", conversation("ab"), None, 0) for _ in range(3)] == [1, 2, 3]


def test_version_is_loaded_as_it_was_saved(cp: SyncCheckpointer) -> None:
    run = cp.start_session("s")
    transcript = conversation(["hello", "world"])
    plan = {"goal": "refund", "steps": [{"title": "pay", "done": False, "evidence": []}]}
    cp.save_checkpoint(
        "s", transcript, plan, 0.25, phase="post_llm", usage={"total_tokens": 7}, payload={"step": {"n": 2}}
    )

    loaded = latest(cp)
    created_at = loaded.pop("created_at")

    assert loaded == {
        "transcript": transcript,
        "plan": plan,
        "budget_spent_usd": 0.25,
        "version": 1,
        "usage": {"total_tokens": 7},
        "payload": {"step": {"n": 2}},
        "phase": "post_llm",
        "run_id": str(run.pk),
        "schema_version": 1,
    }
    assert created_at == Checkpoint.objects.get().created_at.isoformat()


@pytest.mark.parametrize(
    "plan", [None, {}, {"steps": []}, {"steps": [{"sub": [{"sub": {"a": None}}]}]}, {"\ud800": "\0"}], ids=ascii
)
def test_plan_is_loaded_equal(cp: SyncCheckpointer, plan: dict[str, Any] | None) -> None:
    start_session(cp).save_checkpoint("s", [], plan, 0)

    assert latest(cp)["plan"] == plan


@pytest.mark.parametrize("budget", [0, 0.1, 12, Decimal("0.100"), Decimal("1E-12"), -3.5], ids=repr)
def test_budget_is_loaded_as_the_same_number(cp: SyncCheckpointer, budget: float | Decimal) -> None:
    start_session(cp).save_checkpoint("s", [], None, budget)

    loaded = latest(cp)["budget_spent_usd"]
    assert (type(loaded), str(loaded)) == (type(budget), str(budget))


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"kind": "hologram", "beams": [{"angle": 1.5}, None]},
        {"role": "user", "content": "plain text of another loop"},
        {"id": 7, "role": ["odd"], "created_at": "yesterday", "blocks": "none"},
        {"id": "x" * 4000, "role": "r" * 400, "created_at": "9999-12-31T23:59:59-14:00"},
        {"id": "\0\ud800", "role": "\0", "created_at": "0001-01-01T00:00:00+14:00"},
        {"text": "NUL \0, lone \ud800, \u2028, emoji 🌍, 世界, \x7f"},
        {"numbers": [0, -0.0, 1e300, 2**70, 5e-324]},
        {"blocks": [{"kind": "image", "data": "A" * 200_000}]},
    ],
    ids=lambda message: ascii(message)[:40],
)
def test_message_of_any_shape_is_loaded_unchanged(cp: SyncCheckpointer, message: dict[str, Any]) -> None:
    start_session(cp).save_checkpoint("s", [message, text_message("after")], None, 0)

    assert latest(cp)["transcript"] == [message, text_message("after")]


def test_empty_transcript_creates_a_version(cp: SyncCheckpointer) -> None:
    start_session(cp)

    assert cp.save_checkpoint("s", [], {}, 0) == 1
    assert latest(cp)["transcript"] == []


@pytest.mark.parametrize("length", [64, 65, 12_000])
def test_many_messages_are_saved_in_one_version(cp: SyncCheckpointer, length: int) -> None:
    transcript = [text_message(f"message {number}") for number in range(length)]

    assert start_session(cp).save_checkpoint("s", transcript, None, 0) == 1
    assert cp.load("s", 1)["transcript"] == transcript


def test_object_changed_after_a_save_does_not_change_the_version(cp: SyncCheckpointer) -> None:
    start_session(cp)
    transcript, plan = conversation("ab"), {"steps": [1]}
    cp.save_checkpoint("s", transcript, plan, 0)
    transcript[0]["blocks"][0]["text"] = "changed"
    plan["steps"].append(2)
    cp.save_checkpoint("s", transcript, plan, 0)

    first, second = cp.load("s", 1), cp.load("s", 2)

    assert (first["transcript"], first["plan"]) == (conversation("ab"), {"steps": [1]})
    assert (second["transcript"], second["plan"]) == (transcript, {"steps": [1, 2]})


def test_session_counts_versions_messages_and_usage(cp: SyncCheckpointer) -> None:
    start_session(cp)
    cp.save_checkpoint("s", conversation("abc"), None, 0.5, usage={"input_tokens": 3, "output_tokens": 4})
    row = Session.objects.get()

    assert (row.latest_version, row.message_count, row.total_tokens) == (1, 3, 7)
    assert row.budget_spent_usd == Decimal("0.5")


@pytest.mark.parametrize(
    "usage",
    [
        {
            "input_tokens": 100,
            "output_tokens": 10,
            "cache_read_input_tokens": 900,
            "cache_creation_input_tokens": 50,
        },
        {"input_tokens": 1050, "output_tokens": 10, "input_tokens_details": {"cached_tokens": 900}},
        {"prompt_tokens": 1050, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 900}},
        {"by_model": {"large-1": {"input_tokens": 1000, "output_tokens": 10}, "small-1": {"input_tokens": 50}}},
    ],
)
def test_tokens_of_a_session_include_the_cache_once(cp: SyncCheckpointer, usage: dict[str, Any]) -> None:
    start_session(cp)
    cp.save_checkpoint("s", conversation("ab"), None, 0.5, usage=usage)
    assert Session.objects.get().total_tokens == 1060
    assert cp.list_sessions()[0]["total_tokens"] == 1060


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param({"transcript": [{"a": float("nan")}]}, NotRepresentable, id="NaN in a message"),
        pytest.param({"transcript": [text_message("fine"), {"a": {1}}]}, NotRepresentable, id="set in a message"),
        pytest.param({"transcript": "hello"}, NotRepresentable, id="text as transcript"),
        pytest.param({"transcript": {"a": 1}}, NotRepresentable, id="dict as transcript"),
        pytest.param({"transcript": None}, NotRepresentable, id="no transcript"),
        pytest.param({"transcript": iter(conversation("a"))}, NotRepresentable, id="iterator as transcript"),
        pytest.param({"transcript": ["hello"]}, NotRepresentable, id="text as message"),
        pytest.param({"plan": [1]}, NotRepresentable, id="list as plan"),
        pytest.param({"plan": {"a": float("inf")}}, NotRepresentable, id="infinity in the plan"),
        pytest.param({"plan": {1: "a"}}, NotRepresentable, id="int key in the plan"),
        pytest.param({"budget_spent_usd": float("nan")}, NotRepresentable, id="NaN as budget"),
        pytest.param({"budget_spent_usd": None}, NotRepresentable, id="no budget"),
        pytest.param({"budget_spent_usd": 10**400}, NotRepresentable, id="huge budget"),
        pytest.param({"budget_spent_usd": Decimal("0." + "1" * 80)}, NotRepresentable, id="long budget"),
        pytest.param({"usage": {"a": b""}}, NotRepresentable, id="bytes in usage"),
        pytest.param({"usage": "many"}, NotRepresentable, id="text as usage"),
        pytest.param({"payload": {"a": object()}}, NotRepresentable, id="object in the payload"),
        pytest.param({"phase": "lunch"}, InvalidInput, id="unknown phase"),
        pytest.param({"session_id": ""}, InvalidIdentifier, id="empty id"),
        pytest.param({"session_id": "a\0"}, InvalidIdentifier, id="NUL in the id"),
        pytest.param({"session_id": "unknown"}, SessionNotFound, id="unknown session"),
        pytest.param({"expected_version": 9}, VersionConflict, id="other version"),
        pytest.param({"expected_version": "0"}, InvalidInput, id="version that is no number"),
    ],
)
@pytest.mark.parametrize("before", [0, 1])
def test_refused_save_writes_nothing(
    cp: SyncCheckpointer, before: int, arguments: dict[str, Any], error: type[Exception]
) -> None:
    start_session(cp)
    for _ in range(before):
        cp.save_checkpoint("s", conversation("a"), None, 0)
    given = {"session_id": "s", "transcript": conversation("a"), "plan": None, "budget_spent_usd": 0} | arguments

    with pytest.raises(error):
        cp.save_checkpoint(**given)
    assert (Checkpoint.objects.count(), Message.objects.count()) == (before, before)
    assert cp.save_checkpoint("s", conversation("a"), None, 0) == before + 1


def test_matching_expected_version_is_saved(cp: SyncCheckpointer) -> None:
    start_session(cp)

    assert [cp.save_checkpoint("s", conversation("ab"[:n]), None, 0, expected_version=n) for n in range(3)] == [1, 2, 3]


def test_conflict_names_the_current_version(cp: SyncCheckpointer) -> None:
    start_session(cp)
    cp.save_checkpoint("s", conversation("a"), None, 0)
    cp.save_checkpoint("s", conversation("ab"), None, 0)

    with pytest.raises(VersionConflict) as caught:
        cp.save_checkpoint("s", conversation("abc"), None, 0, expected_version=1)
    assert (caught.value.expected, caught.value.latest) == (1, 2)
    assert count_messages() == 2


def test_save_without_start_raises_not_owner(open_checkpointer: Open) -> None:
    start_session(open_checkpointer())

    with pytest.raises(NotOwner):
        open_checkpointer().save_checkpoint("s", [], None, 0)


@pytest.mark.parametrize("transcript", [conversation("ab"), conversation("b"), []], ids=["longer", "other", "empty"])
def test_save_after_a_takeover_is_refused_and_changes_nothing(
    open_checkpointer: Open, transcript: list[dict[str, Any]]
) -> None:
    stale = start_session(open_checkpointer())
    stale.save_checkpoint("s", conversation("a"), {"by": "stale"}, 1)
    taker = lose_run(open_checkpointer)

    with pytest.raises(OwnershipLost):
        stale.save_checkpoint("s", transcript, {"by": "stale"}, 2)
    assert (Checkpoint.objects.count(), count_messages()) == (1, 1)
    assert taker.save_checkpoint("s", conversation("ab"), None, 0) == 2


def test_save_to_a_finished_session_is_refused(cp: SyncCheckpointer) -> None:
    start_session(cp).finish_session("s", "completed")

    with pytest.raises(SessionFinished):
        cp.save_checkpoint("s", [], None, 0)
    assert Checkpoint.objects.count() == 0


def test_new_owner_saves_after_the_latest_version(open_checkpointer: Open) -> None:
    start_session(open_checkpointer()).save_checkpoint("s", conversation("ab"), None, 0)
    taker = lose_run(open_checkpointer)

    assert taker.save_checkpoint("s", conversation("abc"), None, 0) == 2
    assert count_messages() == 3


def test_number_of_a_deleted_version_is_not_reused(cp: SyncCheckpointer) -> None:
    start_session(cp)
    for _ in range(3):
        cp.save_checkpoint("s", conversation("a"), None, 0)
    Checkpoint.objects.filter(version=3).delete()

    assert cp.save_checkpoint("s", conversation("a"), None, 0) == 4
    assert [found["version"] for found in cp.list_checkpoints("s")] == [4, 2, 1]


@pytest.mark.unsealed("the library never deletes the only version of a session")
def test_number_of_a_deleted_version_is_not_reused_by_another_run(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    for _ in range(3):
        cp.save_checkpoint("s", conversation("a"), None, 0)
    Checkpoint.objects.all().delete()

    assert lose_run(open_checkpointer).save_checkpoint("s", conversation("a"), None, 0) == 4
