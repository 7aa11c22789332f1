"""Texts that are secret because they were given under a secret name, wherever else they stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from harness_site.rendering.secret_shapes import Span

#: Shorter ones stand in too much that has nothing to do with them.
SHORTEST: Final = 4
#: So many characters of a longer one tell it where it was cut off.
_CUT_OFF: Final = 6
_ELLIPSES: Final = ("…", "...")
#: Words that say nothing, whatever they are given for.
_SAYING_NOTHING: Final = frozenset(
    {"true", "false", "none", "null", "undefined", "required", "optional", "string", "‹masked›", "****", "redacted"}
)
#: Nobody gives more secrets at once; each takes a look through all that is shown.
MOST: Final = 200
#: A longer value is looked for by its beginning: preparing a search takes as long as what is searched for.
_HEAD: Final = 64
#: Steps in a text beside one for each of its characters, and how many they are at the most.
_STEPS: Final = 1_000
_MOST_STEPS: Final = 300_000


def texts_of(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in the value of a secret field, as a text would say them."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from texts_of(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts_of(inner)
    elif isinstance(value, str):
        if value.strip() and value.strip().lower() not in _SAYING_NOTHING:
            yield value.strip()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def find_known_values(text: str, values: Iterable[str]) -> Iterator[Span]:
    """Yield where one of `values` stands in `text` as a word of its own, also where its end was cut off.

    The work is bounded: the longest `MOST` values are looked for, and a text that begins one of them again and again,
    at more places than a text without such a purpose can, is secret as a whole.
    """
    wanted = [value for value in values if len(value) >= SHORTEST]
    if len(wanted) > MOST:
        wanted = sorted(wanted, key=lambda value: (-len(value), value))[:MOST]
    cut_off = any(mark in text for mark in _ELLIPSES)
    search = _Search(text)
    for value in wanted:
        yield from search.find(value)
        if cut_off and len(value) > _CUT_OFF:
            yield from search.find_cut_off(value)
        if search.steps_left < 0:
            yield 0, len(text)
            return


def holds_short_value(text: str, values: Iterable[str]) -> bool:
    """Whether `text` says one of those values that are too short to be looked for everywhere."""
    return any(True for value in values if len(value) < SHORTEST for _ in _Search(text).find(value))


class _Search:
    """Searches in one text, with a budget of steps for all of them together."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.steps_left = min(_STEPS + len(text), _MOST_STEPS)

    def find(self, value: str) -> Iterator[Span]:
        """Yield where `value` stands as a word of its own."""
        head, text = value[:_HEAD], self.text
        at = text.find(head)
        while at >= 0 and self.steps_left >= 0:
            # Comparing a long value takes as long as a step for each thousand characters of it.
            self.steps_left -= 1 + len(value) // 1_000
            end = at + len(value)
            if text.startswith(value, at) and _is_border(text, at) and _is_border(text, end):
                yield at, end
                at = text.find(head, end)
            else:
                at = text.find(head, at + 1)

    def find_cut_off(self, value: str) -> Iterator[Span]:
        """Yield where the beginning of `value` stands before an ellipsis."""
        head, text = value[:_CUT_OFF], self.text
        at = text.find(head)
        while at >= 0 and self.steps_left >= 0:
            end = at + _CUT_OFF
            limit = at + len(value)
            while end < limit and text[end : end + 1] == value[end - at]:
                end += 1
            self.steps_left -= end - at - _CUT_OFF + 1
            if _is_border(text, at) and text.startswith(_ELLIPSES, end):
                yield at, end
            at = text.find(head, end)


def _is_border(text: str, at: int) -> bool:
    """Whether no word goes on over this place."""
    return at == 0 or at == len(text) or not (_in_word(text[at - 1]) and _in_word(text[at]))


def _in_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
