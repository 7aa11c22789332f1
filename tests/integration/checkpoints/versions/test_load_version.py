from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import (
    CheckpointCorrupted,
    IntegrityError,
    InvalidIdentifier,
    InvalidInput,
    SchemaFromFuture,
    SessionNotFound,
    VersionNotFound,
)
from checkpoints.models import Checkpoint, Message, Workspace
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import conversation, start_session


@pytest.fixture
def three(cp: SyncCheckpointer) -> SyncCheckpointer:
    """Session with three versions, each with one more message."""
    start_session(cp)
    for length in (1, 2, 3):
        cp.save_checkpoint("s", conversation("abc"[:length]), {"n": length}, length)
    return cp


def test_latest_of_an_unknown_session_is_none(cp: SyncCheckpointer) -> None:
    assert cp.load_latest("unknown") is None


def test_latest_of_a_session_without_versions_is_none(cp: SyncCheckpointer) -> None:
    assert start_session(cp).load_latest("s") is None


def test_latest_is_the_newest(three: SyncCheckpointer) -> None:
    assert three.load_latest("s") == three.load("s", 3)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_can_be_loaded(three: SyncCheckpointer, version: int) -> None:
    loaded = three.load("s", version)

    assert (loaded["version"], loaded["transcript"], loaded["plan"], loaded["budget_spent_usd"]) == (
        version,
        conversation("abc"[:version]),
        {"n": version},
        version,
    )


@pytest.mark.parametrize("version", [0, -1, 4, 2**63, 10**30])
def test_unknown_version_is_not_found(three: SyncCheckpointer, version: int) -> None:
    with pytest.raises(VersionNotFound) as caught:
        three.load("s", version)
    assert (caught.value.session_id, caught.value.version) == ("s", version)


@pytest.mark.parametrize("version", ["1", 1.0, None, True], ids=repr)
def test_version_that_is_not_an_integer_is_refused(three: SyncCheckpointer, version: Any) -> None:
    with pytest.raises(InvalidInput):
        three.load("s", version)


def test_version_of_an_unknown_session_is_not_found(cp: SyncCheckpointer) -> None:
    with pytest.raises(SessionNotFound):
        cp.load("unknown", 1)
    with pytest.raises(SessionNotFound):
        cp.list_checkpoints("unknown")


@pytest.mark.parametrize("session_id", ["", "\0", None, "x" * 256], ids=repr)
def test_malformed_id_is_refused_by_every_read(cp: SyncCheckpointer, session_id: Any) -> None:
    for read in (cp.load_latest, cp.list_checkpoints, lambda given: cp.load(given, 1), cp.preview_resume):
        with pytest.raises(InvalidIdentifier):
            read(session_id)


def test_list_is_ordered_by_newest_without_transcripts(three: SyncCheckpointer) -> None:
    listed = three.list_checkpoints("s")

    assert [(found["version"], found["message_count"], found["plan"]) for found in listed] == [
        (3, 3, {"n": 3}),
        (2, 2, {"n": 2}),
        (1, 1, {"n": 1}),
    ]
    assert {"transcript"} & set(listed[0]) == set()


def test_list_continues_before_a_version(three: SyncCheckpointer) -> None:
    assert [found["version"] for found in three.list_checkpoints("s", limit=2)] == [3, 2]
    assert [found["version"] for found in three.list_checkpoints("s", before=2, limit=2)] == [1]
    assert three.list_checkpoints("s", before=1) == []


@pytest.mark.parametrize("arguments", [{"limit": 0}, {"limit": 1001}, {"limit": "5"}, {"before": "2"}], ids=repr)
def test_list_with_invalid_arguments_is_refused(three: SyncCheckpointer, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        three.list_checkpoints("s", **arguments)


def test_other_workspace_sees_nothing(three: SyncCheckpointer, open_checkpointer: Open) -> None:
    Workspace.objects.create(slug="other", name="Other")
    other = open_checkpointer(workspace="other")

    assert other.load_latest("s") is None
    with pytest.raises(SessionNotFound):
        other.load("s", 1)


def test_same_id_in_two_workspaces_is_two_sessions(three: SyncCheckpointer, open_checkpointer: Open) -> None:
    Workspace.objects.create(slug="other", name="Other")
    other = start_session(open_checkpointer(workspace="other"))

    assert other.save_checkpoint("s", conversation("z"), None, 0) == 1
    assert three.save_checkpoint("s", conversation("abc"), None, 0) == 4
    assert other.load("s", 1)["transcript"] == conversation("z")


def test_version_can_be_loaded_after_its_neighbour_was_removed(three: SyncCheckpointer) -> None:
    Checkpoint.objects.get(version=2).delete()

    assert [three.load("s", version)["transcript"] for version in (1, 3)] == [conversation("a"), conversation("abc")]
    with pytest.raises(VersionNotFound):
        three.load("s", 2)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("plan", "{"),
        ("plan", "NaN"),
        ("usage", ""),
        ("payload", '{"a":'),
        ("budget_spent_usd", "much"),
        ("budget_spent_usd", '"much"'),
        ("budget_spent_usd", "null"),
    ],
)
def test_damaged_column_is_corrupted(three: SyncCheckpointer, column: str, value: str) -> None:
    Checkpoint.objects.filter(version=3).update(**{column: value})

    with pytest.raises(CheckpointCorrupted) as caught:
        three.load_latest("s")
    assert caught.value.session_id == "s"
    assert three.load("s", 2)["version"] == 2


def test_missing_message_is_corrupted(three: SyncCheckpointer) -> None:
    Message.objects.get(position=1).delete()

    with pytest.raises(CheckpointCorrupted):
        three.load("s", 3)
    assert three.load("s", 1)["transcript"] == conversation("a")


@pytest.mark.parametrize("changes", [{"body": "{"}, {"chain": b"other"}], ids=["body", "chain"])
def test_damaged_message_is_corrupted(three: SyncCheckpointer, changes: dict[str, Any]) -> None:
    Message.objects.filter(position=2).update(**changes)

    with pytest.raises((CheckpointCorrupted, IntegrityError)):  # with a key, the text is compared with its chain first
        three.load("s", 3)
    assert three.load("s", 2)["transcript"] == conversation("ab")


def test_version_of_a_newer_schema_is_refused(three: SyncCheckpointer) -> None:
    Checkpoint.objects.filter(version=3).update(schema_version=2)

    with pytest.raises(SchemaFromFuture) as caught:
        three.load_latest("s")
    assert (caught.value.found, caught.value.known) == (2, 1)
    assert three.load("s", 2)["version"] == 2


@pytest.mark.parametrize("column", ["plan", "usage", "payload"])
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("null", "it is null, not an object"),
        ("[]", "it is a list, not an object"),
        ('"x"', "it is a text, not an object"),
        ("0", "it is a number, not an object"),
        ("true", "it is a boolean, not an object"),
    ],
)
def test_column_without_a_json_object_is_corrupted(
    open_checkpointer: Open, three: SyncCheckpointer, column: str, value: str, why: str
) -> None:
    three.close()
    Checkpoint.objects.filter(version=3).update(**{column: value})
    cp = open_checkpointer()

    for read in (cp.load_latest, cp.resume, cp.preview_resume):
        with pytest.raises(CheckpointCorrupted) as caught:
            read("s")
        assert caught.value.field == f"the {column} of version 3"
        assert caught.value.detail == f"In session 's', the {column} of version 3 is damaged: {why}."
    assert cp.load("s", 2)["plan"] == {"n": 2}
