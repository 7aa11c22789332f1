"""A session with rows of every kind, and functions for child processes that write and import files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from checkpoints import SyncCheckpointer, ToolRegistry, exceptions
from checkpoints.archive.atomic_file import open_atomic_replacement
from checkpoints.models import Checkpoint, Decision, Message, Run, Session, ToolCall
from tests.integration.checkpoints.session_setups import conversation, text_message
from tests.support.processes import die, send_to_parent, wait_for_parent

HOSTILE = 'a\0b \ud83d "quoted" \u2028 </script> ' + "ü" * 300


def create_full_history(cp: SyncCheckpointer, session_id: str = "s") -> SyncCheckpointer:
    """Create a session with turns, a compaction, a completed and a failed call, a workflow step and hostile texts."""
    cp.start_session(session_id, "Pay it", agent="payer", metadata={"odd": HOSTILE}, labels=["a", "b"])
    registry = ToolRegistry(checkpointer=cp, session_id=session_id)
    registry.tool(name="pay")(lambda order: f"paid {order}")
    registry.tool(name="fail")(lambda: 1 / 0)
    cp.save_checkpoint(session_id, conversation("abc"), {"goal": HOSTILE}, 0.25)
    registry.dispatch("pay", {"order": 1}, "call_1")
    registry.dispatch("fail", {}, "call_2")
    cp.save_checkpoint(
        session_id, [text_message("summary"), *conversation("de")], {"goal": 2}, 0.5, usage={"total_tokens": 9}
    )
    cp.append_checkpoint(session_id, conversation("f"), expected_version=2, payload={"odd": HOSTILE})
    cp.workflow(session_id, "w").step("greet", str.upper, "hello")
    return cp


def session_content(session_id: str = "s") -> dict[str, Any]:
    """Return the content of a session without primary keys."""
    session = Session.objects.get(session_id=session_id)
    calls = ToolCall.objects.filter(session=session).order_by("pk")
    return {
        "session": [
            session.agent,
            session.title,
            session.metadata,
            session.labels,
            session.latest_version,
            session.message_count,
            str(session.budget_spent_usd),
            session.total_tokens,
            session.key_space,
            session.created_at,
        ],
        "runs": list(Run.objects.filter(session=session).order_by("number").values_list("pk", "number", "host")),
        "versions": [
            SyncCheckpointer().load(session_id, version)
            for version in Checkpoint.objects.filter(session=session).values_list("version", flat=True)
        ],
        "messages": Message.objects.filter(session=session).count(),
        "calls": list(
            calls.values_list("call_id", "step", "attempt", "tool", "args", "status", "result", "issued_at", "run_id")
        ),
        "decisions": list(
            Decision.objects.filter(session=session).values_list("kind", "actor", "reason", "created_at")
        ),
    }


def digest(path: Path | str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


# in child processes


def replace_file_and_die(path: str, text: str, point: str) -> None:
    """Replace a file, and die while it is written or before it is renamed."""
    with open_atomic_replacement(Path(path)) as file:
        file.write(text.encode())
        if point == "while writing":
            file.flush()
            die()
    die()


def export_until_killed(url: str, session_id: str, path: str) -> None:
    """Export a session in a loop, with one more version each time."""
    cp = SyncCheckpointer.open(url)
    point = cp.resume(session_id)
    transcript = point.transcript
    send_to_parent("exporting")
    while True:
        transcript.append(text_message(str(len(transcript)), more="x" * 2000))
        cp.save_checkpoint(session_id, transcript, None, 0)
        cp.export_session(session_id, path)


def import_into_new_database(place: str, path: str) -> Any:
    """Import a file into a new database, and describe the session."""
    with SyncCheckpointer(place) as cp:
        imported = cp.import_session(path)
        preview = cp.preview_resume(imported.session_id)
        loaded = cp.load_latest(imported.session_id) or {}
        return [imported.session_id, imported.version, imported.undecided, preview["finished"], loaded["transcript"]]


def import_and_accept_response(place: str, path: str) -> Any:
    """Import a paused session into a new database, accept the response that it waits for, and take its task."""
    with SyncCheckpointer(place) as cp:
        cp.import_session(path)
        answer = cp.accept_response("call-1", {"grams": 5})
        task = cp.take_paused("s")
        return [type(answer).__name__, task.state, task.results["call-1"].result, task.point.version]


def import_when_told(url: str, path: str) -> str:
    """Import a file when the parent says so; return `imported` or the name of the error."""
    with SyncCheckpointer.open(url) as cp:
        send_to_parent("ready")
        wait_for_parent()
        try:
            cp.import_session(path)
        except exceptions.CheckpointsError as error:
            return type(error).__name__
        return "imported"
