"""How two JSON values differ, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from checkpoints.queries.plans import Change
from checkpoints.serde import canonical, parse_or_text

#: So many differences are told; the others are counted.
TOLD = 500
#: Values that are nested deeper are compared as a whole.
_DEEP = 12


@dataclass(frozen=True, slots=True)
class FieldChange:
    """What became of the field at `path` (names of objects, and numbers of lists from 1). `old` is None for an added
    field, `new` for a removed one."""

    path: tuple[str | int, ...]
    change: Change
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Differences:
    """The first differences in the order of their fields, and how many there are."""

    told: tuple[FieldChange, ...] = ()
    total: int = 0

    def __bool__(self) -> bool:
        return self.total > 0

    @property
    def rest(self) -> int:
        return self.total - len(self.told)


def compare(old: str | None, new: str | None) -> Differences:
    """How two texts of canonical JSON differ; None stands for no value. One that cannot be read is a text."""
    if old == new:
        return Differences()
    found = _whole(old, new)
    told = tuple(islice(found, TOLD))
    return Differences(told, len(told) + sum(1 for _ in found))


def compare_values(old: Any, new: Any) -> Differences:
    """How two JSON values differ."""
    found = _differences(old, new, ())
    told = tuple(islice(found, TOLD))
    return Differences(told, len(told) + sum(1 for _ in found))


def _whole(old: str | None, new: str | None) -> Iterator[FieldChange]:
    if old is None or new is None:
        change = Change.ADDED if old is None else Change.REMOVED
        yield FieldChange((), change, read(old), read(new))
    else:
        yield from _differences(read(old), read(new), ())


def read(stored: str | None) -> Any:
    """Stored JSON text as a value; a damaged one as the text it is."""
    return None if stored is None else parse_or_text(stored)


def _differences(old: Any, new: Any, path: tuple[str | int, ...]) -> Iterator[FieldChange]:
    if len(path) < _DEEP and isinstance(old, dict) and isinstance(new, dict):
        yield from _objects(old, new, path)
    elif len(path) < _DEEP and isinstance(old, list) and isinstance(new, list):
        yield from _lists(old, new, path)
    elif not _same(old, new):
        yield FieldChange(path, Change.CHANGED, old, new)


def _objects(old: dict[str, Any], new: dict[str, Any], path: tuple[str | int, ...]) -> Iterator[FieldChange]:
    for name in sorted({*old, *new}):
        if name not in new:
            yield FieldChange((*path, name), Change.REMOVED, old[name], None)
        elif name not in old:
            yield FieldChange((*path, name), Change.ADDED, None, new[name])
        else:
            yield from _differences(old[name], new[name], (*path, name))


def _lists(old: list[Any], new: list[Any], path: tuple[str | int, ...]) -> Iterator[FieldChange]:
    """Item by item between what both begin and what both end with."""
    shorter = min(len(old), len(new))
    begin = next((index for index in range(shorter) if not _same(old[index], new[index])), shorter)
    end = next(
        (index for index in range(shorter - begin) if not _same(old[-1 - index], new[-1 - index])), shorter - begin
    )
    went, came = old[begin : len(old) - end], new[begin : len(new) - end]
    for index in range(max(len(went), len(came))):
        place = (*path, begin + index + 1)
        if index >= len(came):
            yield FieldChange(place, Change.REMOVED, went[index], None)
        elif index >= len(went):
            yield FieldChange(place, Change.ADDED, None, came[index])
        else:
            yield from _differences(went[index], came[index], place)


def _same(old: Any, new: Any) -> bool:
    """By their text: 1 is neither true nor 1.0."""
    return canonical(old) == canonical(new)
