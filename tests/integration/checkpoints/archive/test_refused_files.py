"""A file that is damaged, forged, of another session or from the future is refused, and nothing of it comes in."""

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.archive import session_file_reader_and_writer, session_import, upgrade_archive_rows
from checkpoints.enums import get_default_risk
from checkpoints.exceptions import (
    CheckpointsError,
    FileDamaged,
    FileNotReadable,
    ImportConflict,
    SchemaFromFuture,
    SessionExists,
    TooLarge,
    WrongSession,
    WrongWorkspace,
)
from checkpoints.formats import digests, plain_and_delta_compression
from checkpoints.models import Message, Session, ToolCall, Workspace
from tests.conftest import Open
from tests.integration.checkpoints.archive.session_histories import create_full_history


def refused(cp: SyncCheckpointer, path: Path, kind: type[CheckpointsError], **options: Any) -> None:
    before = (Session.objects.count(), ToolCall.objects.count())
    with pytest.raises(kind):
        cp.import_session(path, **options)
    assert (Session.objects.count(), ToolCall.objects.count()) == before


def test_every_flipped_byte_is_refused(exported_session: SyncCheckpointer, path: Path) -> None:
    whole = path.read_bytes()
    for place in [*range(0, len(whole), 97), *range(len(whole) - 120, len(whole))]:
        for flip in (1, 0x80):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
            with pytest.raises((FileDamaged, SchemaFromFuture)):
                exported_session.import_session(path)
    assert Session.objects.count() == 0
    path.write_bytes(whole)
    assert exported_session.import_session(path).version == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda whole: whole[:-1],
        lambda whole: whole[: len(whole) // 2],
        lambda whole: b"",
        lambda whole: b"\n",
        lambda whole: whole + b"\n",
        lambda whole: whole + whole,
        lambda whole: whole.replace(b"\n", b"\r\n"),
        lambda whole: b"".join(whole.splitlines(keepends=True)[:-1]),
        lambda whole: b"".join([*whole.splitlines(keepends=True)[:5], *whole.splitlines(keepends=True)[6:]]),
        lambda whole: b"{}\n" + whole,
        lambda whole: b"SQLite format 3\0" + b"\xff" * 100,
    ],
    ids=["newline", "half", "empty", "blank", "more", "twice", "crlf", "no end", "a line less", "not first", "binary"],
)
def test_truncated_or_extended_file_is_refused(
    exported_session: SyncCheckpointer, path: Path, change: Callable[[bytes], bytes]
) -> None:
    path.write_bytes(change(path.read_bytes()))

    refused(exported_session, path, FileDamaged)


def forged(path: Path, change: Callable[[list[Any]], None], **head: Any) -> None:
    """Change what a file says and prove it anew, as somebody who knows the format can."""
    header, *rows, _ = [json.loads(line) for line in path.read_text().rstrip("\n").split("\n")]
    change(rows)
    with path.open("wb") as file:
        writer = session_file_reader_and_writer.SessionFileWriter(
            file, session_file_reader_and_writer.FileHeader(**{**header, **head})
        )
        for kind, values in rows:
            writer.write_row(kind, values)
        writer.write_end_line()


def _set(kind: str, column: str, value: Any) -> Callable[[list[Any]], None]:
    def change(rows: list[Any]) -> None:
        next(values for found, values in rows if found == kind)[column] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("message", "body", '{"role":"user"}'),
        _set("message", "segment_id", 999999),
        _set("message", "position", 7),
        _set("checkpoint", "length", 2),
        _set("checkpoint", "run_id", "00000000-0000-0000-0000-000000000000"),
        _set("tool_call", "result", '"paid nothing"'),
        _set("tool_call", "args", '{"order":2}'),
        _set("tool_call", "attempt", "many"),
        _set("session", "session_id", "other"),
        _set("session", "latest_version", 9),
        _set("session", "message_count", 1),
        _set("session", "agent", None),
        _set("session", "key_space", "a b"),
        _set("run", "more", 1),
        lambda rows: rows.insert(1, ["spell", {}]),
        lambda rows: rows.insert(0, rows.pop()),
        lambda rows: rows.insert(5, ["run", 5]),
        lambda rows: rows.clear(),
    ],
    ids=[
        "another message",
        "no such segment",
        "another place",
        "another length",
        "no such run",
        "another result",
        "other arguments",
        "not a number",
        "another session",
        "another version",
        "fewer messages",
        "nothing",
        "no key space",
        "one column more",
        "unknown table",
        "wrong order",
        "no row",
        "no rows",
    ],
)
def test_inconsistent_file_is_refused(
    exported_session: SyncCheckpointer, path: Path, change: Callable[[list[Any]], None]
) -> None:
    forged(path, change)

    refused(exported_session, path, FileDamaged)


def test_file_of_format_version_1_has_no_risk(exported_session: SyncCheckpointer, path: Path) -> None:
    def older(rows: list[Any]) -> None:
        for kind, values in rows:
            if kind == "tool_call":
                del values["risk"]

    forged(path, older)
    refused(exported_session, path, FileDamaged)
    forged(path, lambda rows: None, version=1)
    exported_session.import_session(path)
    assert {get_default_risk(call.side_effects.split(",")) == call.risk for call in ToolCall.objects.all()} == {True}


def test_file_of_format_version_2_has_no_answered_versions(exported_session: SyncCheckpointer, path: Path) -> None:
    def older(rows: list[Any]) -> None:
        for kind, values in rows:
            if kind == "tool_call":
                for column in ("key_policy", "asked_args_digest", "answered_version", "args_order"):
                    del values[column]

    forged(path, older)
    refused(exported_session, path, FileDamaged)
    forged(path, lambda rows: None, version=2)
    exported_session.import_session(path)
    assert set(ToolCall.objects.values_list("key_policy", "answered_version")) == {("", None)}


def test_values_that_are_large_once_decompressed_are_refused(
    exported_session: SyncCheckpointer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forge_blobs(count: int, size: int) -> None:
        def add(rows: list[Any]) -> None:
            rows[:] = [row for row in rows if row[0] not in {"blob", "framework_state", "framework_write"}]
            session = next(values["id"] for kind, values in rows if kind == "session")
            for number in range(count):
                content = number.to_bytes(4, "big") + bytes(size - 4)
                packed = base64.b64encode(zlib.compress(content)).decode()
                digest = digests.digest_blob("json", content)
                blob = {"id": number + 1, "session_id": session, "digest": digest, "type": "json"}
                rows.append(["blob", {**blob, "content": packed, "compressed": True}])

        forged(path, add)

    monkeypatch.setattr(plain_and_delta_compression, "MAX_VALUE_BYTES", 200_000)
    monkeypatch.setattr(session_import, "MAX_VALUE_BYTES", 200_000)
    monkeypatch.setattr(session_import, "_MAX_COMPRESSION", 20)
    forge_blobs(1, 200_001)
    refused(exported_session, path, FileDamaged)  # one value
    forge_blobs(50, 150_000)
    refused(exported_session, path, TooLarge)  # all of them
    forge_blobs(1, 150_000)
    exported_session.import_session(path)


def test_write_in_a_file_of_format_version_9_has_its_value_in_a_blob() -> None:
    values = {"id": 1, "digest": "d"}
    added = {"type": "", "content": None, "compressed": False}
    assert upgrade_archive_rows.upgrade_row_values("framework_write", values, 9) == {**added, **values}
    assert upgrade_archive_rows.upgrade_row_values("framework_write", values, 10) == values


def test_file_of_format_version_7_gets_new_chains(exported_session: SyncCheckpointer, path: Path) -> None:
    def older(rows: list[Any]) -> None:
        for _, values in rows:
            for column in {"chain", "head_chain"} & values.keys():
                values[column] = values[column][:4][::-1] + values[column][4:]

    exported_session.import_session(path)
    before, chains = exported_session.messages("s"), set(Message.objects.values_list("chain", flat=True))
    exported_session.delete_session("s")
    forged(path, older)
    refused(exported_session, path, FileDamaged)
    forged(path, lambda rows: None, version=7)
    exported_session.import_session(path)
    assert exported_session.messages("s") == before
    assert set(Message.objects.values_list("chain", flat=True)) == chains


def test_file_of_format_version_8_allows_all_decisions(exported_session: SyncCheckpointer, path: Path) -> None:
    def older(rows: list[Any]) -> None:
        for kind, values in rows:
            if kind == "tool_call":
                del values["allowed_decisions"]

    forged(path, older)
    refused(exported_session, path, FileDamaged)
    forged(path, lambda rows: None, version=8)
    exported_session.import_session(path)
    assert set(ToolCall.objects.values_list("allowed_decisions", flat=True)) == {""}


def test_interrupted_call_in_a_file_of_format_version_10_has_its_error_as_result() -> None:
    values = {
        "status": "interrupted",
        "error_type": "TimeoutError",
        "result": '"no answer\\u0000"',
        "result_digest": "d",
    }
    upgraded = {**values, "error_message": "no answer", "result": None, "result_digest": ""}
    assert upgrade_archive_rows.upgrade_row_values("tool_call", values, 10) == upgraded
    settled = {**values, "status": "completed"}
    assert upgrade_archive_rows.upgrade_row_values("tool_call", settled, 10) == {"error_message": "", **settled}


def test_file_of_another_session_is_refused(open_checkpointer: Open, path: Path) -> None:
    cp = create_full_history(open_checkpointer(), "other")
    cp.export_session("other", path)
    cp.close()
    cp.delete_session("other")

    refused(cp, path, WrongSession, session_id="s")
    assert cp.import_session(path, session_id="other").session_id == "other"


def test_existing_session_is_not_replaced(cp: SyncCheckpointer, path: Path) -> None:
    create_full_history(cp).export_session("s", path)

    refused(cp, path, SessionExists)


@pytest.mark.unsealed("the witness refuses the name of the session before")
def test_existing_run_ids_are_refused(open_checkpointer: Open, path: Path) -> None:
    cp = create_full_history(open_checkpointer())
    cp.export_session("s", path)
    Session.objects.update(session_id="renamed")

    refused(cp, path, ImportConflict)


def test_import_into_another_workspace_has_its_own_key_space(open_checkpointer: Open, path: Path) -> None:
    create_full_history(open_checkpointer()).export_session("s", path)
    Workspace.objects.create(slug="other", name="Other")

    refused(open_checkpointer(workspace="other"), path, WrongWorkspace)


def test_file_of_a_newer_format_is_refused(exported_session: SyncCheckpointer, path: Path) -> None:
    header, rest = path.read_text().split("\n", 1)
    path.write_text(
        json.dumps(json.loads(header) | {"version": session_file_reader_and_writer.FORMAT_VERSION + 1, "mood": "good"})
        + "\n"
        + rest
    )

    refused(exported_session, path, SchemaFromFuture)


@pytest.mark.parametrize("name", ["missing", ".", "missing/s.session"])
def test_unreadable_file_raises_typed_error(cp: SyncCheckpointer, tmp_path: Path, name: str) -> None:
    refused(cp, tmp_path / name, FileNotReadable)
