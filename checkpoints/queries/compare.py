"""Two versions side by side, of one session or of two, such as a fork and its origin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkpoints.models import Session
from checkpoints.queries import between, fieldwise, plans, prefixes, transcripts, versions, words
from checkpoints.queries.alignment import Added, Fold, Line, More, Removed, Said, Same, align, ends, joined, shortened
from checkpoints.queries.between import Between
from checkpoints.queries.fieldwise import Differences
from checkpoints.queries.plans import Change, StepChange
from checkpoints.queries.transcripts import StoredMessage
from checkpoints.queries.versions import Version
from checkpoints.queries.words import Piece

#: Where two versions part, so many messages of each are compared; pages say when there are more.
COMPARED = 2000
COMPARED_SIZE = 32_000_000
#: Unchanged messages that are shown at once where a fold is opened.
OPENED = 50


@dataclass(frozen=True, slots=True)
class Comparison:
    """What version `b` has that version `a` had not, and the other way round.

    `shared` messages at the start are the same and were not read. `rest_a` and `rest_b` count the messages behind the
    last compared one. `calls` were issued between the two, whichever is older. Of two sessions, `calls_a` and `calls`
    are those that the first and the second one issued since they parted, and `headlines` says how their titles, agents,
    labels and metadata differ.
    """

    a: Version
    b: Version
    shared: int
    lines: tuple[Line, ...]
    rest_a: int
    rest_b: int
    plan: tuple[StepChange, ...]
    plan_rest: tuple[Piece, ...]
    payload: Differences
    calls: Between
    calls_a: Between = field(default_factory=Between)
    headlines: Differences = field(default_factory=Differences)

    @property
    def added(self) -> int:
        return _count(self.lines, "added")

    @property
    def removed(self) -> int:
        return _count(self.lines, "removed")

    @property
    def edited(self) -> int:
        return sum(line.kind == "edited" for line in self.lines)

    @property
    def moved(self) -> int:
        return _count(self.lines, "moved")

    @property
    def unchanged(self) -> int:
        return sum(line.count for line in self.lines if isinstance(line, Fold)) + _count(self.lines, "same")

    @property
    def folded(self) -> int:
        return sum(line.count for line in self.lines if isinstance(line, Fold))

    @property
    def plan_changed(self) -> bool:
        return any(change.change is not Change.SAME for change in self.plan) or bool(self.plan_rest)


def _count(lines: Sequence[Line], kind: str) -> int:
    more = sum(line.count for line in lines if isinstance(line, More) and line.what == kind)
    return more + sum(line.kind == kind for line in lines)


def compare(
    session_pk: int, a: int, b: int, *, other: int | None = None, opened: Sequence[int] = ()
) -> Comparison | None:
    """Version `a` of a session with version `b` of it, or of the session `other`. None where one of the versions does
    not exist; `versions.one` says which. From each position of `opened` on, unchanged messages are read and shown."""
    other = session_pk if other is None else other
    old, new = versions.one(session_pk, a), versions.one(other, b)
    if old is None or new is None:
        return None
    shared = prefixes.common(old, new)
    lines, rest_a, rest_b = _parted(old, new, shared)
    calls_a, calls_b = _calls((session_pk, old), (other, new), shared)
    was, now = plans.text_of(old.plan), plans.text_of(new.plan)
    return Comparison(
        a=old,
        b=new,
        shared=shared,
        lines=tuple(_opened(shortened(joined([*_folded(shared), *lines])), new, opened)),
        rest_a=rest_a,
        rest_b=rest_b,
        plan=plans.compare(old.plan, new.plan),
        plan_rest=words.diff(was, now) if was != now else (),
        payload=fieldwise.compare(versions.payload(session_pk, a), versions.payload(other, b)),
        calls=calls_b,
        calls_a=calls_a,
        headlines=_headlines(session_pk, other),
    )


def _headlines(one: int, other: int) -> Differences:
    """What two sessions are called and by whom they are driven, their labels and metadata."""
    if one == other:
        return Differences()
    there = Session.objects.filter(pk__in=(one, other))
    found = {pk: _headline(*told) for pk, *told in there.values_list("pk", "title", "agent", "labels", "metadata")}
    return fieldwise.compare_values(found.get(one, {}), found.get(other, {}))


def _headline(title: str, agent: str, labels: str, metadata: str) -> dict[str, Any]:
    return {"title": title, "agent": agent, "labels": fieldwise.read(labels), "metadata": fieldwise.read(metadata)}


def _calls(one: tuple[int, Version], two: tuple[int, Version], shared: int) -> tuple[Between, Between]:
    """What each of two sessions issued since they parted; of one session, what was issued between, as the second."""
    (mine, old), (theirs, new) = one, two
    if mine == theirs:
        earlier, later = sorted((old.at, new.at))
        return Between(), between.read(mine, earlier, later)
    parted, since = versions.parted(mine, old, shared), versions.parted(theirs, new, shared)
    return between.read(mine, parted, old.at), between.read(theirs, since, new.at)


def _folded(shared: int) -> list[Line]:
    return [Fold(shared, 0)] if shared else []


def _parted(old: Version, new: Version, shared: int) -> tuple[Iterable[Line], int, int]:
    """What stands behind the shared messages, and how many of each version were not compared: all where they are too
    many characters."""
    if shared in {old.length, new.length}:
        return [*_only(old, shared, Removed), *_only(new, shared, Added)], 0, 0
    before, after = _said(old, shared), _said(new, shared)
    if before is None or after is None:
        before = after = []
    return align(before, after), old.length - shared - len(before), new.length - shared - len(after)


def _only(version: Version, first: int, kind: type[Added | Removed]) -> Iterator[Line]:
    """The messages of a version that goes on where the other one ends. There may be any number: only those are read
    that are not left out of a long stretch."""
    at = first
    for begin, end in ends(first, version.length):
        for message in transcripts.window(version.segment_id, begin, end, size=COMPARED_SIZE):
            line = kind(_read(message))
            if message.position > at:
                yield More(line.kind, message.position - at, at)
            yield line
            at = message.position + 1


def _said(version: Version, first: int) -> list[Said] | None:
    upto = min(version.length, first + COMPARED)
    stored = transcripts.window(version.segment_id, first, upto, size=COMPARED_SIZE)
    return [_read(message) for message in stored] if len(stored) == upto - first else None


def _read(message: StoredMessage) -> Said:
    return Said(message.position, message.message_id, message.role, message.created_at, message.body)


def _opened(lines: Iterable[Line], new: Version, positions: Sequence[int]) -> Iterator[Line]:
    for line in lines:
        if isinstance(line, Fold):
            yield from _unfolded(line, new, sorted(positions))
        else:
            yield line


def _unfolded(fold: Fold, new: Version, positions: Sequence[int]) -> Iterator[Line]:
    """A fold with the messages from each of `positions` in it on; what is not shown stays folded."""
    at, end = fold.position, fold.position + fold.count
    for position in positions:
        if not at - OPENED < position < end or position < fold.position:
            continue
        for message in transcripts.window(new.segment_id, max(at, position), min(position + OPENED, end)):
            if message.position > at:
                yield Fold(message.position - at, at)
            yield Same(_read(message))
            at = message.position + 1
    if at < end:
        yield Fold(end - at, at)
