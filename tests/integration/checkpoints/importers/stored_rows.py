"""Ways to look at what became of a transcript."""

from __future__ import annotations

from typing import Any

from checkpoints import SyncCheckpointer
from checkpoints.models import Checkpoint, Message, Segment, Session, ToolCall
from tests.integration.checkpoints.importers.transcript_files import SESSION, Scribe

USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7}


def session(session_id: str = SESSION) -> Session:
    return Session.objects.get(session_id=session_id)


def texts(cp: SyncCheckpointer, session_id: str = SESSION) -> list[Any]:
    """What the newest version says, one entry for each message."""
    loaded = cp.load_latest(session_id)
    assert loaded is not None
    return [message["content"] for message in loaded["transcript"]]


def everything() -> list[Any]:
    """All rows an import writes, in a form that tells any change."""
    tables = (Session, Segment, Message, Checkpoint, ToolCall)
    return [sorted(map(repr, table.objects.values_list())) for table in tables]


def a_turn(scribe: Scribe, number: int) -> None:
    scribe.user(f"Question {number}")
    scribe.says(f"Looking at {number}.", message=f"msg_{number}", usage=USAGE)
    scribe.calls(f"call_{number}", "Read", {"file": f"{number}.py"}, message=f"msg_{number}", usage=USAGE)
    scribe.result(f"call_{number}", f"content {number}")
    scribe.says(f"Answer {number}", message=f"msg_{number}b", usage=USAGE)
