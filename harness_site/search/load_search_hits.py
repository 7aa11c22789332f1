"""Hits of a page of results, with their sources and excerpts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from django.db.models import F, Max, QuerySet

from checkpoints.db.decompressed_text_sql import StoredSize
from checkpoints.models import Checkpoint, Decision, Message, ToolCall
from harness_site.core.rendering.safe_display_text import strip_markdown_marks
from harness_site.search.models import Kind, Passage
from harness_site.search.query_terms import SearchQuery
from harness_site.search.text_extraction import extract_masked_message_text_without_calls, find_call_ids_in_message

#: Characters before the longest match, and in total.
_BEFORE: Final = 60
_LENGTH: Final = 240
#: Largest stored size of a message that is compared with the calls it holds.
_MAX_COMPARED: Final = 200_000

Row = TypeVar("Row", Message, ToolCall, Decision)
#: A first line that is an id.
_ID_LINE: Final = re.compile(r"[^\s\d]*\d\S*\n")
#: A line of a message with the name of a tool and the id that a provider gave to its call.
_CALL_LINE: Final = re.compile(r"^(\S+) (?:call|fc|toolu|tooluse)_\w{6,}$", re.MULTILINE)
#: Breaks between the lines of a text, with the mark of an item of a list; an excerpt is one line.
_LINE_BREAK: Final = re.compile(r"[ \t]*\n\s*(?:[-*] )?")


@dataclass(frozen=True, slots=True)
class ExcerptPart:
    """A part of a text; `marked` is True if it matches the query."""

    text: str
    marked: bool


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One hit. `source` is the primary key of the message or the call; for a decision, that of the call it is about.

    `version` is the one to open if the newest version no longer contains the message. `is_question` is True for a call
    with which a framework asked people, and `is_copied` for one that a fork has copied from its original.
    """

    passage: int
    kind: str
    session: int
    source: int
    position: int | None
    version: int | None
    who: str
    at: datetime | None
    stretches: tuple[ExcerptPart, ...]
    is_question: bool = False
    is_copied: bool = False


def load_search_hits_by_session(passages: Sequence[Passage], query: SearchQuery) -> dict[int, list[SearchHit]]:
    """Load the hits by session, both in the order of the passages.

    Hits whose source is deleted are left out, and so are messages that match only because of calls that are hits
    themselves.
    """
    hits: defaultdict[int, list[SearchHit]] = defaultdict(list)
    messages = _load_source_rows(_query_messages, passages, Kind.MESSAGE)
    calls = _load_source_rows(_query_calls, passages, Kind.CALL)
    decisions = _load_source_rows(_query_decisions, passages, Kind.DECISION)
    versions = _load_last_versions_of_old_segments(messages.values())
    pattern = query.highlight_pattern
    sources = {(Kind.MESSAGE.value, pk) for pk in _find_messages_that_repeat_calls(messages, calls, passages, query)}
    for passage in passages:
        message = messages.get(passage.source) if passage.kind == Kind.MESSAGE else None
        call = calls.get(passage.source) if passage.kind == Kind.CALL else None
        decision = decisions.get(passage.source) if passage.kind == Kind.DECISION else None
        row = message or call or decision
        if (row is None and passage.kind != Kind.SESSION) or (passage.kind, passage.source) in sources:
            continue
        sources.add((passage.kind, passage.source))
        hits[passage.session_id].append(
            SearchHit(
                passage=passage.pk,
                kind=passage.kind,
                session=passage.session_id,
                source=decision.tool_call_id if decision else passage.source,
                position=passage.position,
                version=None if message is None else versions.get(message.segment_id),
                who=_get_role_tool_or_actor(row),
                at=_find_row_time(row),
                stretches=build_excerpt_parts(_strip_leading_ids_and_name_of_source(passage, row, pattern), pattern),
                is_question=call is not None and call.is_question,
                is_copied=call is not None and call.is_copied,
            )
        )
    return dict(hits)


def _find_messages_that_repeat_calls(
    messages: Mapping[int, Message], calls: Mapping[int, ToolCall], passages: Iterable[Passage], query: SearchQuery
) -> set[int]:
    """Find the messages that match only because of a call or a result which is a hit as the call itself.

    An id that several calls of a session have does not tell which one a message means, so these messages stay, and
    so do very long ones.
    """
    call_ids: defaultdict[int, set[str]] = defaultdict(set)
    for passage in passages:
        if passage.kind == Kind.CALL and passage.source in calls:
            call_ids[passage.session_id].add(calls[passage.source].call_id)
    pks = [pk for pk, message in messages.items() if message.session_id in call_ids]
    small = Message.objects.alias(size=StoredSize("body")).filter(pk__in=pks, size__lte=_MAX_COMPARED)
    bodies = dict(small.values_list("pk", "body")) if pks else {}
    repeated = {
        pk: ids
        for pk, body in bodies.items()
        if (ids := find_call_ids_in_message(body) & call_ids[messages[pk].session_id])
    }
    if not repeated:
        return set()
    same_ids = ToolCall.objects.filter(
        session__in={messages[pk].session_id for pk in repeated}, call_id__in=set().union(*repeated.values())
    )
    numbers = Counter(same_ids.values_list("session_id", "call_id"))
    found: set[int] = set()
    for pk, ids in repeated.items():
        known = {call_id for call_id in ids if numbers[messages[pk].session_id, call_id] == 1}
        if known and not query.matches_text(extract_masked_message_text_without_calls(bodies[pk], known).text):
            found.add(pk)
    return found


def _strip_leading_ids_and_name_of_source(
    passage: Passage, row: Message | ToolCall | Decision | None, pattern: re.Pattern[str]
) -> str:
    """Return the text without the leading ids of a message or call, and the name of the tool or person that is shown.

    The text of a tool's message begins with the id of the call that it answers. A name stays if nothing behind it
    matches the pattern. In another message, the ids of its calls are left out, unless only they match.
    """
    names: tuple[str, ...] = ()
    if isinstance(row, ToolCall):
        names = (row.call_id, row.tool)
    elif isinstance(row, Message):
        names = (row.message_id,)
    elif isinstance(row, Decision):
        names = (row.actor,)
    text = passage.text
    for name in filter(None, names):
        rest = text.removeprefix(f"{name}\n")
        if not pattern.search(rest):
            break
        text = rest
    if isinstance(row, Message) and row.role == "tool" and (answered_id := _ID_LINE.match(text)):
        rest = text[answered_id.end() :]
        return rest if pattern.search(rest) else text
    if isinstance(row, Message):
        without_ids = _CALL_LINE.sub(r"\1", text)
        return without_ids if pattern.search(without_ids) else text
    return text


def build_excerpt_parts(text: str, pattern: re.Pattern[str]) -> tuple[ExcerptPart, ...]:
    """Build the excerpt around the first of the longest matches in `text`, with all matches in it marked."""
    plain = _join_adjacent_lines_of_same_key(strip_markdown_marks(text))
    text = (plain if pattern.search(plain) else text).rstrip("\n")
    best = max(pattern.finditer(text), key=lambda match: len(match[0]), default=None)
    start = _find_excerpt_start(text, best.start()) if best else 0
    end = max(start + _LENGTH, best.end() if best else 0)
    parts = [ExcerptPart("… ", False)] if start else []
    at = start
    for match in pattern.finditer(text, start, min(end, len(text))):
        parts += [ExcerptPart(text[at : match.start()], False), ExcerptPart(match.group(), True)]
        at = match.end()
    parts.append(ExcerptPart(text[at:end] + (" …" if end < len(text) else ""), False))
    return tuple(
        part if part.marked else ExcerptPart(_LINE_BREAK.sub(" · ", part.text), part.marked)
        for part in parts
        if part.text
    )


def _join_adjacent_lines_of_same_key(text: str) -> str:
    """Return a text in which the lines `key: value` of one key after another are one line: the values of a list."""
    lines: list[str] = []
    previous = ""
    for line in text.split("\n"):
        key, colon, value = line.partition(": ")
        if colon and key == previous:
            lines[-1] += f", {value}"
        else:
            lines.append(line)
        previous = key if colon else ""
    return "\n".join(lines)


def _find_excerpt_start(text: str, match_start: int) -> int:
    """Return where the excerpt around a match begins: with its line, or with a word if the line begins far before."""
    earliest = match_start - _BEFORE
    if earliest <= 0:
        return 0
    if line := text.rfind("\n", earliest - 1, match_start) + 1:
        return line
    space = re.compile(r"\s").search(text, earliest - 1, match_start)
    return space.end() if space else earliest


def _get_role_tool_or_actor(row: Message | ToolCall | Decision | None) -> str:
    if isinstance(row, Message):
        return row.role
    if isinstance(row, ToolCall):
        return row.tool
    return row.actor if row else ""


def _find_row_time(row: Message | ToolCall | Decision | None) -> datetime | None:
    """Return the time of a source; None if its session has no times: those stored are of the import."""
    if row is None or not row.has_times:  # type: ignore[union-attr]
        return None
    return row.issued_at if isinstance(row, ToolCall) else row.created_at


def _load_source_rows(
    query_rows: Callable[[list[int]], QuerySet[Row]], passages: Iterable[Passage], kind: Kind
) -> dict[int, Row]:
    """Load the source rows of the passages of one kind by key."""
    sources = [passage.source for passage in passages if passage.kind == kind]
    return {row.pk: row for row in query_rows(sources)} if sources else {}


def _query_messages(pks: list[int]) -> QuerySet[Message]:
    columns = ("session_id", "segment_id", "role", "message_id", "created_at")
    head_segment = F("session__head_segment")
    messages = Message.objects.filter(pk__in=pks).only(*columns)
    return messages.annotate(has_times=F("session__has_times"), head_segment=head_segment)


def _query_calls(pks: list[int]) -> QuerySet[ToolCall]:
    columns = ("call_id", "tool", "issued_at", "idempotency_key", "step", "supersedes")
    return ToolCall.objects.filter(pk__in=pks).only(*columns).annotate(has_times=F("session__has_times"))


def _query_decisions(pks: list[int]) -> QuerySet[Decision]:
    decisions = Decision.objects.filter(pk__in=pks).only("actor", "created_at", "tool_call")
    return decisions.annotate(has_times=F("session__has_times"))


def _load_last_versions_of_old_segments(messages: Iterable[Message]) -> dict[int, int]:
    """Map messages outside of the current segment to the last version that ends in their segment."""
    segments = {
        message.segment_id: message.session_id
        for message in messages
        if message.segment_id != message.head_segment  # type: ignore[attr-defined]
    }
    if not segments:
        return {}
    return dict(_query_last_version_of_each_segment(sorted(set(segments.values())), list(segments)))


def _query_last_version_of_each_segment(sessions: list[int], segments: list[int]) -> QuerySet[Checkpoint, Any]:
    """Query the last version that ends in each segment."""
    checkpoints = Checkpoint.objects.filter(session__in=sessions, segment__in=segments)
    return checkpoints.values_list("segment_id").annotate(last=Max("version"))
