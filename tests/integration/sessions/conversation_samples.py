"""Messages and logged calls of a session, and the conversation built from them."""

from datetime import datetime
from typing import Any

from checkpoints.enums import CallStatus
from checkpoints.models import Session
from harness_site.sessions.selectors import conversation_window
from harness_site.sessions.selectors.conversation_window import CallCard, Conversation, MessageEntry
from tests.support.factories import THEN, make_call, make_message

ARGS = {"order": 17}


def asks(session: Session, *call_ids: str, args: dict[str, Any] | None = None, tool: str = "pay") -> None:
    calls = [
        {"kind": "tool_call", "id": call_id, "name": tool, "args": ARGS if args is None else args}
        for call_id in call_ids or ("call_1",)
    ]
    make_message(session=session, role="assistant", blocks=calls)


def answers(session: Session, call_id: str = "call_1", content: str = "done", at: datetime = THEN) -> None:
    block = {"kind": "tool_result", "call_id": call_id, "content": content}
    make_message(session=session, role="tool", blocks=[block], created_at=at)


def logged(session: Session, call_id: str = "call_1", **fields: Any) -> Any:
    fields = {"args": ARGS, "tool": "pay", "status": CallStatus.COMPLETED, **fields}
    return make_call(session=session, call_id=call_id, **fields)


def read(session: Session, version: int | None = None, **bounds: Any) -> Conversation:
    session.refresh_from_db()
    place = conversation_window.find_transcript_version(session, version)
    assert place is not None
    return conversation_window.load_conversation_window(session, place, **bounds)


def entries(found: Conversation) -> list[MessageEntry]:
    return [item for item in found.items if isinstance(item, MessageEntry)]


def cards(found: Conversation) -> list[CallCard]:
    pending = [item for item in found.items if isinstance(item, CallCard)]
    return [part for entry in entries(found) for part in entry.parts if isinstance(part, CallCard)] + pending
