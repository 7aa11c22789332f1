"""Permission modes of an imported session by message: what its program let the agent do without asking."""

from __future__ import annotations

from typing import Final

from checkpoints.formats import parse_json_or_return_text
from harness_site.sessions.selectors import find_words_errors_and_decisions, transcript_message_queries
from harness_site.sessions.selectors.conversation_window import CallCard, Conversation, MessageEntry

#: Beginning of the field in canonical JSON; inside of a string its quotes would be escaped.
_FIELD: Final = '"permission_mode":"'


def load_changed_permission_modes_by_position(window: Conversation) -> dict[int, str]:
    """Map the position of the first message of a window that has calls, and of each whose calls have another mode than
    those before, to the mode that held there, in two queries, and two more with sealing.

    Positions before the first named mode are left out. Raises `IntegrityError` for a message that was altered.
    """
    has_field = transcript_message_queries.build_body_contains_condition(_FIELD)
    messages = find_words_errors_and_decisions.query_version_messages(window.place).filter(has_field)
    columns = messages.values_list("position", "body")
    before = columns.filter(position__lt=window.first).order_by("-position").first()
    inside = list(columns.filter(position__gte=window.first, position__lt=window.upto).order_by("position"))
    find_words_errors_and_decisions.verify_message_beginnings(
        window.place, dict([*inside, before] if before else inside)
    )
    changes = {position: mode for position, body in inside if (mode := _parse_permission_mode(body))}
    mode = _parse_permission_mode(before[1]) if before else ""
    with_calls = {
        item.position
        for item in window.items
        if isinstance(item, MessageEntry) and any(isinstance(part, CallCard) for part in item.parts)
    }
    modes: dict[int, str] = {}
    previous = ""
    for position in range(window.first, window.upto):
        mode = changes.get(position, mode)
        if position in with_calls and mode != previous:
            modes[position] = previous = mode
    return modes


def _parse_permission_mode(body: str) -> str:
    message = parse_json_or_return_text(body)
    source = message.get("source") if isinstance(message, dict) else None
    context = source.get("context") if isinstance(source, dict) else None
    mode = context.get("permission_mode") if isinstance(context, dict) else None
    return mode if isinstance(mode, str) else ""
