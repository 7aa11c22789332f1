"""The conversation in which a call was made, as the decision page shows it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from checkpoints.models import ToolCall
from harness_site.sessions.selectors import conversation_window, version_lookup
from harness_site.sessions.selectors.conversation_window import CallCard, Conversation, MessageEntry

#: Number of transcript messages shown around a call.
_CONTEXT_MESSAGES = 4


@dataclass(frozen=True, slots=True)
class ConversationUpToCall:
    """Last messages of a version up to a call; `version` is 0 if there was none."""

    conversation: Conversation
    version: int
    is_call_in_message: bool

    @property
    def has_messages(self) -> bool:
        return any(isinstance(item, MessageEntry) for item in self.conversation.items)


def load_conversation_up_to_call(call: ToolCall, until: datetime | None) -> ConversationUpToCall:
    """Load the messages around a call.

    These are the messages of the version at which the call was logged, if they contain it. A framework may save them
    after the call, or never name the call in a message, as for an interrupt of a graph: then they are those of the
    newest version until the call was decided.

    Args:
        call: The call.
        until: Time at which the call was decided or settled; None if it is undecided.

    Raises:
        IntegrityError: A version or a message was altered.
    """
    last: Conversation | None = None
    seen: set[int] = set()
    for version in _iterate_versions_that_may_contain_call(call, until):
        # A number is read in a fraction of the time of a version. The newest version is another one than that before.
        if seen and version != call.session.latest_version:
            number = version_lookup.find_newest_version_number_up_to(call.session_id, version)
            if number is None or number in seen:
                continue
        place = conversation_window.find_newest_transcript_version_upto_step(call.session, version)
        if place is None or place.version in seen:
            continue
        seen.add(place.version)
        first = max(0, place.length - _CONTEXT_MESSAGES)
        conversation = conversation_window.load_conversation_window(call.session, place, first=first)
        if _is_call_in_conversation(call, conversation):
            return ConversationUpToCall(conversation, place.version, is_call_in_message=True)
        if last is None or version != call.answered_version:
            last = conversation
    if last is None:
        place = conversation_window.get_newest_transcript_version(call.session)
        return ConversationUpToCall(Conversation(place, 0, 0, ()), 0, is_call_in_message=False)
    return ConversationUpToCall(last, last.place.version, is_call_in_message=False)


def _iterate_versions_that_may_contain_call(call: ToolCall, until: datetime | None) -> Iterator[int]:
    """Yield the versions to look at, the likeliest first, each once.

    One that has a result of the call names it, but that of a decided call may have been saved after the decision.
    """
    yield call.step
    newest, answered = call.session.latest_version, call.answered_version or call.step
    if until is not None and newest > call.step:
        newest = version_lookup.find_newest_version_number_until(call.session_id, until) or call.step
    later = (answered, newest) if until is None else (newest, answered)
    yield from dict.fromkeys(version for version in later if version > call.step)


def _is_call_in_conversation(call: ToolCall, conversation: Conversation) -> bool:
    messages = (item for item in conversation.items if isinstance(item, MessageEntry))
    cards = (part for message in messages for part in message.parts if isinstance(part, CallCard))
    return any(attempt.pk == call.pk for card in cards for attempt in card.attempts)
