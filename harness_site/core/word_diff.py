"""Differences of two texts, word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from itertools import accumulate
from typing import Literal

#: A word with the space before it, so that a changed word does not split the text around it.
_WORD = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
#: Longer texts, and texts that take too many steps, are compared by line, or else as a whole.
_MAX_WORD_DIFF = 3000
#: Maximum steps of one comparison. Texts that share only their most frequent words would take billions.
_STEPS = 4_000_000
#: Number of words that the similarity of two texts is computed from.
_SAMPLE = 300
_SAMPLE_STEPS = 300_000
#: Steps that splitting a text into words takes for each word.
_STEPS_PER_WORD = 10


@dataclass(frozen=True, slots=True)
class DiffPiece:
    change: Literal["same", "del", "ins"]
    text: str

    @property
    def space_before_mark(self) -> str:
        """Space before the first word. It stays outside of the mark, which would be seen at the end of a line."""
        return self.text[: len(self.text) - len(self.marked_text)]

    @property
    def marked_text(self) -> str:
        """Text without the space before its first word; all of it if it is nothing but space."""
        return self.text.lstrip(" \t\n") or self.text


@dataclass(slots=True)
class StepBudget:
    """Steps that several comparisons may take together; without any left, texts are compared as a whole."""

    left: int


class TooManySteps(Exception):
    """Raised if a comparison exceeds its maximum number of steps."""


class BoundedMatcher(SequenceMatcher[str]):
    """Sequence matcher that counts its steps: the pairs of equal items in each searched range.

    Raises `TooManySteps` beyond `steps`.
    """

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


def compute_word_diff(old: str, new: str, budget: StepBudget | None = None) -> tuple[DiffPiece, ...]:
    """Return the pieces of both texts in order.

    Without the `ins` pieces they form `old`, without the `del` pieces `new`.
    """
    budget = budget or StepBudget(2 * _STEPS)
    for pattern in (_WORD, _LINE) if budget.left > 0 else ():
        before, after = pattern.findall(old), pattern.findall(new)
        if max(len(before), len(after)) <= _MAX_WORD_DIFF:
            with suppress(TooManySteps):
                return _build_diff_pieces(before, after, budget)
    return _build_diff_pieces([old], [new], StepBudget(_STEPS))


def _build_diff_pieces(before: list[str], after: list[str], budget: StepBudget) -> tuple[DiffPiece, ...]:
    pieces: list[DiffPiece] = []
    with _build_matcher_and_charge_budget(before, after, _STEPS, budget) as matcher:
        codes = matcher.get_opcodes()
    for tag, i1, i2, j1, j2 in codes:
        if tag == "equal":
            pieces.append(DiffPiece("same", "".join(before[i1:i2])))
            continue
        if i1 < i2:
            pieces.append(DiffPiece("del", "".join(before[i1:i2])))
        if j1 < j2:
            pieces.append(DiffPiece("ins", "".join(after[j1:j2])))
    return tuple(pieces)


@contextmanager
def _build_matcher_and_charge_budget(
    before: Sequence[str], after: Sequence[str], limit: int, budget: StepBudget
) -> Iterator[BoundedMatcher]:
    """Subtract the steps of a matcher from the budget, which they cannot exceed."""
    steps = max(0, min(limit, budget.left))
    matcher = BoundedMatcher(before, after, steps)
    try:
        yield matcher
    finally:
        budget.left -= steps - max(0, matcher.left)


def compute_similarity_of_beginnings(old: str, new: str, budget: StepBudget | None = None) -> float:
    """Return the similarity of the beginnings of two texts, from 0 (nothing in common, or no step left) to 1."""
    budget = budget or StepBudget(2 * _SAMPLE_STEPS)
    if budget.left <= 0:
        return 0.0
    before, after = _WORD.findall(old[: _SAMPLE * 8])[:_SAMPLE], _WORD.findall(new[: _SAMPLE * 8])[:_SAMPLE]
    budget.left -= _STEPS_PER_WORD * (len(before) + len(after))
    with suppress(TooManySteps), _build_matcher_and_charge_budget(before, after, _SAMPLE_STEPS, budget) as matcher:
        return matcher.ratio() if matcher.quick_ratio() >= 0.5 else 0.0
    return 0.0
