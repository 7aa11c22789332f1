"""What changed inside a text, word by word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from itertools import accumulate
from typing import Literal

#: Words with the space before them, so that a changed word does not break the text around it.
_WORD = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
#: Longer texts, and texts that take too many steps, are compared by lines, or else as a whole.
_MOST = 3000
#: Steps of one comparison. Texts that have little in common but the words that repeat most would take billions.
_STEPS = 4_000_000
#: So many words decide how much two texts have in common.
_SAMPLE = 300
_SAMPLE_STEPS = 300_000


@dataclass(frozen=True, slots=True)
class Piece:
    change: Literal["same", "del", "ins"]
    text: str


class TooManySteps(Exception):
    """A comparison that is not worth its time."""


class BoundedMatcher(SequenceMatcher[str]):
    """A matcher that counts its steps: the pairs of equal items in every stretch that it searches for the longest
    common one. Raises `TooManySteps` beyond `steps`."""

    def __init__(self, old: Sequence[str], new: Sequence[str], steps: int) -> None:
        self.left, self.old = steps, old
        self._pairs: list[int] | None = None
        super().__init__(None, old, new, autojunk=False)

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        if self._pairs is None:
            counts = {item: len(places) for item, places in self.b2j.items()}  # type: ignore[attr-defined]
            self._pairs = [0, *accumulate(1 + counts.get(item, 0) for item in self.old)]
        self.left -= self._pairs[len(self.old) if ahi is None else ahi] - self._pairs[alo]
        if self.left < 0:
            raise TooManySteps
        return super().find_longest_match(alo, ahi, blo, bhi)


def diff(old: str, new: str) -> tuple[Piece, ...]:
    """The pieces of both texts in order. Without `ins` they are `old`, without `del` they are `new`."""
    for pattern in (_WORD, _LINE):
        before, after = pattern.findall(old), pattern.findall(new)
        if max(len(before), len(after)) <= _MOST:
            with suppress(TooManySteps):
                return _pieces(before, after)
    return _pieces([old], [new])


def _pieces(before: list[str], after: list[str]) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    for tag, i1, i2, j1, j2 in BoundedMatcher(before, after, _STEPS).get_opcodes():
        if tag == "equal":
            pieces.append(Piece("same", "".join(before[i1:i2])))
            continue
        if i1 < i2:
            pieces.append(Piece("del", "".join(before[i1:i2])))
        if j1 < j2:
            pieces.append(Piece("ins", "".join(after[j1:j2])))
    return tuple(pieces)


def likeness(old: str, new: str) -> float:
    """From 0 (nothing in common) to 1 (the same), judged by the beginnings of both."""
    before, after = _WORD.findall(old[: _SAMPLE * 8])[:_SAMPLE], _WORD.findall(new[: _SAMPLE * 8])[:_SAMPLE]
    matcher = BoundedMatcher(before, after, _SAMPLE_STEPS)
    with suppress(TooManySteps):
        return matcher.ratio() if matcher.quick_ratio() >= 0.5 else 0.0
    return 0.0
