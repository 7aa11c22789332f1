"""States of frameworks: values are restored equal, appends store little, and removal leaves nothing behind."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import CheckpointCorrupted, OwnershipLost, SessionBusy, SessionExists
from checkpoints.framework_states import remove_and_copy_states, state_store
from checkpoints.framework_states.state_store import NewState, NewWrite
from checkpoints.framework_states.write_transcript_version import VersionContent
from checkpoints.models import Blob, FrameworkState, FrameworkWrite, Run, Session
from checkpoints.sessions.create_finish_release import SessionDescription
from checkpoints.versions.blobs import EncodedValue, NewValue, convert_value_to_json, patch_if_shorter
from tests.integration.checkpoints.session_setups import conversation, text_message

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
    state_store.save_state(
        cp.store, session_id, new, build_content=lambda row: content, description=SessionDescription()
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


def test_unchanged_channel_keeps_its_value(cp: SyncCheckpointer) -> None:
    _save(cp, 0, a=_item(1), b=_item(2))
    _save(cp, 1, a=_item(3), versions={"b": 0})
    _save(cp, 7, versions={"a": 1, "b": 0})  # its parent is missing
    assert _load(cp) == {"a": _item(3), "b": _item(2)}


def test_write_replaces_another_only_at_a_negative_position(cp: SyncCheckpointer) -> None:
    _save(cp, 0)
    for value in (_item(1), _item(2)):
        writes = [NewWrite(0, "a", value), NewWrite(-1, "__error__", value)]
        state_store.save_task_writes(cp.store, "s", "", "0000", "task", "path", writes)
    loaded = state_store.load_state(cp.store, "s", "", None)
    assert loaded is not None
    assert [(write.channel, write.value) for write in loaded.writes] == [("__error__", _item(2)), ("a", _item(1))]


def test_removed_states_remove_their_blobs(cp: SyncCheckpointer) -> None:
    kept = [_item(number) for number in range(40)]
    _save(cp, 0, messages=[*kept, _item(99)], gone=_item(50))
    _save(cp, 1, messages=kept)
    state_store.save_task_writes(cp.store, "s", "", "0000", "task", "", [NewWrite(0, "a", _item(60))])
    assert remove_and_copy_states.delete_selected_states(cp.store, "s", lambda states: [states[-1]]) == 1
    assert _load(cp) == {"messages": kept}
    assert not FrameworkWrite.objects.exists()
    assert Blob.objects.count() == 40 + 5 + 1  # five full groups, and the list
    remove_and_copy_states.delete_session_with_states(cp.store, "s")
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
    state_store.save_task_writes(cp.store, "s", "", "0000", "task", "", [NewWrite(0, "a", [base])])
    _save(cp, 1, messages=[patch_if_shorter(value, base)])
    remove_and_copy_states.delete_selected_states(cp.store, "s", lambda states: [states[-1]])
    assert _load(cp) == {"messages": [value]}
    assert Blob.objects.count() == 3
    remove_and_copy_states.copy_states(cp.store, "s", "copy")
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
    assert [state.state_id for state in state_store.iterate_states(cp.store, "s")] == ["0007", "0006", "0005", "0004"]
    assert _load(cp, "0004") == {"messages": [_item(2)]}
    assert Blob.objects.count() == 2 * 2 + 2  # the items and lists of two turns, and two other values


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
        state_store.save_state(cp.store, "s", new, description=SessionDescription())
    assert remove_and_copy_states.delete_superseded_states(cp.store, "s") == 2
    assert [state.state_id for state in state_store.iterate_states(cp.store, "s")] == ["0005", "0004", "0003", "0002"]


def test_copy_is_complete_and_independent(cp: SyncCheckpointer) -> None:
    _save(cp, 0, messages=[_item(number) for number in range(20)])
    state_store.save_task_writes(cp.store, "s", "", "0000", "task", "", [NewWrite(0, "a", _item(60))])
    remove_and_copy_states.copy_states(cp.store, "s", "copy")
    remove_and_copy_states.delete_session_with_states(cp.store, "s")
    assert len(_load(cp, session_id="copy")["messages"]) == 20
    assert FrameworkWrite.objects.get().session.session_id == "copy"
    with pytest.raises(SessionExists):
        remove_and_copy_states.copy_states(cp.store, "copy", "copy")


def test_states_are_exported_with_the_session(cp: SyncCheckpointer, tmp_path: Any) -> None:
    _save(cp, 0, transcript=conversation("ab"), messages=[_item(number) for number in range(20)])
    cp.export_session("s", tmp_path / "s.jsonl")
    before = _load(cp)
    remove_and_copy_states.delete_session_with_states(cp.store, "s")
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
