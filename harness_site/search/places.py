"""The places of a page of hits: which message, which call, and what stands around the words."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from django.db.models import Max, QuerySet

from checkpoints.models import Checkpoint, Decision, Message, Session, ToolCall
from harness_site.search.models import Kind, Passage
from harness_site.search.words import Query

#: Characters before the first word that was found, and altogether.
_BEFORE: Final = 60
_LENGTH: Final = 240

Row = TypeVar("Row", Message, ToolCall, Decision)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a text, and whether it is what was looked for."""

    text: str
    marked: bool


@dataclass(frozen=True, slots=True)
class Place:
    """One hit. `source` is the key of the message, or of the call, also where a decision about it was found. `version`
    is the one to open, where the newest does not show the message any more."""

    passage: int
    kind: str
    session: int
    source: int
    position: int | None
    version: int | None
    who: str
    at: datetime | None
    stretches: tuple[Stretch, ...]


def places(passages: Sequence[Passage], query: Query) -> dict[int, list[Place]]:
    """The places by session, both in the order of the passages. What is gone from the store is left out."""
    found: defaultdict[int, list[Place]] = defaultdict(list)
    messages = _found(_messages, passages, Kind.MESSAGE)
    calls = _found(_calls, passages, Kind.CALL)
    decisions = _found(_decisions, passages, Kind.DECISION)
    versions = _versions(messages.values())
    seen: set[tuple[str, int]] = set()
    for passage in passages:
        message = messages.get(passage.source) if passage.kind == Kind.MESSAGE else None
        call = calls.get(passage.source) if passage.kind == Kind.CALL else None
        decision = decisions.get(passage.source) if passage.kind == Kind.DECISION else None
        row = message or call or decision
        if (row is None and passage.kind != Kind.SESSION) or (passage.kind, passage.source) in seen:
            continue
        seen.add((passage.kind, passage.source))
        found[passage.session_id].append(
            Place(
                passage=passage.pk,
                kind=passage.kind,
                session=passage.session_id,
                source=decision.tool_call_id if decision else passage.source,
                position=passage.position,
                version=None if message is None else versions.get(message.segment_id),
                who=_who(row),
                at=_at(row),
                stretches=stretches(_without_id(passage, row, query), query.pattern),
            )
        )
    return dict(found)


def _without_id(passage: Passage, row: Message | ToolCall | Decision | None, query: Query) -> str:
    """A message and a call begin with their id, which says nothing where it is not what was looked for."""
    name = row.message_id if isinstance(row, Message) else row.call_id if isinstance(row, ToolCall) else ""
    told = passage.text.removeprefix(f"{name}\n")
    return told if name and query.pattern.search(told) else passage.text


def stretches(text: str, pattern: re.Pattern[str]) -> tuple[Stretch, ...]:
    """What stands around the first hit in `text`, with everything marked that is one."""
    first = pattern.search(text)
    start = max(0, first.start() - _BEFORE) if first else 0
    end = max(start + _LENGTH, first.end() if first else 0)
    parts = [Stretch("… ", False)] if start else []
    at = start
    for match in pattern.finditer(text, start, min(end, len(text))):
        parts += [Stretch(text[at : match.start()], False), Stretch(match.group(), True)]
        at = match.end()
    parts.append(Stretch(text[at:end] + (" …" if end < len(text) else ""), False))
    return tuple(part for part in parts if part.text)


def _who(row: Message | ToolCall | Decision | None) -> str:
    if isinstance(row, Message):
        return row.role
    if isinstance(row, ToolCall):
        return row.tool
    return row.actor if row else ""


def _at(row: Message | ToolCall | Decision | None) -> datetime | None:
    if isinstance(row, ToolCall):
        return row.issued_at
    return row.created_at if row else None


def _found(rows: Callable[[list[int]], QuerySet[Row]], passages: Iterable[Passage], kind: Kind) -> dict[int, Row]:
    """What these passages of a kind were read from, by key."""
    sources = [passage.source for passage in passages if passage.kind == kind]
    return {row.pk: row for row in rows(sources)} if sources else {}


def _messages(pks: list[int]) -> QuerySet[Message]:
    return Message.objects.filter(pk__in=pks).defer("body", "chain")


def _calls(pks: list[int]) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(pk__in=pks).only("call_id", "tool", "issued_at")


def _decisions(pks: list[int]) -> QuerySet[Decision]:
    return Decision.objects.filter(pk__in=pks).only("actor", "created_at", "tool_call")


def _versions(messages: Iterable[Message]) -> dict[int, int]:
    """For messages outside the head's own segment, the last version that ends in theirs."""
    segments = {message.segment_id: message.session_id for message in messages}
    heads = set(_heads(sorted(set(segments.values())))) if segments else set()
    beside = [segment for segment in segments if segment not in heads]
    if not beside:
        return {}
    return dict(_last(sorted({segments[segment] for segment in beside}), beside))


def _heads(sessions: list[int]) -> QuerySet[Session, int | None]:
    return Session.objects.filter(pk__in=sessions).values_list("head_segment_id", flat=True)


def _last(sessions: list[int], segments: list[int]) -> QuerySet[Checkpoint, Any]:
    """Segment, and the last version that ends in it."""
    found = Checkpoint.objects.filter(session__in=sessions, segment__in=segments)
    return found.values_list("segment_id").annotate(last=Max("version"))
