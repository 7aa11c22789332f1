"""Queries for imported rows."""

from __future__ import annotations

from typing import Any

from checkpoints import SyncCheckpointer
from checkpoints.models import Checkpoint, Message, Segment, Session, ToolCall
from tests.integration.checkpoints.importers.transcript_writer import SESSION, TranscriptWriter

USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7}


def session(session_id: str = SESSION) -> Session:
    return Session.objects.get(session_id=session_id)


def texts(cp: SyncCheckpointer, session_id: str = SESSION) -> list[Any]:
    """Return the content of each message of the newest version."""
    loaded = cp.load_latest(session_id)
    assert loaded is not None
    return [message["content"] for message in loaded["transcript"]]


def all_rows() -> list[Any]:
    """Return all rows that an import writes, for comparison."""
    tables = (Session, Segment, Message, Checkpoint, ToolCall)
    return [sorted(map(repr, table.objects.values_list())) for table in tables]


def write_turn(transcript_writer: TranscriptWriter, number: int) -> None:
    transcript_writer.user(f"Question {number}")
    transcript_writer.says(f"Looking at {number}.", message=f"msg_{number}", usage=USAGE)
    transcript_writer.calls(f"call_{number}", "Read", {"file": f"{number}.py"}, message=f"msg_{number}", usage=USAGE)
    transcript_writer.result(f"call_{number}", f"content {number}")
    transcript_writer.says(f"Answer {number}", message=f"msg_{number}b", usage=USAGE)
