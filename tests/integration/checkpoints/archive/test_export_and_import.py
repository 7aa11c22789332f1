"""A session in a file: everything comes back, and goes on, here and elsewhere."""

import json
from pathlib import Path

import pytest

from checkpoints import Checkpointer, SyncCheckpointer, ToolRegistry, tool
from checkpoints.archive import row_serializers, session_file_reader_and_writer
from checkpoints.exceptions import (
    ApprovalRequired,
    FileNotWritten,
    ReviewRequired,
    SessionNotFound,
)
from checkpoints.formats import digests
from checkpoints.models import AuditEvent, Session, ToolCall, Workspace
from checkpoints.peers import Join, PeerCall
from tests.conftest import Open, StartChild
from tests.integration.checkpoints.archive import session_histories
from tests.integration.checkpoints.archive.session_histories import create_full_history, session_content
from tests.integration.checkpoints.archive.session_transfer import export_delete_and_import
from tests.integration.checkpoints.session_setups import (
    call_statuses,
    conversation,
    interrupt_call,
    start_session,
    text_message,
)
from tests.support.processes import database_url


def test_exit_codes_are_copied_to_forks_and_found_again_at_an_import(open_checkpointer: Open, path: Path) -> None:
    cp = start_session(open_checkpointer())
    cp.record_tool_call_issued("s", "call_1", "shell", {"command": "make deploy"}, "key")
    cp.record_tool_call_result("s", "call_1", "Exit code 2", True)
    cp.save_checkpoint("s", conversation("a"))
    cp.fork_session("s", "fork")
    export_delete_and_import(cp, path)

    assert sorted(ToolCall.objects.values_list("session__session_id", "exit_code")) == [("fork", 2), ("s", 2)]
    assert '"exit_code"' not in path.read_text()


def test_answer_of_a_person_has_no_exit_code_also_after_an_import(open_checkpointer: Open, path: Path) -> None:
    cp = start_session(open_checkpointer())
    registry = ToolRegistry(checkpointer=cp, session_id="s")
    registry.add(tool(name="shell", requires_approval=True)(lambda command: "never"))
    with pytest.raises(ApprovalRequired):
        registry.dispatch("shell", {"command": "make deploy"}, "call_1")
    cp.respond_call("s", "call_1", "Exit code 2", actor="alice", revision=1)
    assert registry.dispatch("shell", {"command": "make deploy"}, "call_1").content == "Exit code 2"
    assert ToolCall.objects.get().exit_code is None
    export_delete_and_import(cp, path)
    assert list(ToolCall.objects.values_list("status", "exit_code")) == [("completed", None)]


def test_import_restores_the_exported_session(open_checkpointer: Open, path: Path) -> None:
    cp = create_full_history(open_checkpointer())
    before = session_content()
    export_delete_and_import(cp, path)

    assert session_content() == before
    assert cp.resume("s").transcript == [text_message("summary"), *conversation("de"), *conversation("f")]


def test_imported_session_can_be_resumed(open_checkpointer: Open, path: Path) -> None:
    cp = export_delete_and_import(create_full_history(open_checkpointer()), path)
    point = cp.resume("s")
    ran: list[int] = []
    registry = ToolRegistry(checkpointer=cp, session_id="s")
    registry.tool(name="pay")(lambda order: ran.append(order))

    assert point.run is not None
    assert (point.run.number, point.run.resumed_from_id is not None) == (2, True)
    assert registry.dispatch("pay", {"order": 1}, "call_1").content == "paid 1"
    assert cp.workflow("s", "w").step("greet", str.upper, "hello") == "HELLO"
    assert cp.save_checkpoint("s", [*point.transcript, text_message("next")], None, 1) == 4
    assert ran == []


def test_second_export_is_equal(open_checkpointer: Open, path: Path) -> None:
    cp = create_full_history(open_checkpointer())
    cp.close()
    first, second = (cp.export_session("s", path.with_name(name)) for name in ("a", "b"))
    lines = [each.path.read_text().rstrip("\n").split("\n") for each in (first, second)]

    assert lines[0][2:-1] == lines[1][2:-1]
    assert (first.version, first.size, first.size) == (3, first.path.stat().st_size, second.size)
    assert list(path.parent.glob(".*")) == []


def test_file_header_describes_the_file(cp: SyncCheckpointer, path: Path) -> None:
    exported_session = create_full_history(cp).export_session("s", path)
    first, *_, last = path.read_text().rstrip("\n").split("\n")
    header = json.loads(first)

    assert {name: header[name] for name in ("format", "version", "session_id", "workspace", "latest_version")} == {
        "format": "harness session",
        "version": 11,
        "session_id": "s",
        "workspace": "default",
        "latest_version": 3,
    }
    assert json.loads(last)["digest"] == exported_session.digest
    assert path.stat().st_mode & 0o777 == 0o600


def test_columns_of_a_file_have_a_version(workspace: Workspace) -> None:
    """Another set of columns is another version of the format: raise `format.VERSION`, and read the old one too."""
    named = {
        kind: sorted(field.attname for field in row_serializers.list_serialized_fields(model))
        for kind, model in row_serializers.TABLES.items()
    }

    assert (session_file_reader_and_writer.FORMAT_VERSION, digests.digest_key_parts(named)[:16]) == (
        11,
        "21ebcb1b13bb9c80",
    )


def test_export_of_a_fork_contains_shared_segments(open_checkpointer: Open, path: Path) -> None:
    cp = create_full_history(open_checkpointer())
    cp.fork_session("s", "fork", version=1)
    cp.fork_session("fork", "again")
    cp.start_session("again")
    cp.append_checkpoint("again", conversation("z"), expected_version=1)
    before = [cp.load("again", version) for version in (1, 2)]
    export_delete_and_import(cp, path, "again")

    assert [cp.load("again", version) for version in (1, 2)] == before
    assert Session.objects.get(session_id="again").forked_from is None
    assert cp.load("fork", 1)["transcript"] == conversation("abc")


def test_finished_session_keeps_its_result(open_checkpointer: Open, path: Path) -> None:
    cp = create_full_history(open_checkpointer())
    cp.finish_session("s", "completed", {"paid": 1})
    export_delete_and_import(cp, path)

    point = cp.resume("s")
    assert (point.finished, point.result) == (True, {"paid": 1})


def test_empty_session_is_imported(open_checkpointer: Open, path: Path) -> None:
    cp = export_delete_and_import(start_session(open_checkpointer()), path)

    assert (cp.load_latest("s"), cp.resume("s").version) == (None, 0)


def test_running_call_is_undecided_after_import(open_checkpointer: Open, path: Path) -> None:
    cp = start_session(open_checkpointer())
    cp.record_tool_call_issued("s", "call_1", "pay", {}, "key")
    cp.record_tool_call_issued("s", "call_2", "look", {}, "other", side_effects=("read",))
    cp.export_session("s", path)
    cp.record_tool_call_result("s", "call_1", "paid", True)
    cp.close()
    cp.delete_session("s")
    imported = cp.import_session(path)

    assert (imported.undecided, call_statuses()) == (1, [("call_1", 1, "interrupted"), ("call_2", 1, "discarded")])
    with pytest.raises(ReviewRequired):
        cp.resume("s")
    assert Session.objects.get().status == "needs_review"
    events = AuditEvent.objects.filter(kind="call_interrupted", session_id=Session.objects.get().pk)
    assert list(events.values_list("actor", flat=True)) == ["import"]


def test_decisions_are_imported_and_new_ones_are_accepted(open_checkpointer: Open, path: Path) -> None:
    cp, call = interrupt_call(start_session(open_checkpointer()), open_checkpointer)
    cp.confirm_landed("s", "call_1", "paid", actor="alice", reason="I looked.", revision=call["revision"])
    cp.record_tool_call_issued("s", "call_2", "pay", {}, "other")
    before = session_content()["decisions"]
    cp.export_session("s", path)
    cp.record_tool_call_result("s", "call_2", "x", False)
    cp.close()
    cp.delete_session("s")
    cp.import_session(path)

    assert session_content()["decisions"] == before
    (open_call,) = cp.pending_tool_calls("s")
    cp.mark_failed("s", "call_2", actor="bob", reason="I looked.", revision=open_call["revision"])
    assert cp.resume("s").version == 0


@pytest.mark.parametrize(
    ("decision", "there", "here"),
    [("approve_call", "approved", "awaiting_approval"), (None, "awaiting_approval", "awaiting_approval")],
)
def test_unused_approval_is_requested_again_after_import(
    open_checkpointer: Open, path: Path, decision: str | None, there: str, here: str
) -> None:
    cp = start_session(open_checkpointer())
    registry = ToolRegistry(checkpointer=cp, session_id="s")
    registry.tool(name="pay", requires_approval=True)(lambda: "paid")
    with pytest.raises(ReviewRequired):
        registry.dispatch("pay", {}, "call_1")
    if decision is not None:
        cp.approve_call("s", "call_1", actor="alice", reason="Yes.", revision=1)
    assert call_statuses() == [("call_1", 1, there)]
    export_delete_and_import(cp, path)

    assert call_statuses() == [("call_1", 1, here)]
    with pytest.raises(ReviewRequired):
        cp.resume("s")


def test_unknown_session_writes_no_file(cp: SyncCheckpointer, path: Path) -> None:
    with pytest.raises(SessionNotFound):
        cp.export_session("unknown", path)
    assert list(path.parent.iterdir()) == []


def test_unwritable_path_raises_typed_error(cp: SyncCheckpointer, path: Path) -> None:
    path.mkdir()
    (path / "full").touch()

    with pytest.raises(FileNotWritten):
        create_full_history(cp).export_session("s", path)
    assert [found.name for found in path.parent.iterdir()] == ["s.session"]


def test_export_and_import_are_audited(open_checkpointer: Open, path: Path) -> None:
    export_delete_and_import(start_session(open_checkpointer()), path)

    kinds = ["exported", "session_imported"]
    assert list(AuditEvent.objects.filter(kind__in=kinds).order_by("pk").values_list("kind", flat=True)) == kinds


@pytest.mark.unsealed("another database needs a witness of its own")
def test_import_into_another_database(open_checkpointer: Open, start_child: StartChild, path: Path) -> None:
    cp = create_full_history(open_checkpointer())
    cp.record_tool_call_issued("s", "call_9", "pay", {}, "key")
    cp.export_session("s", path)
    child = start_child(
        session_histories.import_into_new_database, place=str(path.with_name("other.db")), path=str(path)
    )

    assert child.result() == ["s", 3, 1, False, [text_message("summary"), *conversation("de"), *conversation("f")]]


@pytest.mark.unsealed("another database needs a witness of its own")
def test_paused_session_continues_in_another_database(
    open_checkpointer: Open, start_child: StartChild, path: Path
) -> None:
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("a"), None, 0)
    cp.pause_for_peers("s", {"step": 2}, [Join("weight", [PeerCall("call-1", "stock", {"weigh": 17})])])
    cp.export_session("s", path)
    child = start_child(
        session_histories.import_and_accept_response, place=str(path.with_name("other.db")), path=str(path)
    )

    assert child.result() == ["Accepted", {"step": 2}, {"grams": 5}, 1]


def test_one_of_many_concurrent_imports_succeeds(
    exported_session: SyncCheckpointer, start_child: StartChild, path: Path
) -> None:
    children = [start_child(session_histories.import_when_told, url=database_url(), path=str(path)) for _ in range(3)]
    for child in children:
        child.expect("ready")
    for child in children:
        child.tell()

    said_by_all = sorted(child.result() for child in children)
    assert said_by_all[0] in {"ImportConflict", "SessionExists"}
    assert (said_by_all[2], Session.objects.count()) == ("imported", 1)


@pytest.mark.asyncio
async def test_async_class_behaves_alike(workspace: Workspace, path: Path) -> None:
    async with Checkpointer() as cp:
        await cp.start_session("s")
        await cp.save_checkpoint("s", conversation("a"), None, 0)
        assert (await cp.export_session("s", path)).version == 1
        await cp.finish_session("s", "completed")
        await cp.delete_session("s")
        assert (await cp.import_session(path, session_id="s")).version == 1
        assert (await cp.resume("s")).transcript == conversation("a")
