"""Two versions side by side, of one session or of two, such as a fork and its origin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import SequenceMatcher
from functools import cached_property
from itertools import groupby

from checkpoints.queries import blocks, calls, plans, prefixes, transcripts, versions, words
from checkpoints.queries.blocks import Part
from checkpoints.queries.calls import CallRecord
from checkpoints.queries.plans import Change, StepChange
from checkpoints.queries.transcripts import StoredMessage
from checkpoints.queries.versions import Version
from checkpoints.queries.words import Piece

#: Where two versions part, so many messages of each are compared; pages say when there are more.
COMPARED = 2000
COMPARED_SIZE = 32_000_000
#: Edited messages are looked for among so many neighbours.
_NEAR = 8
_ALIKE = 0.5
#: A longer stretch of messages that only came or only went is shortened to its beginning and its end.
_STRETCH = 30


@dataclass(frozen=True)
class Said:
    """One message of one of the two versions. What it says is read when it is asked for."""

    position: int
    message_id: str
    role: str
    at: datetime
    body: str

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return blocks.read(self.body)

    @property
    def text(self) -> str:
        return blocks.plain(self.parts)


@dataclass(frozen=True, slots=True)
class Fold:
    """`count` messages that both versions have, from `position` of the second one on."""

    count: int
    position: int
    kind: str = field(default="fold", init=False)


@dataclass(frozen=True, slots=True)
class Added:
    message: Said
    kind: str = field(default="added", init=False)


@dataclass(frozen=True, slots=True)
class Removed:
    message: Said
    kind: str = field(default="removed", init=False)


@dataclass(frozen=True, slots=True)
class Edited:
    old: Said
    new: Said
    pieces: tuple[Piece, ...]
    kind: str = field(default="edited", init=False)


@dataclass(frozen=True, slots=True)
class More:
    """`count` further messages of a long stretch that came (`what` is added) or went (removed), from `position` on."""

    what: str
    count: int
    position: int
    kind: str = field(default="more", init=False)


Line = Fold | Added | Removed | Edited | More


@dataclass(frozen=True, slots=True)
class Comparison:
    """What version `b` has that version `a` had not, and the other way round.

    `shared` messages at the start are the same and were not read. `rest_a` and `rest_b` count the messages behind the
    last compared one. `calls` were issued between the two, whichever is older. Of two sessions, `calls_a` and `calls`
    are those that the first and the second one issued since they parted.
    """

    a: Version
    b: Version
    shared: int
    lines: tuple[Line, ...]
    rest_a: int
    rest_b: int
    plan: tuple[StepChange, ...]
    plan_rest: tuple[Piece, ...]
    calls: tuple[CallRecord, ...]
    calls_a: tuple[CallRecord, ...] = ()

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
    def unchanged(self) -> int:
        return sum(line.count for line in self.lines if isinstance(line, Fold))

    @property
    def plan_changed(self) -> bool:
        return any(change.change is not Change.SAME for change in self.plan) or bool(self.plan_rest)


def _count(lines: Sequence[Line], kind: str) -> int:
    more = sum(line.count for line in lines if isinstance(line, More) and line.what == kind)
    return more + sum(line.kind == kind for line in lines)


def compare(session_pk: int, a: int, b: int, *, other: int | None = None) -> Comparison | None:
    """Version `a` of a session with version `b` of it, or of the session `other`. None where one of the versions does
    not exist; `versions.one` says which."""
    other = session_pk if other is None else other
    old, new = versions.one(session_pk, a), versions.one(other, b)
    if old is None or new is None:
        return None
    shared = prefixes.common(old, new)
    before, after = _parted(old, new, shared)
    lines = [Fold(shared, 0)] if shared else []
    calls_a, calls_b = _calls((session_pk, old), (other, new), shared)
    was, now = plans.text_of(old.plan), plans.text_of(new.plan)
    return Comparison(
        a=old,
        b=new,
        shared=shared,
        lines=tuple(_shortened(_joined([*lines, *align(before, after)]))),
        rest_a=old.length - shared - len(before),
        rest_b=new.length - shared - len(after),
        plan=plans.compare(old.plan, new.plan),
        plan_rest=words.diff(was, now) if was != now else (),
        calls=calls_b,
        calls_a=calls_a,
    )


def _calls(
    one: tuple[int, Version], two: tuple[int, Version], shared: int
) -> tuple[tuple[CallRecord, ...], tuple[CallRecord, ...]]:
    """What each of two sessions issued since they parted; of one session, what was issued between, as the second."""
    (mine, old), (theirs, new) = one, two
    if mine == theirs:
        earlier, later = sorted((old.at, new.at))
        return (), calls.between(mine, earlier, later)
    parted, since = versions.parted(mine, old, shared), versions.parted(theirs, new, shared)
    return calls.between(mine, parted, old.at), calls.between(theirs, since, new.at)


def _parted(old: Version, new: Version, first: int) -> tuple[list[Said], list[Said]]:
    """The messages of both behind the shared ones; none of either where they are too many characters to compare."""
    before, after = _said(old, first), _said(new, first)
    return ([], []) if before is None or after is None else (before, after)


def _said(version: Version, first: int) -> list[Said] | None:
    upto = min(version.length, first + COMPARED)
    if first >= upto:
        return []
    stored = transcripts.window(version.segment_id, first, upto, size=COMPARED_SIZE)
    return [_read(message) for message in stored] if len(stored) == upto - first else None


def _read(message: StoredMessage) -> Said:
    return Said(message.position, message.message_id, message.role, message.created_at, message.body)


def align(old: Sequence[Said], new: Sequence[Said]) -> Iterator[Line]:
    """Which messages stayed, went, came or were edited, in reading order."""
    matcher = SequenceMatcher(None, [said.body for said in old], [said.body for said in new], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            yield Fold(j2 - j1, new[j1].position)
        else:
            yield from _edits(old[i1:i2], new[j1:j2])


def _edits(old: Sequence[Said], new: Sequence[Said]) -> Iterator[Line]:
    start = 0
    for said in old:
        found = _match(said, new[start : start + _NEAR])
        if found is None:
            yield Removed(said)
            continue
        yield from map(Added, new[start : start + found])
        start += found
        yield Edited(said, new[start], words.diff(said.text, new[start].text))
        start += 1
    yield from map(Added, new[start:])


def _match(said: Said, near: Sequence[Said]) -> int | None:
    """The neighbour that is an edited `said`: the one with its id, otherwise the one that is most like it."""
    for index, other in enumerate(near):
        if said.message_id and said.message_id == other.message_id:
            return index
    likeness = [_likeness(said, other) for other in near]
    best = max(likeness, default=0.0)
    return likeness.index(best) if best >= _ALIKE else None


def _likeness(said: Said, other: Said) -> float:
    if said.role != other.role or (said.message_id and other.message_id):
        return 0.0
    return words.likeness(said.text, other.text)


def _shortened(lines: Iterable[Line]) -> Iterator[Line]:
    """Of a long stretch that only came or only went, the beginning and the end."""
    for kind, group in groupby(lines, key=lambda line: line.kind):
        stretch = list(group)
        if kind not in {"added", "removed"} or len(stretch) <= _STRETCH:
            yield from stretch
            continue
        head, rest, tail = stretch[: _STRETCH - 5], stretch[_STRETCH - 5 : -4], stretch[-4:]
        yield from head
        if isinstance(rest[0], Added | Removed):
            yield More(kind, len(rest), rest[0].message.position)
        yield from tail


def _joined(lines: Sequence[Line]) -> Iterator[Line]:
    """Folds that follow each other are one."""
    open_fold: Fold | None = None
    for line in lines:
        if isinstance(line, Fold):
            open_fold = Fold(open_fold.count + line.count, open_fold.position) if open_fold else line
            continue
        if open_fold:
            yield open_fold
            open_fold = None
        yield line
    if open_fold:
        yield open_fold
