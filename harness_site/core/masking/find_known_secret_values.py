"""Values that were given under a secret name, searched in all other text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from harness_site.core.linear_regex import LinearPattern, compile_pattern, escape_pattern
from harness_site.core.masking.secret_shapes import Span

#: Shorter values occur in too much unrelated text.
SHORTEST: Final = 4
#: Minimum characters of a value before the ellipsis that truncates it.
_CUT_OFF: Final = 6
_ELLIPSES: Final = ("…", "...")
#: Placeholder words, which are not secret under any name.
_SAYING_NOTHING: Final = frozenset(
    {"true", "false", "none", "null", "undefined", "required", "optional", "string", "‹masked›", "****", "redacted"}
)
#: Maximum number of values; each takes one scan of every displayed text.
MAX_KNOWN_VALUES: Final = 200
#: Longer values are searched by their beginning, as preparing a search takes time in proportion to its length.
_HEAD: Final = 64
#: Steps beside one for each character of the text, and maximum of all.
_STEPS: Final = 1_000
_MOST_STEPS: Final = 300_000


def iterate_maskable_texts_of_value(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in the value of a secret field, as text."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from iterate_maskable_texts_of_value(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from iterate_maskable_texts_of_value(inner)
    elif isinstance(value, str):
        if value.strip() and value.strip().lower() not in _SAYING_NOTHING:
            yield value.strip()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


@dataclass(frozen=True)
class KnownValues:
    """Secret values for searches: the `MAX_KNOWN_VALUES` longest, and a pattern of their beginnings."""

    values: tuple[str, ...]

    @classmethod
    def build_from_longest_values(cls, values: Iterable[str]) -> KnownValues:
        searched = (value for value in values if len(value) >= SHORTEST)
        return cls(tuple(sorted(searched, key=lambda value: (-len(value), value))[:MAX_KNOWN_VALUES]))

    @cached_property
    def longest_value_length(self) -> int:
        """The length of the longest value."""
        return len(self.values[0]) if self.values else 0

    @cached_property
    def _beginnings_pattern(self) -> LinearPattern:
        return compile_pattern("|".join(sorted({escape_pattern(value[:_CUT_OFF]) for value in self.values})))

    def find_spans(self, text: str) -> Iterator[Span]:
        """Yield the spans where one of the values occurs as a whole word, also if its end is truncated.

        The work is bounded: a text that repeats the beginning of a value extremely often is treated as secret as a
        whole.
        """
        if not self.values or self._beginnings_pattern.search(text) is None:
            return
        cut_off = any(mark in text for mark in _ELLIPSES)
        search = _Search(text)
        for value in self.values:
            yield from search.find_whole_word_occurrences(value)
            if cut_off and len(value) > _CUT_OFF:
                yield from search.find_truncated_occurrences(value)
            if search.steps_left < 0:
                yield 0, len(text)
                return


def contains_short_secret_value(text: str, values: Iterable[str]) -> bool:
    """Return whether a text contains one of the values that are too short to be searched everywhere."""
    return any(
        True for value in values if len(value) < SHORTEST for _ in _Search(text).find_whole_word_occurrences(value)
    )


class _Search:
    """Searches in one text with a shared budget of steps."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.steps_left = min(_STEPS + len(text), _MOST_STEPS)

    def find_whole_word_occurrences(self, value: str) -> Iterator[Span]:
        """Yield the spans where `value` occurs as a whole word."""
        head, text = value[:_HEAD], self.text
        at = text.find(head)
        while at >= 0 and self.steps_left >= 0:
            # Comparing a long value costs one step for each thousand characters.
            self.steps_left -= 1 + len(value) // 1_000
            end = at + len(value)
            if text.startswith(value, at) and _is_word_boundary(text, at) and _is_word_boundary(text, end):
                yield at, end
                at = text.find(head, end)
            else:
                at = text.find(head, at + 1)

    def find_truncated_occurrences(self, value: str) -> Iterator[Span]:
        """Yield the spans where the beginning of `value` precedes an ellipsis."""
        head, text = value[:_CUT_OFF], self.text
        at = text.find(head)
        while at >= 0 and self.steps_left >= 0:
            end = at + _CUT_OFF
            limit = at + len(value)
            while end < limit and text[end : end + 1] == value[end - at]:
                end += 1
            self.steps_left -= end - at - _CUT_OFF + 1
            if _is_word_boundary(text, at) and text.startswith(_ELLIPSES, end):
                yield at, end
            at = text.find(head, end)


def _is_word_boundary(text: str, at: int) -> bool:
    """Return whether no word extends across this position."""
    return at == 0 or at == len(text) or not (_is_word_character(text[at - 1]) and _is_word_character(text[at]))


def _is_word_character(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
