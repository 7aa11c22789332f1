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
    """Yield where one of `values` stands in `text` as a word of its own, also where its end was cut off."""
    for value in values:
        if len(value) < SHORTEST:
            continue
        yield from _find(text, value)
        if len(value) > _CUT_OFF and any(mark in text for mark in _ELLIPSES):
            yield from _find_cut_off(text, value)


def holds_short_value(text: str, values: Iterable[str]) -> bool:
    """Whether `text` says one of those values that are too short to be looked for everywhere."""
    return any(True for value in values if len(value) < SHORTEST for _ in _find(text, value))


def _find(text: str, value: str) -> Iterator[Span]:
    at = text.find(value)
    while at >= 0:
        end = at + len(value)
        if _is_border(text, at) and _is_border(text, end):
            yield at, end
            at = text.find(value, end)
        else:
            at = text.find(value, at + 1)


def _find_cut_off(text: str, value: str) -> Iterator[Span]:
    head = value[:_CUT_OFF]
    at = text.find(head)
    while at >= 0:
        end = at + _CUT_OFF
        limit = at + len(value)
        while end < limit and text[end : end + 1] == value[end - at]:
            end += 1
        if _is_border(text, at) and text.startswith(_ELLIPSES, end):
            yield at, end
        at = text.find(head, end)


def _is_border(text: str, at: int) -> bool:
    """Whether no word goes on over this place."""
    return at == 0 or at == len(text) or not (_in_word(text[at - 1]) and _in_word(text[at]))


def _in_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
