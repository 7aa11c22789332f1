"""A session as one file: everything comes back, and nothing that was changed is taken."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkpoints import Checkpointer, SyncCheckpointer, ToolRegistry
from checkpoints.enums import usual_risk
from checkpoints.exceptions import (
    CheckpointsError,
    FileDamaged,
    FileNotReadable,
    FileNotWritten,
    ImportConflict,
    ReviewRequired,
    SchemaFromFuture,
    SessionExists,
    SessionNotFound,
    WrongSession,
    WrongWorkspace,
)
from checkpoints.files import format as file_format
from checkpoints.files import tables
from checkpoints.models import AuditEvent, Session, ToolCall, Workspace
from checkpoints.peers import Join, PeerCall
from checkpoints.serde import digests
from tests.conftest import Open, StartChild
from tests.integration.checkpoints.files import histories
from tests.integration.checkpoints.files.histories import full_history, story
from tests.integration.checkpoints.situations import interrupt, said, started, statuses, talk
from tests.support.processes import database_url


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.session"


def moved(cp: SyncCheckpointer, path: Path, session_id: str = "s") -> SyncCheckpointer:
    """Export a session, remove it, and import it again."""
    cp.export_session(session_id, path)
    cp.close()
    Session.objects.filter(session_id=session_id, status__in=["needs_review", "ready"]).update(status="active")
    cp.delete_session(session_id)
    assert Session.objects.filter(session_id=session_id).exists() is False
    assert cp.import_session(path).session_id == session_id
    return cp


def test_everything_comes_back(open_checkpointer: Open, path: Path) -> None:
    cp = full_history(open_checkpointer())
    before = story()
    moved(cp, path)

    assert story() == before
    assert cp.resume("s").transcript == [said("summary"), *talk("de"), *talk("f")]


def test_imported_session_goes_on(open_checkpointer: Open, path: Path) -> None:
    cp = moved(full_history(open_checkpointer()), path)
    point = cp.resume("s")
    ran: list[int] = []
    registry = ToolRegistry(checkpointer=cp, session_id="s")
    registry.tool(name="pay")(lambda order: ran.append(order))

    assert point.run is not None
    assert (point.run.number, point.run.resumed_from is not None) == (2, True)
    assert registry.dispatch("pay", {"order": 1}, "call_1").content == "paid 1"
    assert cp.workflow("s", "w").step("greet", str.upper, "hello") == "HELLO"
    assert cp.save_checkpoint("s", [*point.transcript, said("next")], None, 1) == 4
    assert ran == []


def test_second_export_says_the_same(open_checkpointer: Open, path: Path) -> None:
    cp = full_history(open_checkpointer())
    cp.close()
    first, second = (cp.export_session("s", path.with_name(name)) for name in ("a", "b"))
    lines = [each.path.read_text().rstrip("\n").split("\n") for each in (first, second)]

    assert lines[0][2:-1] == lines[1][2:-1]
    assert (first.version, first.size, first.size) == (3, first.path.stat().st_size, second.size)
    assert list(path.parent.glob(".*")) == []


def test_file_says_what_it_is(cp: SyncCheckpointer, path: Path) -> None:
    exported = full_history(cp).export_session("s", path)
    first, *_, last = path.read_text().rstrip("\n").split("\n")
    header = json.loads(first)

    assert {name: header[name] for name in ("format", "version", "session_id", "workspace", "latest_version")} == {
        "format": "harness session",
        "version": 2,
        "session_id": "s",
        "workspace": "default",
        "latest_version": 3,
    }
    assert json.loads(last)["digest"] == exported.digest
    assert path.stat().st_mode & 0o777 == 0o600


def test_columns_of_a_file_have_a_version(workspace: Workspace) -> None:
    """Another set of columns is another version of the format: raise `format.VERSION`, and read the old one too."""
    named = {kind: sorted(field.attname for field in tables.columns(model)) for kind, model in tables.TABLES.items()}

    assert (file_format.VERSION, digests.key_digest(named)[:16]) == (2, "56a8fe50230ea56b")


def test_parts_that_a_fork_shares_come_along(open_checkpointer: Open, path: Path) -> None:
    cp = full_history(open_checkpointer())
    cp.fork_session("s", "fork", version=1)
    cp.fork_session("fork", "again")
    cp.start_session("again")
    cp.append_checkpoint("again", talk("z"), expected_version=1)
    before = [cp.load("again", version) for version in (1, 2)]
    moved(cp, path, "again")

    assert [cp.load("again", version) for version in (1, 2)] == before
    assert Session.objects.get(session_id="again").forked_from is None
    assert cp.load("fork", 1)["transcript"] == talk("abc")


def test_finished_session_keeps_its_result(open_checkpointer: Open, path: Path) -> None:
    cp = full_history(open_checkpointer())
    cp.finish_session("s", "completed", {"paid": 1})
    moved(cp, path)

    point = cp.resume("s")
    assert (point.finished, point.result) == (True, {"paid": 1})


def test_empty_session_comes_back(open_checkpointer: Open, path: Path) -> None:
    cp = moved(started(open_checkpointer()), path)

    assert (cp.load_latest("s"), cp.resume("s").version) == (None, 0)


# what was alive


def test_call_that_was_running_is_undecided_here(open_checkpointer: Open, path: Path) -> None:
    cp = started(open_checkpointer())
    cp.record_tool_call_issued("s", "call_1", "pay", {}, "key")
    cp.record_tool_call_issued("s", "call_2", "look", {}, "other", side_effects=("read",))
    cp.export_session("s", path)
    cp.record_tool_call_result("s", "call_1", "paid", True)
    cp.close()
    cp.delete_session("s")
    imported = cp.import_session(path)

    assert (imported.undecided, statuses()) == (1, [("call_1", 1, "interrupted"), ("call_2", 1, "discarded")])
    with pytest.raises(ReviewRequired):
        cp.resume("s")
    assert Session.objects.get().status == "needs_review"


def test_decisions_come_along_and_can_be_made(open_checkpointer: Open, path: Path) -> None:
    cp, call = interrupt(started(open_checkpointer()), open_checkpointer)
    cp.confirm_landed("s", "call_1", "paid", actor="alice", reason="I looked.", revision=call["revision"])
    cp.record_tool_call_issued("s", "call_2", "pay", {}, "other")
    before = story()["decisions"]
    cp.export_session("s", path)
    cp.record_tool_call_result("s", "call_2", "x", False)
    cp.close()
    cp.delete_session("s")
    cp.import_session(path)

    assert story()["decisions"] == before
    (open_call,) = cp.pending_tool_calls("s")
    cp.mark_failed("s", "call_2", actor="bob", reason="I looked.", revision=open_call["revision"])
    assert cp.resume("s").version == 0


@pytest.mark.parametrize(
    ("decision", "there", "here"),
    [("approve_call", "approved", "awaiting_approval"), (None, "awaiting_approval", "awaiting_approval")],
)
def test_approval_that_was_not_used_is_asked_for_again(
    open_checkpointer: Open, path: Path, decision: str | None, there: str, here: str
) -> None:
    cp = started(open_checkpointer())
    registry = ToolRegistry(checkpointer=cp, session_id="s")
    registry.tool(name="pay", requires_approval=True)(lambda: "paid")
    with pytest.raises(ReviewRequired):
        registry.dispatch("pay", {}, "call_1")
    if decision is not None:
        cp.approve_call("s", "call_1", actor="alice", reason="Yes.", revision=1)
    assert statuses() == [("call_1", 1, there)]
    moved(cp, path)

    assert statuses() == [("call_1", 1, here)]
    with pytest.raises(ReviewRequired):
        cp.resume("s")


# what is refused


def refused(cp: SyncCheckpointer, path: Path, kind: type[CheckpointsError], **options: Any) -> None:
    before = (Session.objects.count(), ToolCall.objects.count())
    with pytest.raises(kind):
        cp.import_session(path, **options)
    assert (Session.objects.count(), ToolCall.objects.count()) == before


@pytest.fixture
def exported(open_checkpointer: Open, path: Path) -> SyncCheckpointer:
    """A file at `path`, of a session that is not in the database any more."""
    cp = full_history(open_checkpointer())
    cp.export_session("s", path)
    cp.close()
    cp.delete_session("s")
    return cp


def test_every_flipped_byte_is_refused(exported: SyncCheckpointer, path: Path) -> None:
    whole = path.read_bytes()
    for place in [*range(0, len(whole), 97), *range(len(whole) - 120, len(whole))]:
        for flip in (1, 0x80):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
            with pytest.raises((FileDamaged, SchemaFromFuture)):
                exported.import_session(path)
    assert Session.objects.count() == 0
    path.write_bytes(whole)
    assert exported.import_session(path).version == 3


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
def test_anything_but_the_whole_file_is_refused(
    exported: SyncCheckpointer, path: Path, change: Callable[[bytes], bytes]
) -> None:
    path.write_bytes(change(path.read_bytes()))

    refused(exported, path, FileDamaged)


def forged(path: Path, change: Callable[[list[Any]], None], **head: Any) -> None:
    """Change what a file says and prove it anew, as somebody who knows the format can."""
    header, *rows, _ = [json.loads(line) for line in path.read_text().rstrip("\n").split("\n")]
    change(rows)
    with path.open("wb") as file:
        writer = file_format.Writer(file, file_format.Header(**{**header, **head}))
        for kind, values in rows:
            writer.row(kind, values)
        writer.end()


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
        "one column more",
        "unknown table",
        "wrong order",
        "no row",
        "no rows",
    ],
)
def test_file_that_does_not_fit_together_is_refused(
    exported: SyncCheckpointer, path: Path, change: Callable[[list[Any]], None]
) -> None:
    forged(path, change)

    refused(exported, path, FileDamaged)


def test_file_of_the_first_version_tells_no_risk(exported: SyncCheckpointer, path: Path) -> None:
    def older(rows: list[Any]) -> None:
        for kind, values in rows:
            if kind == "tool_call":
                del values["risk"]

    forged(path, older)
    refused(exported, path, FileDamaged)
    forged(path, lambda rows: None, version=1)
    exported.import_session(path)
    assert {usual_risk(call.side_effects.split(",")) == call.risk for call in ToolCall.objects.all()} == {True}


def test_another_session_under_this_name_is_refused(open_checkpointer: Open, path: Path) -> None:
    cp = full_history(open_checkpointer(), "other")
    cp.export_session("other", path)
    cp.close()
    cp.delete_session("other")

    refused(cp, path, WrongSession, session_id="s")
    assert cp.import_session(path, session_id="other").session_id == "other"


def test_session_that_is_there_is_not_replaced(cp: SyncCheckpointer, path: Path) -> None:
    full_history(cp).export_session("s", path)

    refused(cp, path, SessionExists)


def test_runs_that_are_there_are_not_taken(open_checkpointer: Open, path: Path) -> None:
    cp = full_history(open_checkpointer())
    cp.export_session("s", path)
    Session.objects.update(session_id="renamed")

    refused(cp, path, ImportConflict)


def test_another_workspace_does_not_know_the_effects(open_checkpointer: Open, path: Path) -> None:
    full_history(open_checkpointer()).export_session("s", path)
    Workspace.objects.create(slug="other", name="Other")

    refused(open_checkpointer(workspace="other"), path, WrongWorkspace)


def test_file_from_the_future_is_refused(exported: SyncCheckpointer, path: Path) -> None:
    header, rest = path.read_text().split("\n", 1)
    path.write_text(json.dumps(json.loads(header) | {"version": file_format.VERSION + 1, "mood": "good"}) + "\n" + rest)

    refused(exported, path, SchemaFromFuture)


@pytest.mark.parametrize("name", ["missing", ".", "missing/s.session"])
def test_file_that_cannot_be_read_is_a_typed_error(cp: SyncCheckpointer, tmp_path: Path, name: str) -> None:
    refused(cp, tmp_path / name, FileNotReadable)


def test_unknown_session_writes_no_file(cp: SyncCheckpointer, path: Path) -> None:
    with pytest.raises(SessionNotFound):
        cp.export_session("unknown", path)
    assert list(path.parent.iterdir()) == []


def test_path_that_cannot_be_written_is_a_typed_error(cp: SyncCheckpointer, path: Path) -> None:
    path.mkdir()
    (path / "full").touch()

    with pytest.raises(FileNotWritten):
        full_history(cp).export_session("s", path)
    assert [found.name for found in path.parent.iterdir()] == ["s.session"]


def test_both_are_audited(open_checkpointer: Open, path: Path) -> None:
    moved(started(open_checkpointer()), path)

    kinds = ["exported", "session_imported"]
    assert list(AuditEvent.objects.filter(kind__in=kinds).order_by("pk").values_list("kind", flat=True)) == kinds


# elsewhere


def test_another_machine_with_a_database_of_its_own(
    open_checkpointer: Open, start_child: StartChild, path: Path
) -> None:
    cp = full_history(open_checkpointer())
    cp.record_tool_call_issued("s", "call_9", "pay", {}, "key")
    cp.export_session("s", path)
    child = start_child(histories.import_elsewhere, place=str(path.with_name("other.db")), path=str(path))

    assert child.result() == ["s", 3, 1, False, [said("summary"), *talk("de"), *talk("f")]]


def test_session_that_waits_for_other_agents_goes_on_elsewhere(
    open_checkpointer: Open, start_child: StartChild, path: Path
) -> None:
    cp = started(open_checkpointer())
    cp.save_checkpoint("s", talk("a"), None, 0)
    cp.pause_for_peers("s", {"step": 2}, [Join("weight", [PeerCall("call-1", "stock", {"weigh": 17})])])
    cp.export_session("s", path)
    child = start_child(histories.import_and_answer, place=str(path.with_name("other.db")), path=str(path))

    assert child.result() == ["Accepted", {"step": 2}, {"grams": 5}, 1]


def test_of_many_imports_at_once_one_counts(exported: SyncCheckpointer, start_child: StartChild, path: Path) -> None:
    children = [start_child(histories.import_at_once, url=database_url(), path=str(path)) for _ in range(3)]
    for child in children:
        child.expect("ready")
    for child in children:
        child.tell()

    said_by_all = sorted(child.result() for child in children)
    assert said_by_all[0] in {"ImportConflict", "SessionExists"}
    assert (said_by_all[2], Session.objects.count()) == ("imported", 1)


@pytest.mark.asyncio
async def test_async_twin(workspace: Workspace, path: Path) -> None:
    async with Checkpointer() as cp:
        await cp.start_session("s")
        await cp.save_checkpoint("s", talk("a"), None, 0)
        assert (await cp.export_session("s", path)).version == 1
        await cp.finish_session("s", "completed")
        await cp.delete_session("s")
        assert (await cp.import_session(path, session_id="s")).version == 1
        assert (await cp.resume("s")).transcript == talk("a")
