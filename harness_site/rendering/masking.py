"""What is secret in the text of agents, and showing it only to those who may see it.

Everything that pages, exports and messages show goes through `masked` or `masked_value`, called by the functions of
this package that make text safe to show. Without anybody having said who reads (`reading`), everything secret is
masked. What is secret and where is written down in docs/masking.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any, Final, TypeVar

from harness_site.rendering import secret_names, secret_shapes
from harness_site.rendering.decoding import Decoded, decode
from harness_site.rendering.known_values import find_known_values, texts_of
from harness_site.rendering.linear_patterns import LinearPattern, compile_pattern
from harness_site.rendering.secret_shapes import Span

T = TypeVar("T")

#: Stands where something secret stood.
MASK: Final = "‹masked›"
#: Longer ones are looked through each time: remembering thousands of them would fill the memory.
_LONGEST: Final = 50_000
#: A text may be written in one code, and that in another: the code of a terminal inside of JSON.
_CODES_IN_CODES: Final = 3
#: So much more than what is shown is looked through, so that what is cut off there is known for what it is.
MARGIN: Final = 8_000


@dataclass(frozen=True)
class Rules:
    """What is secret. `names` are exact names of fields beside the usual ones; `words` finds the words of a workspace
    in text; `usual` says whether what is secret everywhere counts too. `values` are texts that are secret wherever they
    stand, because they were given in a secret field of what is shown."""

    names: frozenset[str]
    words: LinearPattern | None
    usual: bool
    values: frozenset[str] = frozenset()

    @cached_property
    def patterns(self) -> secret_names.Patterns | None:
        return secret_names.patterns(self.names, usual=self.usual) if self.names or self.usual else None

    def may_hide(self, stored: str) -> bool:
        """Whether stored JSON may hold a name of a secret."""
        return self.patterns is not None and self.patterns.hint.search(stored) is not None

    def secret_name(self, name: str) -> bool:
        if self.names and secret_names.bare(name) in self.names:
            return True
        return self.usual and secret_names.usual_secret(name)

    def knowing(self, values: Iterable[str]) -> Rules:
        """Return these rules for something in which `values` were found under secret names."""
        known = self.values.union(values)
        return self if known == self.values else replace(self, values=known)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a JSON object: its `key`, its name as it is shown, its value, and whether that is secret."""

    key: Any
    name: str
    value: Any
    hidden: bool


@lru_cache(maxsize=64)
def rules(names: tuple[str, ...] = (), words: tuple[str, ...] = (), *, usual: bool = True) -> Rules:
    """Rules of a workspace: `names` of fields, and `words` in which `*` stands for any letters."""
    bare = frozenset(secret_names.bare(name) for name in names)
    own = compile_pattern("|".join(map(_wildcard, words))) if words else None
    return Rules(bare - {""}, own, usual)


def _wildcard(word: str) -> str:
    first, *others = word.split("*")
    return re.escape(first) + "".join(
        rf"[^\s\"']{{0,200}}?{re.escape(part)}" if part else r"[^\s\"']*" for part in others
    )


USUAL: Final = rules()
_reader: ContextVar[Rules | None] = ContextVar("masking_rules", default=USUAL)


@contextmanager
def reading(wanted: Rules | None) -> Iterator[None]:
    """Show what follows under these rules; None masks nothing."""
    before = _reader.set(wanted)
    try:
        yield
    finally:
        _reader.reset(before)


@contextmanager
def hiding_values_of(*content: Any) -> Iterator[None]:
    """Mask in what follows, wherever they stand, the values of secret fields in these JSON values."""
    with hiding_values(secret_values(*content)):
        yield


@contextmanager
def hiding_values(values: Iterable[str]) -> Iterator[None]:
    """Mask these texts in what follows, wherever they stand."""
    found = _reader.get()
    with reading(found and found.knowing(values)):
        yield


def hide_values(values: Iterable[str]) -> None:
    """Mask these texts wherever they stand, until the page that is being made has been made."""
    found = _reader.get()
    if found is not None:
        _reader.set(found.knowing(values))


def secret_values(*content: Any) -> frozenset[str]:
    """Return the texts under secret names in these JSON values, for who reads now."""
    found = _reader.get()
    return frozenset() if found is None else frozenset(_secret_texts(content, found))


def _secret_texts(content: Any, found: Rules) -> Iterator[str]:
    if isinstance(content, dict):
        for field in _fields(content, found):
            yield from texts_of(field.value) if field.hidden else _secret_texts(field.value, found)
    elif isinstance(content, list | tuple):
        hidden = secret_names.hidden_items(content, found.secret_name)
        for place, item in enumerate(content):
            yield from texts_of(item) if place in hidden else _secret_texts(item, found)


def kept(pieces: Iterable[T]) -> Iterator[T]:
    """The same pieces, each made under the rules that hold now: for what is made while it is sent, long after the page
    that began it has returned."""
    return _under(_reader.get(), iter(pieces))


def _under(wanted: Rules | None, pieces: Iterator[T]) -> Iterator[T]:
    while True:
        with reading(wanted):
            try:
                piece = next(pieces)
            except StopIteration:
                return
        yield piece


def rules_in_force() -> Rules | None:
    """The rules that hold for who reads now."""
    return _reader.get()


def masks() -> bool:
    """Whether anything is masked for who reads now."""
    return _reader.get() is not None


def masked(text: str) -> str:
    """`text` with everything in it that is secret to who reads now replaced by `MASK`."""
    return _replaced(text, spans(text))


def masked_beginning(text: str, size: int) -> str:
    """The first `size` characters or a few more of a text, masked, of which no more is read than that takes."""
    if len(text) <= size:
        return masked(text)
    window = text[: size + MARGIN]
    found = spans(window)
    cut = next((stop for start, stop in found if start < size < stop), size)
    return _replaced(window[:cut], [span for span in found if span[1] <= cut])


def _replaced(text: str, found: Sequence[Span]) -> str:
    if not found:
        return text
    parts, end = [], 0
    for start, stop in found:
        parts += [text[end:start], MASK]
        end = stop
    return "".join([*parts, text[end:]])


def masked_pieces(pieces: Sequence[str]) -> list[str]:
    """Return texts that are shown one after the other, masked as the whole of them."""
    found = spans("".join(pieces))
    if not found:
        return list(pieces)
    covered = {place for span in found for place in range(*span)}
    shown, at = [], 0
    for piece in pieces:
        letters = groupby(enumerate(piece, at), lambda each: each[0] in covered)
        shown.append("".join(MASK if hidden else "".join(letter for _, letter in run) for hidden, run in letters))
        at += len(piece)
    return shown


def masked_value(value: Any) -> Any:
    """A JSON value with what is secret in it replaced: by the names of its fields, and by what its texts look like.
    Names of fields and numbers are masked too."""
    found = _reader.get()
    return value if found is None else _masked_value(value, found)


def _masked_value(value: Any, found: Rules) -> Any:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, list | tuple):
        hidden = secret_names.hidden_items(value, found.secret_name)
        return [MASK if place in hidden else _masked_value(item, found) for place, item in enumerate(value)]
    if isinstance(value, dict):
        return {each.name: MASK if each.hidden else _masked_value(each.value, found) for each in _fields(value, found)}
    return MASK if is_secret_number(value) else value


def fields_of(value: dict[str, Any]) -> list[Field]:
    """The fields of a JSON object in order, as who reads now may see them. No two have the same name."""
    found = _reader.get()
    return [Field(key, key, inner, False) for key, inner in value.items()] if found is None else _fields(value, found)


def hidden_items(value: Sequence[Any]) -> frozenset[int]:
    """The places of a JSON list at which something secret stands because of what stands before it."""
    found = _reader.get()
    return frozenset() if found is None else secret_names.hidden_items(value, found.secret_name)


def _fields(value: dict[str, Any], found: Rules) -> list[Field]:
    hidden = secret_names.hidden_fields(value, found.secret_name)
    fields: list[Field] = []
    taken: dict[str, int] = {}
    for key, inner in value.items():
        name = str(key)
        shown = masked(name)
        if shown != name or shown in taken:
            number = taken[shown] = taken.get(shown, 0) + 1
            shown = shown if number == 1 and shown not in value else f"{shown} {number}"
        fields.append(Field(key, shown, inner, key in hidden))
    return fields


def is_secret_number(value: Any) -> bool:
    """Whether a JSON number is secret to who reads now: the number of a card, or a value given under a secret name."""
    found = _reader.get()
    if found is None or isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(value, float):
        if not value.is_integer() or abs(value) > 1e20:
            return str(value) in found.values
        value = int(value)
    elif abs(value) > 10**20:
        return False
    written = str(abs(value))
    return (found.usual and secret_shapes.is_card_number(written)) or (len(written) > 3 and written in found.values)


def restored(edited: Any, original: Any) -> Any:
    """What somebody meant who changed a JSON value that was shown to them masked: where they left a mask standing, the
    original value, found at the same place, comes back."""
    if edited == MASK:
        return original
    if isinstance(edited, str) and MASK in edited and isinstance(original, str) and edited == masked(original):
        return original
    if isinstance(edited, dict) and isinstance(original, dict):
        keys = {field.name: field.key for field in fields_of(original)}
        named = ((keys.get(name, name), inner) for name, inner in edited.items())
        return {key: restored(inner, original[key]) if key in original else inner for key, inner in named}
    if isinstance(edited, list) and isinstance(original, list) and len(edited) == len(original):
        return [restored(inner, before) for inner, before in zip(edited, original, strict=True)]
    return edited


def spans(text: str) -> tuple[Span, ...]:
    """Where in `text` something is secret to who reads now: places in order, none inside another."""
    found = _reader.get()
    if found is None or not text:
        return ()
    return _spans(text, found) if len(text) > _LONGEST else _known_spans(text, found)


@lru_cache(maxsize=2048)
def _known_spans(text: str, found: Rules) -> tuple[Span, ...]:
    return _spans(text, found)


def _spans(text: str, found: Rules) -> tuple[Span, ...]:
    """In the text as it is written, and as it is read where that differs."""
    places = set(_found(text, found))
    readings: list[Decoded] = []
    while len(readings) < _CODES_IN_CODES and (read := decode(readings[-1].text if readings else text)) is not None:
        readings.append(read)
        places.update(_written(place, readings) for place in _found(read.text, found))
    return _merged(sorted(places)) if places else ()


def _written(place: Span, readings: Sequence[Decoded]) -> Span:
    """Where something is written that was found in the last of these readings, each of the one before."""
    for read in reversed(readings):
        place = read.written(*place)
    return place


def _found(text: str, found: Rules) -> Iterator[Span]:
    if found.values:
        yield from find_known_values(text, found.values)
    if len(text) < 4:
        return
    if found.words is not None:
        yield from (match.span() for match in found.words.finditer(text))
    if found.usual:
        yield from secret_shapes.find_tokens(text)
        yield from secret_shapes.find_card_numbers(text)
    if found.patterns is not None:
        yield from secret_names.find_named_values(text, found.patterns, found.secret_name)


def _merged(found: list[Span]) -> tuple[Span, ...]:
    merged: list[Span] = []
    for start, end in found:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return tuple(merged)
