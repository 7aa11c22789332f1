"""An import that is killed at any statement and repeated stores everything once."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from checkpoints import SyncCheckpointer
from checkpoints.enums import CallStatus, SessionStatus
from checkpoints.importers import import_transcripts
from checkpoints.models import Checkpoint, ImportedFile, Message, Run, Session, ToolCall
from tests.conftest import StartChild
from tests.integration.checkpoints.importers.import_helpers import import_and_die, import_at_once
from tests.integration.checkpoints.importers.transcript_writer import SESSION, TranscriptWriter
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.processes import database_url

#: More than one transaction takes.
TURNS = 130


@pytest.fixture
def transcript_writer(tmp_path: Path) -> TranscriptWriter:
    """Conversation with an edit and a compaction that keeps messages, large enough for several transactions."""
    transcript_writer = TranscriptWriter(tmp_path / f"{SESSION}.jsonl")
    for number in range(TURNS):
        transcript_writer.user(f"Question {number}")
        call = transcript_writer.calls(f"call_{number}", "Read", {"n": number}, message=f"msg_{number}")
        answered = transcript_writer.result(f"call_{number}", f"content {number}")
        if number == TURNS // 2:
            transcript_writer.compaction("What was said so far.", kept=[call["uuid"], answered["uuid"]])
        elif number == TURNS // 4:
            transcript_writer.user("Taken back")
            transcript_writer.says("Too late", message="msg_back")
            transcript_writer.parent = answered["uuid"]
    side = TranscriptWriter(transcript_writer.path, prefix="s", isSidechain=True, agentId="a1")
    side.user("Explore")
    return transcript_writer


def imported_content() -> tuple[object, ...]:
    """Return messages and calls without primary keys and version numbers."""
    return (
        sorted(Message.objects.values_list("message_id", "position", "chain")),
        sorted(ToolCall.objects.values_list("idempotency_key", "status", "result", "args")),
        sorted(Session.objects.values_list("session_id", "title", "status", "message_count", "head_chain")),
        sorted(Run.objects.values_list("session__session_id", "number", "status")),
    )


@dataclass(frozen=True)
class CompleteImport:
    """Result of an import that is not killed, and the number of its statements."""

    there: tuple[object, ...]
    statements: int


@pytest.fixture
def complete_import(cp: SyncCheckpointer, transcript_writer: TranscriptWriter) -> CompleteImport:
    statements: list[str] = []

    def counted(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        statements.append(sql)
        return execute(sql, params, many, context)

    with connections[cp.store.using].execute_wrapper(counted):
        import_transcripts(cp, transcript_writer.path)
    found = CompleteImport(imported_content(), len(statements))
    for row in Session.objects.all():
        Session.objects.filter(pk=row.pk).update(head_segment=None)
        cp.delete_session(row.session_id)
    assert not Message.objects.exists()
    ImportedFile.objects.all().delete()
    return found


def _kill(
    start_child: StartChild, transcript_writer: TranscriptWriter, complete_import: CompleteImport, moment: float
) -> None:
    """Import in a process that is killed after the given share of its statements."""
    statement = max(1, int(moment * complete_import.statements))
    child = start_child(import_and_die, url=database_url(), path=str(transcript_writer.path), statement=statement)
    assert child.died_by() == signal.SIGKILL


@pytest.mark.parametrize("moment", mark_all_but_each(4, [0.003, 0.02, 0.4, 0.6, 0.9, 0.995]))
def test_killed_import_is_completed_by_another_import(
    cp: SyncCheckpointer,
    transcript_writer: TranscriptWriter,
    complete_import: CompleteImport,
    start_child: StartChild,
    moment: float,
) -> None:
    _kill(start_child, transcript_writer, complete_import, moment)
    import_transcripts(cp, transcript_writer.path)
    assert imported_content() == complete_import.there
    for row in Session.objects.all():
        for version in Checkpoint.objects.filter(session=row):
            cp.load(row.session_id, version.version)


def test_versions_written_before_the_kill_are_complete(
    transcript_writer: TranscriptWriter, complete_import: CompleteImport, start_child: StartChild, cp: SyncCheckpointer
) -> None:
    _kill(start_child, transcript_writer, complete_import, 0.7)
    row = Session.objects.get(session_id=SESSION)
    assert row.status == SessionStatus.ACTIVE
    loaded = cp.load_latest(SESSION)
    assert loaded is not None
    said = [json.dumps(message["content"]) for message in loaded["transcript"]]
    assert len(said) == row.message_count
    assert len(set(said)) == len(said)
    assert not ToolCall.objects.exclude(status__in=[CallStatus.COMPLETED, CallStatus.DISCARDED]).exists()


def test_concurrent_imports_write_once(
    transcript_writer: TranscriptWriter, complete_import: CompleteImport, start_child: StartChild
) -> None:
    children = [start_child(import_at_once, url=database_url(), path=str(transcript_writer.path)) for _ in range(3)]
    for child in children:
        child.expect("ready")
    for child in children:
        child.tell()
    assert [child.result() for child in children] == ["done"] * 3
    assert imported_content() == complete_import.there
