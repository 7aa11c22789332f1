"""Calls that a fork has copied although only its original has made them, after the forked version.

Of `COPIED_CALLS_AFTER_FORK` these are all but those that the copied transcript asks for: the original saved the message
with such a call before the forked version, and its result after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from django.db.models import Q
from django.db.models.functions import Length

from checkpoints.db.decompressed_text_sql import DecompressedText
from checkpoints.formats.parse_message_parts import CallPart, ResultPart, parse_message_parts
from checkpoints.models import Checkpoint, ToolCall
from checkpoints.models.tool_calls_and_results import COPIED_CALLS_AFTER_FORK
from harness_site.sessions.selectors import transcript_message_queries

#: Number of the last messages of what a fork has copied in which calls without a result are searched.
_MAX_MESSAGES: Final = 64
#: Longer messages are not searched (characters).
_LONGEST_BODY: Final = 200_000


def build_condition_of_calls_after_fork(fork_pk: int, *, may_have_copied_calls: bool = True) -> Q:
    """Build the condition of the calls of a fork that only its original has made: its transcript does not ask for them.

    At most five queries, one for a session that has no such calls, and none without `may_have_copied_calls`, which is
    that of `SessionHead`.
    """
    if not may_have_copied_calls:
        return COPIED_CALLS_AFTER_FORK
    asked = load_pks_of_calls_asked_before_fork(fork_pk)
    return COPIED_CALLS_AFTER_FORK & ~Q(pk__in=asked) if asked else COPIED_CALLS_AFTER_FORK


def load_pks_of_calls_asked_before_fork(fork_pk: int) -> frozenset[int]:
    """Load the keys of the calls of `COPIED_CALLS_AFTER_FORK` that the copied transcript of a fork asks for."""
    copies = ToolCall.objects.filter(COPIED_CALLS_AFTER_FORK, session=fork_pk)
    if not copies.exists():
        return frozenset()
    call_ids = _load_ids_of_calls_without_result(fork_pk)
    if not call_ids:
        return frozenset()
    rows = copies.filter(call_id__in=call_ids).order_by("step", "pk").values_list("call_id", "pk")
    first_pks: dict[str, int] = {}
    for call_id, pk in rows:  # a program that counts its calls anew may give a later call the same id
        first_pks.setdefault(call_id, pk)
    return frozenset(first_pks.values())


def _load_ids_of_calls_without_result(fork_pk: int) -> list[str]:
    first = Checkpoint.objects.filter(session=fork_pk).order_by("version").values_list("segment_id", "length").first()
    if first is None:
        return []
    segment_id, length = first
    ranges = transcript_message_queries.load_segment_ranges(segment_id, length)
    messages = transcript_message_queries.query_messages_of_ranges(ranges).filter(position__gte=length - _MAX_MESSAGES)
    messages = messages.alias(size=Length(DecompressedText("body"))).filter(size__lte=_LONGEST_BODY)
    return _list_ids_of_calls_without_result(messages.order_by("position").values_list("body", flat=True))


def _list_ids_of_calls_without_result(bodies: Iterable[str]) -> list[str]:
    """List the ids of the calls in messages, the oldest first, that no later message has a result of."""
    unanswered: dict[str, None] = {}
    for body in bodies:
        for part in parse_message_parts(body):
            if isinstance(part, CallPart):
                unanswered[part.call_id] = None
            elif isinstance(part, ResultPart):
                unanswered.pop(part.call_id, None)
    return list(unanswered)
