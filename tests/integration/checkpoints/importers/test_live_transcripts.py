"""Growing transcripts: status, the watch command, and links between agents and subagents."""

from __future__ import annotations

import json
import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connections
from django.utils import timezone

from checkpoints import SyncCheckpointer
from checkpoints.enums import AuditKind
from checkpoints.importers import import_transcripts
from checkpoints.importers.watch_folder import FolderWatch
from checkpoints.models import AuditEvent, Run, Session, ToolCall
from checkpoints.sessions.display_status import HAS_LIVE_OWNER
from checkpoints.sessions.sweep_lost_runs import sweep_lost_runs
from tests.integration.checkpoints.importers.transcript_writer import SESSION, TranscriptWriter


@pytest.fixture
def live(transcript_writer: TranscriptWriter) -> TranscriptWriter:
    transcript_writer.live = True
    transcript_writer.start = timezone.now() - timedelta(minutes=20)
    transcript_writer.user("Pay")
    transcript_writer.calls("call_1", "Bash", {}, message="msg_1")
    return transcript_writer


def test_watch_imports_a_growing_file_and_finishes_its_session(cp: SyncCheckpointer, live: TranscriptWriter) -> None:
    watch = FolderWatch(cp, live.path.parent)
    watch.import_existing()
    row, call = Session.objects.get(), ToolCall.objects.get()
    assert (row.status, call.status) == ("active", "issued")
    assert Session.objects.filter(HAS_LIVE_OWNER).exists()
    assert row.updated_at == live.start + timedelta(seconds=2)
    live.raw('{"type": "user", "uuid": "torn')
    assert watch.import_changes() == 1
    live.raw('", "message": {"role": "user", "content": "Hm"}}\n')
    live.result("call_1", "paid")
    live.says("Paid.", message="msg_2")
    assert (watch.import_changes(), watch.import_changes()) == (1, 0)
    call.refresh_from_db()
    row.refresh_from_db()
    assert (call.status, row.status, row.message_count, watch.report.skipped) == ("completed", "active", 5, 0)
    old = live.path.stat().st_mtime - 3600
    os.utime(live.path, (old, old))
    watch.import_changes()
    row.refresh_from_db()
    assert (row.status, row.owner_id, row.message_count) == ("completed", None, 5)


def test_session_of_a_file_that_was_copied_just_now_is_not_running(
    cp: SyncCheckpointer, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.live = True
    transcript_writer.start = timezone.now() - timedelta(hours=2)
    transcript_writer.user("Pay")
    transcript_writer.calls("call_1", "Bash", {}, message="msg_1")
    import_transcripts(cp, transcript_writer.path)
    row = Session.objects.get()
    assert (row.status, row.owner_id, ToolCall.objects.get().status) == ("cancelled", None, "discarded")


def test_growing_files_are_looked_at_between_two_looks_at_the_folder(
    cp: SyncCheckpointer, live: TranscriptWriter, tmp_path: Path
) -> None:
    watch = FolderWatch(cp, live.path.parent)
    watch.import_existing()
    live.result("call_1", "paid")
    assert (watch.import_growing_files(), watch.import_changes()) == (0, 1)
    live.says("Paid.", message="msg_2")
    live.path.with_name("new.jsonl").write_bytes(live.path.read_bytes())
    assert (watch.import_growing_files(), watch.import_changes()) == (1, 1)
    secret = tmp_path / "elsewhere.jsonl"
    live.path.rename(secret)
    live.path.symlink_to(secret)
    live.says("Not in the folder.", message="msg_3")
    assert watch.import_growing_files() == 0


def test_session_of_an_unchanged_file_is_finished(
    cp: SyncCheckpointer, live: TranscriptWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = FolderWatch(cp, live.path)
    watch.import_existing()
    assert watch.reimport_transcripts_that_ended() == 0
    later = timezone.now() + timedelta(hours=1)
    monkeypatch.setattr("checkpoints.db.clock.now", lambda: later)
    assert watch.reimport_transcripts_that_ended() == 1
    row, call = Session.objects.get(), ToolCall.objects.get()
    assert (row.status, call.status, call.reason) == ("cancelled", "discarded", "no_result")


def fail(*arguments: Any) -> Any:
    raise OperationalError("the database is away")


@pytest.mark.parametrize("is_first_import", [True, False])
@pytest.mark.parametrize("workers", [1, 2])
def test_watch_tries_again_what_the_database_could_not_take(
    cp: SyncCheckpointer, live: TranscriptWriter, is_first_import: bool, workers: int
) -> None:
    watch = FolderWatch(cp, live.path.parent, workers=workers)
    if not is_first_import:
        watch.import_existing()
        live.says("Paid.", message="msg_2")
    with connections[cp.store.using].execute_wrapper(fail):
        if is_first_import:
            watch.import_existing()
        for _ in range(3):
            watch.import_changes()
    (refused,) = watch.report.refused
    assert (refused.path, refused.is_temporary) == (str(live.path), True)
    assert watch.import_changes() == 1
    assert Session.objects.get().message_count == 2 + (not is_first_import)
    assert watch.import_changes() == 0
    with connections[cp.store.using].execute_wrapper(fail):
        live.says("Bye.", message="msg_3")
        watch.import_changes()
    assert len(watch.report.refused) == 2


def test_watch_of_a_folder_that_is_removed_goes_on(
    cp: SyncCheckpointer, live: TranscriptWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = FolderWatch(cp, live.path.parent)
    watch.import_existing()
    text = live.path.read_text()
    shutil.rmtree(live.path.parent)
    assert (watch.import_changes(), watch.reimport_transcripts_that_ended()) == (0, 0)
    live.path.parent.mkdir()
    live.path.write_text(text)
    live.says("Paid.", message="msg_2")
    assert watch.import_changes() == 1
    assert Session.objects.get().message_count == 3


def test_lost_lease_of_an_import_needs_no_decision(cp: SyncCheckpointer, live: TranscriptWriter) -> None:
    import_transcripts(cp, live.path)
    Run.objects.update(lease_expires_at=timezone.now() - timedelta(minutes=1))
    sweep_lost_runs(cp.store)
    call = ToolCall.objects.get()
    assert (call.status, call.reason, call.settled_at, call.interrupted_at) == (
        "discarded",
        "no_result",
        None,
        call.issued_at,
    )
    event = AuditEvent.objects.get(kind=AuditKind.SESSION_FINISHED)
    assert (event.actor, json.loads(event.details)) == ("sweeper", {"reason": "no_result", "status": "cancelled"})
    row, run = Session.objects.get(), Run.objects.get()
    assert (row.status, row.owner_id, run.status) == ("cancelled", None, "cancelled")
    assert row.updated_at == live.start + timedelta(seconds=2)
    assert not AuditEvent.objects.filter(kind=AuditKind.RUN_LOST).exists()
    assert cp.pending_tool_calls(SESSION) == []
    live.result("call_1", "paid")
    import_transcripts(cp, live.path)
    assert (ToolCall.objects.get().status, Session.objects.get().status) == ("completed", "active")


def test_subagents_are_linked_and_helper_agents_are_skipped(cp: SyncCheckpointer, tmp_path: Path) -> None:
    parent = TranscriptWriter(tmp_path / f"{SESSION}.jsonl")
    parent.user("<question>Which poem?</question>")
    parent.calls("call_1", "Task", {"prompt": "Write"}, message="msg_1")
    parent.result("call_1", "written", toolUseResult={"agentId": "a7", "status": "completed"})
    folder = tmp_path / SESSION / "subagents"
    TranscriptWriter(folder / "agent-a7.jsonl", prefix="a", isSidechain=True, agentId="a7").user("Write")
    TranscriptWriter(folder / "agent-acompact-1.jsonl", prefix="c", isSidechain=True, agentId="acompact-1").user(
        "Summarise"
    )
    report = import_transcripts(cp, tmp_path)
    assert sorted(report.session_ids) == [SESSION, f"{SESSION}/agent-a7"]
    assert [Path(path).name for path in report.helpers] == ["agent-acompact-1.jsonl"]
    child, row = Session.objects.get(session_id=f"{SESSION}/agent-a7"), Session.objects.get(session_id=SESSION)
    assert child.parent_session_id == SESSION
    assert json.loads(row.metadata)["subagents"] == {f"{SESSION}/agent-a7": "call_1"}
    assert row.title == "Which poem?"
