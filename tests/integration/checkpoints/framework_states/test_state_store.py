"""States of frameworks: values are restored equal, appends store little, and removal leaves nothing behind."""

import json
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import (
    CheckpointCorrupted,
    IntegrityError,
    NotRepresentable,
    OwnershipLost,
    SessionBusy,
    SessionExists,
    SessionFinished,
    StorageError,
)
from checkpoints.framework_states import (
    conversation_log,
    remove_and_copy_states,
    state_store,
    write_cached_session_in_one_statement,
)
from checkpoints.framework_states.conversation_log import NewEntry, NewRecord
from checkpoints.framework_states.state_store import NewState, NewWrite
from checkpoints.framework_states.write_transcript_version import VersionContent
from checkpoints.integrity import verify_session_rows
from checkpoints.integrity.verify_session_rows import VerificationCounts
from checkpoints.models import Blob, Checkpoint, FrameworkState, FrameworkWrite, Message, Run, Session
from checkpoints.sessions import unneeded_framework_state_removal
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.versions import opaque_bytes_as_message_differences
from checkpoints.versions.framework_value_blobs import (
    EncodedValue,
    GrownList,
    NewValue,
    build_list_nodes,
    convert_value_to_json,
    digest_element,
    patch_if_shorter,
)
from tests.conftest import StartChild
from tests.integration.checkpoints import child_scripts
from tests.integration.checkpoints.session_setups import conversation, text_message
from tests.support.processes import database_url

Open = Callable[..., SyncCheckpointer]


def _item(number: int) -> tuple[str, bytes]:
    return "msgpack", b"\xd9\x10" + f"{number:016}".encode()


def _save(
    cp: SyncCheckpointer,
    number: int,
    session_id: str = "s",
    transcript: list[dict[str, Any]] | None = None,
    versions: dict[str, int] | None = None,
    **values: NewValue,
) -> None:
    new = NewState(
        "",
        f"{number:04}",
        f"{number - 1:04}" if number else "",
        "run-1",
        ("json", b"{}"),
        ("json", b'{"step": %d}' % number),
        {**(versions or {}), **dict.fromkeys(values, number)},
        values,
        values.keys(),
    )
    content = None if transcript is None else VersionContent(transcript, payload={"state": number})
    state_store.save_state_and_transcript_version(
        cp.store, session_id, new, build_content=lambda row: content, description=NewSessionFields()
    )


def _load(cp: SyncCheckpointer, state_id: str | None = None, session_id: str = "s") -> dict[str, EncodedValue]:
    loaded = state_store.load_state(cp.store, session_id, "", state_id)
    assert loaded is not None
    return loaded.values


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 63, 64, 65, 300])
def test_lists_are_restored_in_order(cp: SyncCheckpointer, length: int) -> None:
    items = [_item(number) for number in range(length)]
    _save(cp, 0, messages=items, plan=("bytes", bytes(range(256)) * 40))
    assert _load(cp) == {"messages": items, "plan": ("bytes", bytes(range(256)) * 40)}


def test_append_stores_little_at_any_length(cp: SyncCheckpointer) -> None:
    items = [_item(number) for number in range(999)]
    _save(cp, 0, messages=items[:998])
    before = set(Blob.objects.values_list("digest", flat=True))
    _save(cp, 1, messages=items)
    added = [bytes(row.content) for row in Blob.objects.exclude(digest__in=before)]
    assert len(added) == 2
    assert sum(map(len, added)) < 800
    assert _load(cp, "0000")["messages"] == items[:998]


@pytest.mark.parametrize(("length", "kept"), [(0, 0), (7, 7), (8, 8), (64, 63), (300, 300), (300, 130)])
def test_grown_list_is_restored_with_all_elements(cp: SyncCheckpointer, length: int, kept: int) -> None:
    items = [_item(number) for number in range(length)]
    digests = [digest_element(item) for item in items]
    added = [_item(number) for number in range(1000, 1070)]
    _save(cp, 0, messages=items)
    base = build_list_nodes(digests)
    grown = GrownList(base.digest, base if kept == length else build_list_nodes(digests[:kept]), added)
    _save(cp, 1, messages=grown)
    assert _load(cp) == {"messages": [*items[:kept], *added]}
    assert _load(cp, "0000") == {"messages": items}


def test_one_more_element_changes_few_nodes_at_any_length() -> None:
    digests = [digest_element(_item(number)) for number in range(4096)]
    nodes = build_list_nodes([])
    for count, digest in enumerate(digests, 1):
        nodes, blobs = nodes.build_extended_nodes_and_blobs([digest])
        assert len(blobs) <= 5
        if count in {1, 8, 9, 63, 64, 65, 511, 512, 513, 4096}:
            assert nodes == build_list_nodes(digests[:count])


def test_state_whose_stored_channels_were_altered_is_reported(cp: SyncCheckpointer) -> None:
    _save(cp, 0, messages=[_item(1)])
    with connection.cursor() as cursor:
        cursor.execute("SELECT channels FROM checkpoints_frameworkstate")
        stored = bytes(cursor.fetchone()[0])
        assert stored[:1] == b"\x01"
        cursor.execute("UPDATE checkpoints_frameworkstate SET channels = %s", [stored[:-2]])
    with pytest.raises((CheckpointCorrupted, IntegrityError)):  # with seals, the seal is verified first
        state_store.load_state(cp.store, "s", "", None)


@pytest.mark.unsealed("with seals, the seal of the row is wrong before its content is read")
@pytest.mark.parametrize("digest", ["zz", "ab", "A" * 32, 5, ["a" * 32], {"a": 1}], ids=str)
def test_channel_that_names_no_digest_is_reported(cp: SyncCheckpointer, digest: object) -> None:
    _save(cp, 0, messages=[_item(1)])
    FrameworkState.objects.update(channels=json.dumps({"messages": [1, digest]}))
    session = Session.objects.get()

    with pytest.raises(CheckpointCorrupted, match="an entry has no version and digest"):
        state_store.load_state(cp.store, "s", "", None)
    with pytest.raises(CheckpointCorrupted), transaction.atomic():
        unneeded_framework_state_removal.delete_unreachable_blobs_of_session("default", session)
    (problem,) = verify_session_rows.iterate_session_problems("default", session, VerificationCounts())
    assert problem.table == FrameworkState._meta.db_table
    assert "an entry has no version and digest" in problem.why


def test_unchanged_channel_keeps_its_value(cp: SyncCheckpointer) -> None:
    _save(cp, 0, a=_item(1), b=_item(2))
    _save(cp, 1, a=_item(3), versions={"b": 0})
    _save(cp, 7, versions={"a": 1, "b": 0})  # its parent is missing
    assert _load(cp) == {"a": _item(3), "b": _item(2)}


def test_write_replaces_another_only_at_a_negative_position(cp: SyncCheckpointer) -> None:
    _save(cp, 0)
    for value in (_item(1), _item(2)):
        writes = [NewWrite(0, "a", value), NewWrite(-1, "__error__", value)]
        state_store.save_task_writes_and_interrupt_calls(cp.store, "s", "", "0000", "task", "path", writes)
    loaded = state_store.load_state(cp.store, "s", "", None)
    assert loaded is not None
    assert [(write.channel, write.value) for write in loaded.writes] == [("__error__", _item(2)), ("a", _item(1))]


def _save_write(cp: SyncCheckpointer, namespace: str, task_id: str, position: int, value: NewValue) -> None:
    write = NewWrite(position, "a", value)
    state_store.save_task_writes_and_interrupt_calls(cp.store, "s", namespace, "0001", task_id, "", [write])


@pytest.mark.unsealed("with a seal, the session is read too")
@pytest.mark.parametrize("state_id", [None, "0001"])
def test_state_is_loaded_with_its_writes_by_one_statement(cp: SyncCheckpointer, state_id: str | None) -> None:
    _save(cp, 0)
    _save(cp, 1)
    for namespace, task_id, position in [("", "t2", 0), ("sub", "t1", 0), ("", "t1", 3), ("", "t1", 1)]:
        _save_write(cp, namespace, task_id, position, [])
    with CaptureQueriesContext(connection) as captured:
        loaded = state_store.load_state(cp.store, "s", "", state_id)
    assert loaded is not None
    assert [(write.task_id, write.position) for write in loaded.writes] == [("t1", 1), ("t1", 3), ("t2", 0)]
    assert len(captured) == {"postgresql": 1, "sqlite": 2}[connection.vendor]


def test_several_writes_are_the_first_statement_of_a_connection(cp: SyncCheckpointer) -> None:
    _save(cp, 1)
    _save_write(cp, "", "t1", 0, _item(0))
    connection.close()
    if connection.vendor == "postgresql":
        connection.close_pool()  # type: ignore[attr-defined]
    writes = [NewWrite(position, "a", _item(position)) for position in range(3)]
    state_store.save_task_writes_and_interrupt_calls(cp.store, "s", "", "0001", "t2", "", writes)
    loaded = state_store.load_state(cp.store, "s", "", "0001")
    assert loaded is not None
    assert [write.value for write in loaded.writes if write.task_id == "t2"] == [_item(0), _item(1), _item(2)]


@pytest.mark.parametrize("state_id", [None, "0001"])
def test_no_state_is_loaded_where_there_are_only_writes(cp: SyncCheckpointer, state_id: str | None) -> None:
    _save(cp, 1)
    _save_write(cp, "sub", "t1", 0, _item(1))
    assert state_store.load_state(cp.store, "s", "sub", state_id) is None


def test_removed_states_remove_their_blobs(cp: SyncCheckpointer) -> None:
    kept = [_item(number) for number in range(40)]
    _save(cp, 0, messages=[*kept, _item(99)], gone=_item(50))
    _save(cp, 1, messages=kept)
    state_store.save_task_writes_and_interrupt_calls(
        cp.store, "s", "", "0000", "task", "", [NewWrite(0, "a", _item(60))]
    )
    assert remove_and_copy_states.delete_selected_states(cp.store, "s", lambda states: [states[-1]]) == 1
    assert _load(cp) == {"messages": kept}
    assert not FrameworkWrite.objects.exists()
    assert Blob.objects.count() == 40 + 5 + 1  # five full groups, and the list
    remove_and_copy_states.release_and_delete_session(cp.store, "s")
    assert not Blob.objects.exists()


def _build_similar_values(size: int) -> tuple[tuple[str, bytes], tuple[str, bytes]]:
    """Build two values of random bytes that differ at both ends."""
    content = random.Random(size).randbytes(size)
    return ("msgpack", b"\x81base" + content + b"none"), ("msgpack", content + b"identifier")


@pytest.mark.parametrize("size", [256, 5_000, 16_384, 100_000])
def test_value_like_another_one_is_stored_as_a_patch(cp: SyncCheckpointer, size: int) -> None:
    base, value = _build_similar_values(size)
    _save(cp, 0, messages=[_item(1), patch_if_shorter(value, base)])
    assert _load(cp) == {"messages": [_item(1), value]}
    patch = Blob.objects.get(type=".patch")
    assert len(patch.content) < 100 + size // 50


def test_value_unlike_another_one_is_stored_as_it_is() -> None:
    base, value = _build_similar_values(1000)
    assert patch_if_shorter(value, _build_similar_values(1001)[0]) == value
    assert patch_if_shorter(value, ("json", base[1])) == value
    assert patch_if_shorter(value, value) == value


def test_base_of_a_patch_stays_as_long_as_the_patch(cp: SyncCheckpointer) -> None:
    base, value = _build_similar_values(1000)
    _save(cp, 0)
    state_store.save_task_writes_and_interrupt_calls(cp.store, "s", "", "0000", "task", "", [NewWrite(0, "a", [base])])
    _save(cp, 1, messages=[patch_if_shorter(value, base)])
    remove_and_copy_states.delete_selected_states(cp.store, "s", lambda states: [states[-1]])
    assert _load(cp) == {"messages": [value]}
    assert Blob.objects.count() == 3
    remove_and_copy_states.copy_states_to_session(cp.store, "s", "copy")
    assert _load(cp, session_id="copy") == {"messages": [value]}
    remove_and_copy_states.delete_selected_states(cp.store, "s")
    assert not Blob.objects.filter(session__session_id="s").exists()


def test_patch_without_its_base_is_refused(cp: SyncCheckpointer) -> None:
    base, value = _build_similar_values(1000)
    _save(cp, 0, messages=[patch_if_shorter(value, base)])
    Blob.objects.filter(type="msgpack").delete()
    with pytest.raises(CheckpointCorrupted, match="is missing"):
        _load(cp)


def test_missing_or_altered_blob_is_refused(cp: SyncCheckpointer) -> None:
    _save(cp, 0, a=_item(1))
    Blob.objects.update(content=b"other")
    with pytest.raises(CheckpointCorrupted, match="does not match its digest"):
        _load(cp)
    Blob.objects.all().delete()
    with pytest.raises(CheckpointCorrupted, match="is missing"):
        _load(cp)


def test_write_needs_no_run_and_is_refused_during_another_run(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    _save(cp, 0, a=_item(1))
    assert not Run.objects.exists()
    owner = open_checkpointer()
    owner.start_session("s")
    with pytest.raises(SessionBusy):
        _save(cp, 1, a=_item(2))
    _save(owner, 1, a=_item(3))
    cp.start_session("s", takeover="test")
    with pytest.raises(OwnershipLost) as lost:
        _save(owner, 2, a=_item(4))
    assert lost.value.is_stale_write_owner_error
    assert _load(cp) == {"a": _item(3)}


def test_transcripts_of_states_are_saved_as_versions(cp: SyncCheckpointer) -> None:
    transcript = conversation("abc")
    _save(cp, 0, transcript=transcript[:2])
    _save(cp, 1, transcript=transcript[:2])  # unchanged
    _save(cp, 2, transcript=transcript)
    edited = [transcript[0], text_message("other", "assistant")]
    cp.start_session("s")
    _save(cp, 3, transcript=edited)
    assert cp.append_checkpoint("s", [text_message("next")], expected_version=3) == 4
    loaded = [cp.load("s", version)["transcript"] for version in (1, 2, 3, 4)]
    assert loaded == [transcript[:2], transcript, edited, [*edited, text_message("next")]]
    assert cp.load("s", 3)["payload"] == {"state": 3}


def test_pruned_versions_remove_their_states(cp: SyncCheckpointer) -> None:
    for number, text in enumerate("abcd"):
        _save(cp, 2 * number, transcript=conversation("abcd"[: number + 1]), messages=[_item(number)])
        _save(cp, 2 * number + 1, other=("json", text.encode()), versions={"messages": 2 * number})
    cp.prune("s", keep_last=2)
    assert [version["version"] for version in cp.list_checkpoints("s")] == [4, 3]
    states = [state.state_id for state in state_store.iterate_states(cp.store, "s")]
    # The state before is kept if one has the very time of the version.
    assert states in (["0007", "0006", "0005", "0004"], ["0007", "0006", "0005", "0004", "0003"])
    assert _load(cp, "0004") == {"messages": [_item(2)]}
    # The items and lists of two turns, and two other values; with the state before, those of one more.
    assert Blob.objects.count() == {4: 2 * 2 + 2, 5: 3 * 2 + 3}[len(states)]


def test_state_of_the_oldest_version_is_kept_if_the_next_one_has_the_time_of_the_version(cp: SyncCheckpointer) -> None:
    for number, text in enumerate("abc"):
        _save(cp, 2 * number, transcript=conversation("abc"[: number + 1]), messages=[_item(number)])
        _save(cp, 2 * number + 1, other=("json", text.encode()), versions={"messages": 2 * number})
    time = Checkpoint.objects.get(version=3).created_at
    FrameworkState.objects.filter(state_id="0004").update(created_at=time - timedelta(milliseconds=1))
    FrameworkState.objects.filter(state_id="0005").update(created_at=time)
    (session,) = Session.objects.all()
    Checkpoint.objects.filter(version__lt=3).delete()
    unneeded_framework_state_removal.delete_states_before_oldest_version("default", session)
    assert list(FrameworkState.objects.order_by("state_id").values_list("state_id", flat=True)) == ["0004", "0005"]


def test_states_that_rebuild_a_value_are_kept(cp: SyncCheckpointer) -> None:
    for number in range(6):
        changed = {"delta": number}
        values: dict[str, EncodedValue] = {"delta": _item(number)} if number in (0, 2) else {}
        new = NewState(
            "",
            f"{number:04}",
            f"{number - 1:04}" if number else "",
            "",
            ("json", b"{}"),
            ("json", b"{}"),
            {**changed, "trigger": number},
            values,
            ["delta", "trigger"],
            ["delta"],
        )
        state_store.save_state_and_transcript_version(cp.store, "s", new, description=NewSessionFields())
    assert remove_and_copy_states.delete_superseded_states(cp.store, "s") == 2
    assert [state.state_id for state in state_store.iterate_states(cp.store, "s")] == ["0005", "0004", "0003", "0002"]


def test_copy_is_complete_and_independent(cp: SyncCheckpointer) -> None:
    _save(cp, 0, messages=[_item(number) for number in range(20)])
    state_store.save_task_writes_and_interrupt_calls(
        cp.store, "s", "", "0000", "task", "", [NewWrite(0, "a", _item(60))]
    )
    remove_and_copy_states.copy_states_to_session(cp.store, "s", "copy")
    remove_and_copy_states.release_and_delete_session(cp.store, "s")
    assert len(_load(cp, session_id="copy")["messages"]) == 20
    assert FrameworkWrite.objects.get().session.session_id == "copy"
    with pytest.raises(SessionExists):
        remove_and_copy_states.copy_states_to_session(cp.store, "copy", "copy")


def _make_text(number: int, size: int = 2000) -> str:
    letters = random.Random(number)
    return "".join(letters.choices('abcdefghijklmnopqrstuvwxyz äé\\n"', k=size))


def _encode_value(type_: str, text: str) -> tuple[str, bytes]:
    """Encode a text as a framework does that knows a message beside it."""
    if type_ == "json":
        return type_, json.dumps({"uuid": "u1", "text": text}, ensure_ascii=False).encode()
    return type_, b"\x82about\xda" + text.encode() + b"\xa4none"


def _save_with_text(cp: SyncCheckpointer, type_: str, size: int = 2000) -> list[dict[str, EncodedValue]]:
    """Save two states with the text of a message each, the first one also as a write before it."""
    said: list[dict[str, Any]] = []
    expected: list[dict[str, EncodedValue]] = []
    for number in range(2):
        value = _encode_value(type_, _make_text(number, size))
        if number:
            writes = [NewWrite(0, "a", [value])]
            state_store.save_task_writes_and_interrupt_calls(cp.store, "s", "", f"{number - 1:04}", "task", "", writes)
        said.append(text_message(_make_text(number, size)))
        _save(cp, number, transcript=said, a=value)
        expected.append({"a": value})
    return expected


@pytest.mark.parametrize("size", [2_000, 70_000])
@pytest.mark.parametrize("type_", ["json", "msgpack"])
def test_value_with_the_text_of_a_message_is_its_difference(cp: SyncCheckpointer, type_: str, size: int) -> None:
    expected = _save_with_text(cp, type_, size)
    assert [_load(cp, f"{number:04}") for number in range(2)] == expected
    before = state_store.load_state(cp.store, "s", "", "0000")
    assert before is not None
    assert [write.value for write in before.writes] == [[expected[1]["a"]]]
    blobs = Blob.objects.order_by("base_position")
    assert [(blob.base_position, len(blob.content) < size // 10) for blob in blobs] == [(0, True), (1, True)]
    assert FrameworkWrite.objects.get().content is not None  # the list


def test_value_outlives_the_message_that_has_its_text(cp: SyncCheckpointer, tmp_path: Any) -> None:
    expected = _save_with_text(cp, "msgpack")
    _save(cp, 2, transcript=[text_message("other")], versions={"a": 1})
    cp.export_session("s", tmp_path / "s.jsonl")
    remove_and_copy_states.copy_states_to_session(cp.store, "s", "copy")
    cp.prune("s", keep_last=1)
    assert cp.load("s", 3)["transcript"] == [text_message("other")]
    assert _load(cp) == expected[1]
    assert not Blob.objects.exclude(base_segment=None).exists()
    remove_and_copy_states.release_and_delete_session(cp.store, "s")
    cp.import_session(tmp_path / "s.jsonl")
    for session_id in ("copy", "s"):
        assert [_load(cp, f"{number:04}", session_id) for number in range(2)] == expected


def test_value_whose_message_is_altered_or_missing_is_refused(cp: SyncCheckpointer) -> None:
    _save_with_text(cp, "msgpack")
    Message.objects.update(body='{"role":"user"}')
    with pytest.raises(CheckpointCorrupted):
        _load(cp)
    Message.objects.update(body="{")
    with pytest.raises(CheckpointCorrupted):
        _load(cp)
    Message.objects.all().delete()
    with pytest.raises(CheckpointCorrupted, match="the message that has its text is missing"):
        _load(cp)


def test_value_is_read_again_if_its_message_was_deleted_since(cp: SyncCheckpointer) -> None:
    expected = _save_with_text(cp, "msgpack")
    _save(cp, 2, transcript=[text_message("other")], versions={"a": 1})
    blobs = list(Blob.objects.exclude(base_segment=None).order_by("base_position"))
    cp.prune("s", keep_last=1)
    assert opaque_bytes_as_message_differences.read_contents_or_errors("default", blobs[1:]) == [expected[1]["a"][1]]


def test_value_that_is_deleted_during_a_verification_is_no_problem(
    cp: SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _save_with_text(cp, "msgpack")
    read = opaque_bytes_as_message_differences.read_contents_or_errors

    def delete_and_read(using: str, rows: Any) -> Any:
        remove_and_copy_states.release_and_delete_session(cp.store, "s")
        return read(using, rows)

    monkeypatch.setattr(opaque_bytes_as_message_differences, "read_contents_or_errors", delete_and_read)
    assert not list(
        verify_session_rows.iterate_session_problems("default", Session.objects.get(), VerificationCounts())
    )


def test_states_are_exported_with_the_session(cp: SyncCheckpointer, tmp_path: Any) -> None:
    _save(cp, 0, transcript=conversation("ab"), messages=[_item(number) for number in range(20)])
    cp.export_session("s", tmp_path / "s.jsonl")
    before = _load(cp)
    remove_and_copy_states.release_and_delete_session(cp.store, "s")
    cp.import_session(tmp_path / "s.jsonl")
    assert _load(cp) == before
    assert Session.objects.get().latest_version == 1
    assert FrameworkState.objects.get().run_key == "run-1"


def test_values_have_a_readable_representation() -> None:
    assert convert_value_to_json([_item(1), ("null", b""), ("json", b'{"a":1}'), ("pickle", b"cos\nsystem")]) == [
        f"{1:016}",
        None,
        {"a": 1},
        "(10 bytes of type pickle)",
    ]


# writes to a session that the client knows


def _save_in_turn(cp: SyncCheckpointer, number: int) -> None:
    """Save a state with the next message of a transcript, and a task's write after it."""
    message = text_message(f"text {number}")
    new = NewState(
        "",
        f"{number:04}",
        f"{number - 1:04}" if number else "",
        "",
        ("json", b"{}"),
        ("json", b"{}"),
        {"a": number, "b": 0},
        {"a": _item(number), **({} if number else {"b": _item(999)})},
        ["a", *([] if number else ["b"])],
    )

    def build_content(row: Session) -> VersionContent:
        return VersionContent(None, added=[message], payload={"number": number})

    state_store.save_state_and_transcript_version(
        cp.store, "s", new, build_content=build_content, description=NewSessionFields("Hello")
    )
    state_store.save_task_writes_and_interrupt_calls(
        cp.store, "s", "", f"{number:04}", "task", "", [NewWrite(0, "a", [_item(number)])]
    )


def _read_texts(cp: SyncCheckpointer) -> list[str]:
    latest = cp.load_latest("s") or {}
    return [message["blocks"][0]["text"] for message in latest["transcript"]]


def _require_saved_in_turn(cp: SyncCheckpointer, count: int) -> None:
    states = list(state_store.iterate_states(cp.store, "s"))
    assert [state.state_id for state in states] == [f"{number:04}" for number in reversed(range(count))]
    for number, state in zip(reversed(range(count)), states, strict=True):
        assert state.values == {"a": _item(number), "b": _item(999)}
        assert [write.value for write in state.writes] == [[_item(number)]]
    assert _read_texts(cp) == [f"text {number}" for number in range(count)]
    assert [version["version"] for version in cp.list_checkpoints("s")] == list(range(count, 0, -1))


def test_clients_that_alternate_write_what_one_client_writes(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    other = open_checkpointer()
    for number in range(12):
        _save_in_turn((cp, cp, other)[number % 3], number)
    _require_saved_in_turn(cp, 12)


def test_session_that_others_have_changed_is_not_taken_for_known(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    other = open_checkpointer()
    for number in range(3):
        _save_in_turn(cp, number)
    other.start_session("s")
    with pytest.raises(SessionBusy):
        _save_in_turn(cp, 3)
    other.append_checkpoint("s", [text_message("text 3")], expected_version=3)
    other.release_session("s")
    remove_and_copy_states.delete_selected_states(other.store, "s", lambda states: states)
    for number in range(4, 6):  # the values of the channel `b` are gone
        _save_in_turn(cp, number)
    loaded = _load(cp)
    assert loaded == {"a": _item(5)}
    assert _read_texts(cp) == [f"text {number}" for number in range(6)]
    other.start_session("s")
    other.finish_session("s", "completed")
    with pytest.raises(SessionFinished):
        _save_in_turn(cp, 6)


def test_states_that_others_have_removed_are_not_taken_for_known(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    for number in range(3):
        _save_in_turn(cp, number)
    remove_and_copy_states.delete_selected_states(open_checkpointer().store, "s", lambda states: states)
    _save_in_turn(cp, 3)
    assert _load(cp) == {"a": _item(3)}


def test_writes_to_a_session_that_others_have_claimed_are_refused(
    cp: SyncCheckpointer, open_checkpointer: Open
) -> None:
    for number in range(3):
        _save_in_turn(cp, number)
    other = open_checkpointer()
    other.start_session("s")
    with pytest.raises(SessionBusy):
        state_store.save_task_writes_and_interrupt_calls(
            cp.store, "s", "", "0002", "late", "", [NewWrite(0, "a", _item(1))]
        )
    assert not FrameworkWrite.objects.filter(task_id="late").exists()


def test_state_that_is_saved_again_is_replaced(cp: SyncCheckpointer) -> None:
    for number in range(3):
        _save_in_turn(cp, number)
    _save(cp, 2, a=_item(77), versions={"b": 0})
    assert _load(cp) == {"a": _item(77), "b": _item(999)}
    _save(cp, 3, a=_item(78), versions={"b": 0})
    assert _load(cp) == {"a": _item(78), "b": _item(999)}


def test_write_whose_commit_fails_is_not_taken_for_known(
    cp: SyncCheckpointer, open_checkpointer: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_checkpointer()
    _save_in_turn(cp, 0)
    _save(other, 1, a=_item(1), versions={"b": 0})

    def fail_to_commit() -> None:
        raise OperationalError("the server has gone away")

    with monkeypatch.context() as patch:
        patch.setattr(connection, "_commit", fail_to_commit)
        with pytest.raises(StorageError):
            _save(cp, 2, a=_item(2), b=_item(998))
    _save(other, 2, a=_item(3), versions={"b": 0})  # the session has the revision that the failed write gave it
    _save(cp, 3, a=_item(4), versions={"b": 2})
    assert _load(cp) == {"a": _item(4)}


def test_state_is_replaced_within_the_transaction_of_a_test_case(cp: SyncCheckpointer) -> None:
    with transaction.atomic():
        connection.atomic_blocks[-1]._from_testcase = True  # type: ignore[attr-defined]
        for number in range(3):
            _save_in_turn(cp, number)
        _save(cp, 2, a=_item(77), versions={"b": 0})
        assert _load(cp) == {"a": _item(77), "b": _item(999)}


def test_forked_child_does_not_use_the_connection_of_its_parent(start_child: StartChild) -> None:
    written = start_child(child_scripts.append_to_known_session_after_fork, fresh=True, place=database_url()).result()

    assert written == "first, second"


def test_what_is_known_of_a_conversation_does_not_grow(cp: SyncCheckpointer) -> None:
    for number in range(4):
        before = str(number - 1) if number else None
        messages = [
            {"id": f"call {number}", "role": "assistant", "content": ""},
            {"id": str(number), "role": "tool", "tool_call_id": "a", "content": ""},  # a result needs the lock
        ]
        entries = [
            NewEntry(messages[0]["id"], before, messages[0]),
            NewEntry(str(number), f"call {number}", messages[1]),
        ]
        record = NewRecord("framework", str(number), ("json", b"{}"), str(number), {})
        conversation_log.write_record_and_entries(
            cp.store, "s", record, entries, expected_revision=before, description=NewSessionFields("Title")
        )

    known = write_cached_session_in_one_statement.find_cached_session_writable_without_run(cp.store, "s")
    assert known is None or len(known.facts) == 2


def test_copy_whose_version_cannot_be_written_leaves_nothing(cp: SyncCheckpointer) -> None:
    _save(cp, 1)

    def build_content() -> VersionContent:
        assert [state.state_id for state in state_store.iterate_states(cp.store, "copy")]
        return VersionContent([{"role": "user", "content": float("nan")}])

    with pytest.raises(NotRepresentable):
        remove_and_copy_states.copy_states_to_session(cp.store, "s", "copy", build_content)
    assert not Session.objects.filter(session_id="copy").exists()
    content = VersionContent([{"role": "user", "content": "hi"}])
    remove_and_copy_states.copy_states_to_session(cp.store, "s", "copy", lambda: content)
    loaded = cp.load_latest("copy")
    assert loaded is not None
    assert loaded["transcript"] == content.transcript


def _answer(text: str, count: int) -> dict[str, Any]:
    return {"role": "assistant", "content": text, "model": "m", "usage": {"input_tokens": count, "output_tokens": 1}}


def test_versions_carry_the_sum_of_the_usage_that_messages_state(cp: SyncCheckpointer) -> None:
    asked = {"role": "user", "content": "?"}
    transcripts = [
        [asked],
        [asked, _answer("one", 10)],
        [asked, _answer("one", 10), asked, _answer("two", 20)],
        [_answer("one", 10), asked, _answer("two", 20)],  # a framework has removed the first message
        [_answer("one", 10), _answer("other", 30)],
    ]
    stored = []
    for number, transcript in enumerate(transcripts):
        _save(cp, number, transcript=transcript)
        stored.append((Checkpoint.objects.latest("version").usage, Session.objects.get().total_tokens))
    sums = [
        {"input_tokens": count, "output_tokens": answers, "total_tokens": count + answers}
        for count, answers in ((10, 1), (30, 2), (30, 2), (60, 3))
    ]
    assert [json.loads(usage or "{}") for usage, _ in stored] == [
        {},
        *({**one, "by_model": {"m": one}} for one in sums),
    ]
    assert [total for _, total in stored] == [0, 11, 32, 32, 63]


def test_number_and_length_of_model_names_in_the_usage_of_a_version_are_limited(cp: SyncCheckpointer) -> None:
    answers = [{**_answer("one", 10), "model": f"{number:03}" + "x" * 5000} for number in range(150)]
    _save(cp, 0, transcript=answers[:80])
    _save(cp, 1, transcript=answers)
    usage = json.loads(Checkpoint.objects.latest("version").usage or "")
    assert usage["total_tokens"] == 150 * 11
    assert len(usage["by_model"]) == 100
    assert {len(model) for model in usage["by_model"]} == {255}


def test_usage_that_somebody_else_has_written_is_kept(cp: SyncCheckpointer) -> None:
    cp.start_session("s")
    cp.save_checkpoint("s", [], None, 0, usage={"requests": 3})
    _save(cp, 0, transcript=[_answer("one", 10)])
    assert Checkpoint.objects.latest("version").usage == '{"requests":3}'


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": "7"},
        {"output_tokens": [7]},
        {"total_tokens": 7.5},
        {"by_model": "mm"},
        {"by_model": {"m": 7}},
        {"by_model": {"m": {"input_tokens": "7"}}},
        {"by_model": {"other": {"prompt_tokens": 7}}},
    ],
)
def test_usage_of_another_form_does_not_prevent_a_version(cp: SyncCheckpointer, usage: dict[str, Any]) -> None:
    cp.start_session("s")
    cp.save_checkpoint("s", [], None, 0, usage=usage)
    _save(cp, 0, transcript=[_answer("one", 10)])
    assert Session.objects.get().message_count == 1
    assert json.loads(Checkpoint.objects.latest("version").usage or "") == usage


def test_sum_of_tokens_stays_at_the_largest_number_that_counts(cp: SyncCheckpointer) -> None:
    answers = [_answer("one", 2**62 - 9), _answer("two", 2**62 - 9)]
    for number in range(2):
        _save(cp, number, transcript=answers[: number + 1])
    assert Session.objects.get().total_tokens == 2**62 - 1
