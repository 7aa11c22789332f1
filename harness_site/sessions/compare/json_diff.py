"""Differences of two JSON values, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from checkpoints.formats import to_canonical_json
from harness_site.core.masked_formatting import parse_json_or_text
from harness_site.sessions.plan_steps_and_changes import StepChangeKind

#: Maximum number of differences listed; the others are counted.
MAX_LISTED_CHANGES = 500
#: Maximum depth; deeper values are compared as a whole.
_MAX_DEPTH = 12


@dataclass(frozen=True, slots=True)
class FieldChange:
    """Change of the field at `path` (object keys, and list indexes from 1).

    `old` is None for an added field, `new` for a removed one.
    """

    path: tuple[str | int, ...]
    change: StepChangeKind
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Differences:
    """The first differences in the order of the fields, and the number of all."""

    changes: tuple[FieldChange, ...] = ()
    total: int = 0

    def __bool__(self) -> bool:
        return self.total > 0

    @property
    def unlisted_count(self) -> int:
        return self.total - len(self.changes)


def compare_json_texts(old: str | None, new: str | None) -> Differences:
    """Compare two canonical JSON texts; None stands for no value. Invalid JSON is compared as text."""
    if old == new:
        return Differences()
    changes = _iterate_json_text_changes(old, new)
    first_changes = tuple(islice(changes, MAX_LISTED_CHANGES))
    return Differences(first_changes, len(first_changes) + sum(1 for _ in changes))


def compare_json_values(old: Any, new: Any) -> Differences:
    """Compare two JSON values."""
    changes = _iterate_value_changes(old, new, ())
    first_changes = tuple(islice(changes, MAX_LISTED_CHANGES))
    return Differences(first_changes, len(first_changes) + sum(1 for _ in changes))


def _iterate_json_text_changes(old: str | None, new: str | None) -> Iterator[FieldChange]:
    if old is None or new is None:
        change = StepChangeKind.ADDED if old is None else StepChangeKind.REMOVED
        yield FieldChange((), change, parse_json_or_text(old), parse_json_or_text(new))
    else:
        yield from _iterate_value_changes(parse_json_or_text(old), parse_json_or_text(new), ())


def _iterate_value_changes(old: Any, new: Any, path: tuple[str | int, ...]) -> Iterator[FieldChange]:
    if len(path) < _MAX_DEPTH and isinstance(old, dict) and isinstance(new, dict):
        yield from _iterate_object_changes(old, new, path)
    elif len(path) < _MAX_DEPTH and isinstance(old, list) and isinstance(new, list):
        yield from _iterate_list_changes(old, new, path)
    elif not _are_equal_values(old, new):
        yield FieldChange(path, StepChangeKind.CHANGED, old, new)


def _iterate_object_changes(
    old: dict[str, Any], new: dict[str, Any], path: tuple[str | int, ...]
) -> Iterator[FieldChange]:
    for name in sorted({*old, *new}):
        if name not in new:
            yield FieldChange((*path, name), StepChangeKind.REMOVED, old[name], None)
        elif name not in old:
            yield FieldChange((*path, name), StepChangeKind.ADDED, None, new[name])
        else:
            yield from _iterate_value_changes(old[name], new[name], (*path, name))


def _iterate_list_changes(old: list[Any], new: list[Any], path: tuple[str | int, ...]) -> Iterator[FieldChange]:
    """Compare item by item between the common beginning and the common end."""
    shorter = min(len(old), len(new))
    begin = next((index for index in range(shorter) if not _are_equal_values(old[index], new[index])), shorter)
    end = next(
        (index for index in range(shorter - begin) if not _are_equal_values(old[-1 - index], new[-1 - index])),
        shorter - begin,
    )
    removed, added = old[begin : len(old) - end], new[begin : len(new) - end]
    for index in range(max(len(removed), len(added))):
        place = (*path, begin + index + 1)
        if index >= len(added):
            yield FieldChange(place, StepChangeKind.REMOVED, removed[index], None)
        elif index >= len(removed):
            yield FieldChange(place, StepChangeKind.ADDED, None, added[index])
        else:
            yield from _iterate_value_changes(removed[index], added[index], place)


def _are_equal_values(old: Any, new: Any) -> bool:
    """Compare the JSON texts, so that 1 equals neither true nor 1.0."""
    return to_canonical_json(old) == to_canonical_json(new)
