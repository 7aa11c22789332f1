"""Retention removes versions with their messages, keeps what is needed, and never reuses numbers."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from checkpoints import SyncCheckpointer
from checkpoints.db import batched_row_iteration, clock
from checkpoints.exceptions import InvalidInput, SessionNotFound, StillNeeded, VersionNotFound
from checkpoints.models import AuditEvent, Checkpoint, Message, Segment, Session, ToolCall
from checkpoints.sessions.prune_versions_and_delete_sessions import find_removal_counts_in_audit_trail_since
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import (
    Messages,
    conversation,
    count_messages,
    interrupt_call,
    start_session,
    text_message,
)


def versions(cp: SyncCheckpointer, session_id: str = "s") -> dict[int, Messages]:
    return {
        found["version"]: cp.load(session_id, found["version"])["transcript"]
        for found in cp.list_checkpoints(session_id)
    }


@pytest.fixture
def ten(cp: SyncCheckpointer) -> SyncCheckpointer:
    """Session with ten versions, whose transcript is compacted after the fifth."""
    start_session(cp)
    for turn in range(1, 6):
        cp.save_checkpoint("s", conversation("abcde"[:turn]), {"turn": turn}, turn)
    for turn in range(6, 11):
        cp.save_checkpoint("s", [text_message("summary"), *conversation("fghij"[: turn - 6])], {"turn": turn}, turn)
    return cp


@pytest.mark.parametrize(
    ("arguments", "kept", "messages"),
    [
        ({"keep_last": 3}, [10, 9, 8], 5),
        ({"keep_last": 1}, [10], 5),
        ({"keep_last": 6}, [10, 9, 8, 7, 6, 5], 10),
        ({"keep_last": 99}, list(range(10, 0, -1)), 10),
        ({"keep_every": 4}, [10, 8, 4], 9),
        ({"keep_last": 2, "keep_every": 5}, [10, 9, 5], 10),
        ({"older_than": timedelta(days=1)}, list(range(10, 0, -1)), 10),
    ],
    ids=repr,
)
def test_removed_versions_remove_their_messages(
    ten: SyncCheckpointer, arguments: dict[str, Any], kept: list[int], messages: int
) -> None:
    before = versions(ten)
    removed = ten.prune("s", **arguments)

    assert versions(ten) == {number: before[number] for number in kept}
    assert (removed.versions, removed.messages, count_messages()) == (10 - len(kept), 10 - messages, messages)


def test_old_versions_are_removed(ten: SyncCheckpointer) -> None:
    Checkpoint.objects.filter(version__lte=4).update(created_at=F("created_at") - timedelta(days=3))
    ten.prune("s", older_than=timedelta(days=2))

    assert list(versions(ten)) == [10, 9, 8, 7, 6, 5]


def test_dry_run_removes_nothing(ten: SyncCheckpointer) -> None:
    before = versions(ten)
    removed = ten.prune("s", keep_last=2, dry_run=True)

    assert (removed.versions, removed.messages, removed.dry_run) == (8, 5, True)
    assert (versions(ten), count_messages()) == (before, 10)


def test_session_continues_after_pruning(ten: SyncCheckpointer, open_checkpointer: Open) -> None:
    ten.prune("s", keep_last=1)
    transcript = [text_message("summary"), *conversation("fghijk")]
    assert ten.save_checkpoint("s", transcript, None, 0) == 11
    ten.close()

    assert open_checkpointer().resume("s").transcript == transcript


def test_number_of_a_removed_version_is_not_reused(ten: SyncCheckpointer) -> None:
    ten.delete_checkpoint("s", 10)

    assert ten.save_checkpoint("s", [text_message("summary")], None, 0) == 11
    assert list(versions(ten)) == [11, 9, 8, 7, 6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize("number", range(1, 11))
def test_any_single_version_can_be_removed(ten: SyncCheckpointer, number: int) -> None:
    before = versions(ten)
    ten.delete_checkpoint("s", number)

    assert versions(ten) == {other: before[other] for other in before if other != number}
    with pytest.raises(VersionNotFound):
        ten.load("s", number)


def test_transcript_continues_after_the_last_version_was_removed(ten: SyncCheckpointer) -> None:
    ten.delete_checkpoint("s", 10)
    transcript = [text_message("summary"), *conversation("fghi"), text_message("other")]
    number = ten.save_checkpoint("s", transcript, None, 0)

    assert ten.load("s", number)["transcript"] == transcript


def test_versions_of_forks_keep_their_messages(ten: SyncCheckpointer) -> None:
    ten.fork_session("s", "fork", version=3)
    ten.prune("s", keep_last=1)

    assert (ten.load_latest("fork") or {})["transcript"] == conversation("abc")
    assert list(versions(ten)) == [10]


@pytest.mark.parametrize(
    "arguments",
    [{}, {"keep_last": 0}, {"keep_last": -1}, {"keep_every": 0}, {"keep_last": "3"}, {"older_than": timedelta(-1)}],
    ids=repr,
)
def test_invalid_rule_removes_nothing(ten: SyncCheckpointer, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        ten.prune("s", **arguments)
    assert Checkpoint.objects.count() == 10


def test_unknown_session_and_version_are_refused(ten: SyncCheckpointer) -> None:
    with pytest.raises(SessionNotFound):
        ten.prune("unknown", keep_last=1)
    with pytest.raises(SessionNotFound):
        ten.delete_checkpoint("unknown", 1)
    with pytest.raises(SessionNotFound):
        ten.delete_session("unknown")
    with pytest.raises(VersionNotFound):
        ten.delete_checkpoint("s", 11)


# whole sessions


def test_deleted_session_leaves_no_rows(ten: SyncCheckpointer) -> None:
    ten.record_tool_call_issued("s", "call_1", "pay", {}, "key")
    ten.record_tool_call_result("s", "call_1", "paid", True)
    ten.finish_session("s", "completed")
    removed = ten.delete_session("s")

    assert (removed.versions, removed.messages) == (10, 10)
    counts = [model._default_manager.count() for model in (Session, Checkpoint, Message, Segment, ToolCall)]
    assert counts == [0, 0, 0, 0, 0]
    assert ten.load_latest("s") is None


def test_recorded_removal_is_found_without_reading_the_whole_audit_trail(
    ten: SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trail of a workspace may be large; PostgreSQL would copy all of it for a cursor outside of a transaction."""
    monkeypatch.setattr(batched_row_iteration, "BATCH_SIZE", 2)
    began = clock.now() - timedelta(seconds=1)
    removed = ten.prune("s", keep_last=3)
    for number in range(5):
        ten.start_session(f"later {number}")

    with CaptureQueriesContext(connection) as queries:
        found = find_removal_counts_in_audit_trail_since(ten.store, "s", began)
    assert found == removed
    reads = [query["sql"] for query in queries if AuditEvent._meta.db_table in query["sql"]]
    assert len(reads) > 1
    assert all("LIMIT 2" in read for read in reads)
    assert find_removal_counts_in_audit_trail_since(ten.store, "s", began + timedelta(hours=1)) is None


def test_dry_run_deletes_nothing(ten: SyncCheckpointer) -> None:
    ten.close()

    assert ten.delete_session("s", dry_run=True).versions == 10
    assert (Session.objects.count(), Checkpoint.objects.count(), count_messages()) == (1, 10, 10)


def test_fork_inherits_what_it_needs_of_a_deleted_session(ten: SyncCheckpointer) -> None:
    ten.fork_session("s", "fork", version=3)
    ten.fork_session("fork", "twig")
    ten.close()
    for name in ("s", "fork"):
        ten.delete_session(name)

    assert (ten.load_latest("twig") or {})["transcript"] == conversation("abc")
    assert Message.objects.count() == 3
    ten.start_session("twig")
    ten.save_checkpoint("twig", conversation("abx"), None, 0)
    assert (ten.load_latest("twig") or {})["transcript"] == conversation("abx")


def test_owned_or_undecided_session_is_not_deleted(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    with pytest.raises(StillNeeded):
        open_checkpointer().delete_session("s")
    taker, call = interrupt_call(cp, open_checkpointer)
    taker.close()
    with pytest.raises(StillNeeded):
        open_checkpointer().delete_session("s")
    assert Session.objects.count() == 1
    taker.mark_failed("s", "call_1", actor="alice", reason="no", revision=call["revision"])


@pytest.mark.django_db
def test_command_without_a_rule_names_its_options() -> None:
    with pytest.raises(CommandError, match="--keep-last, --keep-every or --older-than"):
        call_command("prune")
