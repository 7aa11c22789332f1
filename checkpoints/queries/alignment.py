"""Which messages of two transcripts stayed, went, came, moved or were edited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import groupby

from checkpoints.queries import blocks, words
from checkpoints.queries.blocks import Part
from checkpoints.queries.words import Piece

#: Edited messages are looked for among so many neighbours.
_NEAR = 8
_ALIKE = 0.5
#: Steps of aligning two transcripts.
_STEPS = 5_000_000
#: A longer stretch of messages that only came or only went is shortened to its beginning and its end.
_STRETCH, _HEAD, _TAIL = 30, 25, 4


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
class Left:
    """Where a message stood that stands elsewhere now."""

    old: Said
    new: Said
    kind: str = field(default="left", init=False)


@dataclass(frozen=True, slots=True)
class Moved:
    """A message that stood elsewhere before; `pieces` say what changed in it, and are empty where nothing did."""

    old: Said
    new: Said
    pieces: tuple[Piece, ...]
    kind: str = field(default="moved", init=False)


@dataclass(frozen=True, slots=True)
class Same:
    """An unchanged message of a fold that was opened."""

    message: Said
    kind: str = field(default="same", init=False)


@dataclass(frozen=True, slots=True)
class More:
    """`count` further messages of a long stretch that came or went, by itself or as part of a move; `what` is the kind
    of them, and `position` that of the first in the version it stands in."""

    what: str
    count: int
    position: int
    kind: str = field(default="more", init=False)


Line = Fold | Same | Added | Removed | Edited | Left | Moved | More


def align(old: Sequence[Said], new: Sequence[Said]) -> Iterator[Line]:
    """In reading order. A message that is gone in one place and stands in another one has moved."""
    codes = _codes([said.body for said in old], [said.body for said in new])
    gone = {said.body for tag, i1, i2, _, _ in codes if tag != "equal" for said in old[i1:i2]}
    came = {said.body for tag, _, _, j1, j2 in codes if tag != "equal" for said in new[j1:j2]}
    lines: list[Line] = []
    for tag, i1, i2, j1, j2 in codes:
        if tag == "equal":
            lines.append(Fold(j2 - j1, new[j1].position))
        else:
            lines += _edits(old[i1:i2], new[j1:j2], gone & came)
    return _moves(lines)


def _codes(old: list[str], new: list[str]) -> list[tuple[str, int, int, int, int]]:
    """How to make `new` of `old`. Where two transcripts repeat themselves so much that this would take minutes, what
    they begin and end with is kept and the rest replaced."""
    try:
        return list(words.BoundedMatcher(old, new, _STEPS).get_opcodes())
    except words.TooManySteps:
        return list(_ends_only(old, new))


def _ends_only(old: list[str], new: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    most = min(len(old), len(new))
    begin = next((index for index in range(most) if old[index] != new[index]), most)
    end = next((index for index in range(most - begin) if old[-1 - index] != new[-1 - index]), most - begin)
    if begin:
        yield "equal", 0, begin, 0, begin
    yield "replace", begin, len(old) - end, begin, len(new) - end
    if end:
        yield "equal", len(old) - end, len(old), len(new) - end, len(new)


def _edits(old: Sequence[Said], new: Sequence[Said], elsewhere: set[str]) -> Iterator[Line]:
    """`elsewhere` are the bodies that went in one place and came in another: none of them is an edited other one."""
    start = 0
    for said in old:
        near = [other for other in new[start : start + _NEAR] if other.body not in elsewhere]
        found = None if said.body in elsewhere else _match(said, near)
        if found is None:
            yield Removed(said)
            continue
        match = new.index(near[found], start)
        yield from map(Added, new[start:match])
        yield Edited(said, new[match], words.diff(said.text, new[match].text))
        start = match + 1
    yield from map(Added, new[start:])


def _moves(lines: Sequence[Line]) -> Iterator[Line]:
    """What went and came again: the same body, or the same message by its id."""
    gone = [line.message for line in lines if isinstance(line, Removed)]
    came = [line.message for line in lines if isinstance(line, Added)]
    pairs = _pairs(gone, came, lambda said: said.body)
    there, here = {old.position for old, _ in pairs}, {new.position for _, new in pairs}
    pairs += _pairs(
        [said for said in gone if said.position not in there],
        [said for said in came if said.position not in here],
        lambda said: said.message_id,
    )
    to, origin = {old.position: new for old, new in pairs}, {new.position: old for old, new in pairs}
    for line in lines:
        if isinstance(line, Removed) and line.message.position in to:
            yield Left(line.message, to[line.message.position])
        elif isinstance(line, Added) and line.message.position in origin:
            yield _moved(origin[line.message.position], line.message)
        else:
            yield line


def _pairs(gone: Sequence[Said], came: Sequence[Said], key: Callable[[Said], str]) -> list[tuple[Said, Said]]:
    """Those of both with the same key, in order; an empty key is none."""
    waiting: defaultdict[str, list[Said]] = defaultdict(list)
    for said in reversed(gone):
        waiting[key(said)].append(said)
    return [(waiting[key(said)].pop(), said) for said in came if key(said) and waiting[key(said)]]


def _moved(old: Said, new: Said) -> Moved:
    return Moved(old, new, () if old.body == new.body else words.diff(old.text, new.text))


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


def ends(first: int, upto: int) -> list[tuple[int, int]]:
    """What is shown of the stretch from `first` to `upto` (exclusive): all of it, or its beginning and its end."""
    if upto - first <= _STRETCH:
        return [(first, upto)] if upto > first else []
    return [(first, first + _HEAD), (upto - _TAIL, upto)]


def shortened(lines: Iterable[Line]) -> Iterator[Line]:
    """Of a long stretch that only came or only went, the beginning and the end."""
    for kind, group in groupby(lines, key=lambda line: line.kind):
        stretch = list(group)
        if kind not in {"added", "removed", "moved", "left"} or len(stretch) <= _STRETCH:
            yield from stretch
            continue
        (_, head), (tail, _) = ends(0, len(stretch))
        yield from stretch[:head]
        yield More(kind, tail - head, _place(stretch[head]))
        yield from stretch[tail:]


def _place(line: Line) -> int:
    """The position of a line in the version it stands in."""
    match line:
        case Left(old=said) | Moved(new=said) | Edited(new=said):
            return said.position
        case Added(message=said) | Removed(message=said) | Same(message=said):
            return said.position
        case _:
            return line.position


def joined(lines: Sequence[Line]) -> Iterator[Line]:
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
