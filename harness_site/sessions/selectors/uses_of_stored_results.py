"""Where a transcript answers later calls with the stored result of one that is logged."""

from collections.abc import Iterator
from dataclasses import dataclass

from checkpoints.formats.digests import digest_text
from checkpoints.formats.parse_message_parts import CallPart, parse_message_parts
from checkpoints.models import Session, ToolCall
from harness_site.sessions.selectors import conversation_window, message_windows
from harness_site.sessions.selectors.call_records import CallRecord
from harness_site.sessions.selectors.conversation_window import (
    CallCard,
    MessageEntry,
    StoredResultUse,
    TranscriptVersion,
    canonicalize_arguments_or_empty,
)

#: Maximum number of messages that name the tool and are read, and of uses among them.
_MAX_MESSAGES = 200
_MAX_USES = 5
#: Maximum number of messages between a call and its result.
_MAX_RESULT_DISTANCE = 16


@dataclass(frozen=True, slots=True)
class PlacedUse:
    """A use of a stored result, and the position of the message with the call that it answered."""

    position: int
    use: StoredResultUse


@dataclass(frozen=True, slots=True)
class AskedAgainSpot:
    """The message that asked for a logged call again under another id: its position, and the version that saved it.

    `version` is None if that version was deleted.
    """

    position: int
    version: int | None
    call_id: str


def find_message_that_asked_again(session: Session, call: CallRecord) -> AskedAgainSpot | None:
    """Find the first message of the newest transcript where another call got the stored result of a logged one.

    For a call that no saved message has: a run that died may not have saved what the model asked for. Without a replay,
    there is no query. Raises `IntegrityError` if a message was altered.
    """
    if not call.replays:
        return None
    transcript = conversation_window.get_newest_transcript_version(session)
    for position in _iterate_positions_of_same_calls(transcript, call, first_position=-1):
        entry, cards = _load_entry_and_cards_of_call(session, transcript, call, position)
        again = next((card for card in cards if card.has_stored_result), None)
        if entry is not None and again is not None:
            return AskedAgainSpot(position, entry.version, again.call.call_id)
    return None


def load_uses_of_stored_result(session: Session, call: CallRecord, first_position: int) -> list[PlacedUse]:
    """Load the first calls of the newest transcript that were answered with the stored result of a logged call.

    Args:
        session: The session.
        call: The logged call. Without a replay, there is no query.
        first_position: Position of the message that asks for it.

    Raises:
        IntegrityError: A message was altered.
    """
    if not call.replays:
        return []
    transcript = conversation_window.get_newest_transcript_version(session)
    uses: list[PlacedUse] = []
    for position in _iterate_positions_of_same_calls(transcript, call, first_position):
        uses += _load_uses_in_message(session, transcript, call, position)
        if len(uses) >= _MAX_USES:
            break
    return uses


def _iterate_positions_of_same_calls(
    transcript: TranscriptVersion, call: CallRecord, first_position: int
) -> Iterator[int]:
    """Yield the positions of the later messages that ask for the same tool with the same arguments."""
    digests = set(ToolCall.objects.values_list("args_digest", "asked_args_digest").get(pk=call.pk))
    messages = message_windows.query_messages_of_ranges(transcript.segment_ranges).filter(
        message_windows.build_body_contains_condition(call.tool), position__gt=first_position
    )
    rows = messages.order_by("position").values_list("position", "body")[:_MAX_MESSAGES]
    for position, body in rows.iterator(chunk_size=20):
        parts = (part for part in parse_message_parts(body) if isinstance(part, CallPart) and part.name == call.tool)
        if any(digest_text(canonicalize_arguments_or_empty(part.args)) in digests for part in parts):
            yield position


def _load_uses_in_message(
    session: Session, transcript: TranscriptVersion, call: CallRecord, position: int
) -> Iterator[PlacedUse]:
    _entry, cards = _load_entry_and_cards_of_call(session, transcript, call, position)
    for card in cards:
        if card.stored_result_use is not None:
            yield PlacedUse(position, card.stored_result_use)


def _load_entry_and_cards_of_call(
    session: Session, transcript: TranscriptVersion, call: CallRecord, position: int
) -> tuple[MessageEntry | None, list[CallCard]]:
    """Load the message at a position, and its calls whose newest attempt is the logged one."""
    window = conversation_window.load_conversation_window(
        session, transcript, first=position, upto=position + 1 + _MAX_RESULT_DISTANCE
    )
    items = (item for item in window.items if isinstance(item, MessageEntry) and item.position == position)
    entry = next(items, None)
    parts = () if entry is None else entry.parts
    cards = [part for part in parts if isinstance(part, CallCard)]
    return entry, [card for card in cards if card.newest_attempt is not None and card.newest_attempt.pk == call.pk]
