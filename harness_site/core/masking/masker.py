"""Masking of secrets in the text of agents for readers who may not see them.

All content of pages, exports and notifications passes `mask_text` or `mask_json_value`, called by the functions that
make text safe to display. Unless a reader is set (`use_masking_rules`), every secret is masked. What counts as secret
is documented in docs/masking.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from threading import Lock
from typing import Any, Final, TypeVar

from harness_site.core.linear_regex import LinearPattern, compile_pattern
from harness_site.core.masking import secret_scan_window, secret_shapes, values_with_secret_names
from harness_site.core.masking.escape_decoding import DecodedText, decode_escapes
from harness_site.core.masking.find_known_secret_values import KnownValues, iterate_maskable_texts_of_value
from harness_site.core.masking.secret_shapes import Span

T = TypeVar("T")

#: Replacement of a secret.
MASK: Final = "‹masked›"
#: Smaller numbers have fewer digits than a card number.
_SMALLEST_CARD_NUMBER: Final = 10 ** (secret_shapes.SHORTEST_CARD - 1)
#: Longer texts are cached by their digest, as thousands of them would exhaust memory.
_MAX_CACHED_TEXT_LENGTH: Final = 2_000
#: Characters scanned beyond the displayed end, to recognize a secret that is cut off there.
MARGIN: Final = 8_000
#: Characters that write one character, such as `\\u0041`.
_LONGEST_ESCAPE: Final = 8
#: Of longer texts, only the surroundings of a displayed slice are searched.
_LONGEST_SEARCHED_COMPLETELY: Final = 300_000
#: Characters searched beyond the end of a slice; the next number is tried if a secret may continue there.
_DISTANCES_AFTER_SLICE: Final = (secret_scan_window.RUN_UP, 250_000, 1_100_000)
#: Maximum number of secrets in all cached long texts, each text counting as a few more.
_CACHED_SPANS: Final = 200_000
_COST_OF_TEXT: Final = 10


@dataclass(frozen=True)
class MaskingRules:
    """Rules that tell what is secret.

    `names` are exact field names in addition to the usual ones; `words` matches the secret words of a workspace;
    `usual` enables the built-in rules. `values` are secret wherever they occur, because they were given in a secret
    field of the displayed content.
    """

    names: frozenset[str]
    words: LinearPattern | None
    usual: bool
    values: frozenset[str] = frozenset()

    @cached_property
    def name_patterns(self) -> values_with_secret_names.SecretPatterns | None:
        return (
            values_with_secret_names.build_secret_patterns(self.names, usual=self.usual)
            if self.names or self.usual
            else None
        )

    @cached_property
    def known_values(self) -> KnownValues:
        return KnownValues.build_from_longest_values(self.values)

    def may_contain_secret_name(self, stored: str) -> bool:
        """Return whether stored JSON may contain a secret name."""
        return self.name_patterns is not None and self.name_patterns.hint.search(stored) is not None

    def is_secret_name(self, name: str) -> bool:
        if self.names and values_with_secret_names.normalize_field_name(name) in self.names:
            return True
        return self.usual and values_with_secret_names.is_usual_secret_name(name)

    def with_known_values(self, values: Iterable[str]) -> MaskingRules:
        """Return these rules with `values` added to the secret values."""
        all_values = self.values.union(values)
        return self if all_values == self.values else _build_rules_with_values(self, all_values)


@lru_cache(maxsize=256)
def _build_rules_with_values(rules: MaskingRules, values: frozenset[str]) -> MaskingRules:
    # One object for equal rules: what is prepared for them is kept, and caches compare them by identity.
    return replace(rules, values=values)


@dataclass(frozen=True, slots=True)
class MaskedField:
    """A field of a JSON object: its `key`, its displayed name, its value, and whether that is secret."""

    key: Any
    name: str
    value: Any
    hidden: bool


@lru_cache(maxsize=64)
def build_masking_rules_from_names_and_words(
    names: tuple[str, ...] = (), words: tuple[str, ...] = (), *, usual: bool = True
) -> MaskingRules:
    """Build the rules of a workspace: `names` of fields, and `words` in which `*` matches any letters."""
    normalized_names = frozenset(values_with_secret_names.normalize_field_name(name) for name in names)
    word_pattern = compile_pattern("|".join(map(_build_wildcard_pattern, words))) if words else None
    return MaskingRules(normalized_names - {""}, word_pattern, usual)


def _build_wildcard_pattern(word: str) -> str:
    first, *parts = word.split("*")
    return re.escape(first) + "".join(
        rf"[^\s\"']{{0,200}}?{re.escape(part)}" if part else r"[^\s\"']*" for part in parts
    )


USUAL: Final = build_masking_rules_from_names_and_words()
_reader: ContextVar[MaskingRules | None] = ContextVar("masking_rules", default=USUAL)


@contextmanager
def use_masking_rules(wanted: MaskingRules | None) -> Iterator[None]:
    """Apply rules to the content rendered in this context; None masks nothing."""
    before = _reader.set(wanted)
    try:
        yield
    finally:
        _reader.reset(before)


@contextmanager
def mask_values_of_secret_fields_in_context(*content: Any) -> Iterator[None]:
    """Mask the values of secret fields of these JSON values, wherever they occur, in this context."""
    with use_masking_rules_with_extra_values(collect_secret_values(*content)):
        yield


@contextmanager
def use_masking_rules_with_extra_values(values: Iterable[str]) -> Iterator[None]:
    """Mask these texts, wherever they occur, in this context."""
    rules = _reader.get()
    with use_masking_rules(rules and rules.with_known_values(values)):
        yield


def mask_values_until_response(values: Iterable[str]) -> None:
    """Mask these texts, wherever they occur, until the end of the request."""
    rules = _reader.get()
    if rules is not None:
        _reader.set(rules.with_known_values(values))


def collect_secret_values(*content: Any) -> frozenset[str]:
    """Collect the texts under secret names in these JSON values, for the current reader."""
    rules = _reader.get()
    return frozenset() if rules is None else frozenset(_iterate_secret_texts(content, rules))


def _iterate_secret_texts(content: Any, rules: MaskingRules) -> Iterator[str]:
    if isinstance(content, dict):
        secret_keys = values_with_secret_names.find_secret_object_keys(content, rules.is_secret_name)
        for key, value in content.items():
            yield from (
                iterate_maskable_texts_of_value(value) if key in secret_keys else _iterate_secret_texts(value, rules)
            )
    elif isinstance(content, list | tuple):
        secret_places = values_with_secret_names.find_indexes_of_secret_list_items(content, rules.is_secret_name)
        for place, item in enumerate(content):
            yield from (
                iterate_maskable_texts_of_value(item) if place in secret_places else _iterate_secret_texts(item, rules)
            )


def iterate_under_current_rules(pieces: Iterable[T]) -> Iterator[T]:
    """Produce each piece under the rules that are active now.

    For streamed content, which is produced after the view has returned.
    """
    return _iterate_under_rules(_reader.get(), iter(pieces))


def _iterate_under_rules(rules: MaskingRules | None, pieces: Iterator[T]) -> Iterator[T]:
    while True:
        with use_masking_rules(rules):
            try:
                piece = next(pieces)
            except StopIteration:
                return
        yield piece


def get_current_masking_rules() -> MaskingRules | None:
    """Return the rules for the current reader."""
    return _reader.get()


def is_masking_active() -> bool:
    """Return whether anything is masked for the current reader."""
    return _reader.get() is not None


def mask_text(text: str) -> str:
    """Replace everything in `text` that is secret to the current reader by `MASK`."""
    spans = find_secret_spans(text)
    return _replace_spans_with_mask(text, spans) if spans else text


def get_masked_text_beginning(text: str, size: int) -> str:
    """Mask the first `size` characters of a text or a few more, without scanning all of it.

    Whatever is masked in the whole text is masked here: a value that may continue after the scanned part is secret up
    to its end.
    """
    rules = _reader.get()
    if rules is None:
        return text[:size]
    window = text[: size + max(MARGIN, _LONGEST_ESCAPE * rules.known_values.longest_value_length)]
    if len(window) == len(text):
        return get_masked_text_slice(text, 0, size)
    spans = _find_secret_spans_in_text_and_decoded_escapes(window, rules, is_cut=True)
    cut = next((stop for start, stop in spans if start < size < stop), size)
    return _replace_spans_with_mask(window[:cut], [span for span in spans if span[1] <= cut])


def get_masked_text_slice(text: str, start: int, stop: int) -> str:
    """Mask the characters from `start` to `stop` of a text. A secret that only ends or begins there is masked too.

    Of a long text, only the surroundings of the slice are searched, unless a secret may extend further.
    """
    rules = _reader.get()
    found = (
        find_secret_spans(text)
        if rules is None or len(text) <= _LONGEST_SEARCHED_COMPLETELY
        else _find_secret_spans_near_slice(text, start, stop, rules)
    )
    spans = [(max(begin, start), min(end, stop)) for begin, end in found]
    inner_spans = [(begin - start, end - start) for begin, end in spans if begin < end]
    return _replace_spans_with_mask(text[start:stop], inner_spans)


def _replace_spans_with_mask(text: str, spans: Sequence[Span]) -> str:
    if not spans:
        return text
    parts, end = [], 0
    for start, stop in spans:
        parts += [text[end:start], MASK]
        end = stop
    return "".join([*parts, text[end:]])


def mask_adjacent_texts(pieces: Sequence[str]) -> list[str]:
    """Mask texts that are displayed next to each other as if they were one."""
    spans = find_secret_spans("".join(pieces))
    if not spans:
        return list(pieces)
    masked_places = {place for span in spans for place in range(*span)}
    masked_pieces, at = [], 0
    for piece in pieces:
        letters = groupby(enumerate(piece, at), lambda numbered: numbered[0] in masked_places)
        masked_pieces.append(
            "".join(MASK if is_masked else "".join(letter for _, letter in run) for is_masked, run in letters)
        )
        at += len(piece)
    return masked_pieces


def mask_json_value(value: Any) -> Any:
    """Mask a JSON value by the names of its fields and by the shapes of its texts.

    Field names and numbers are masked too.
    """
    rules = _reader.get()
    return value if rules is None else _mask_value_recursively(value, rules)


def _mask_value_recursively(value: Any, rules: MaskingRules) -> Any:
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, list | tuple):
        secret_places = values_with_secret_names.find_indexes_of_secret_list_items(value, rules.is_secret_name)
        return [
            MASK if place in secret_places else _mask_value_recursively(item, rules) for place, item in enumerate(value)
        ]
    if isinstance(value, dict):
        return {
            field.name: MASK if field.hidden else _mask_value_recursively(field.value, rules)
            for field in _build_fields_with_masked_names(value, rules)
        }
    return MASK if is_secret_number(value) else value


def mask_secret_fields_only(value: Any) -> Any:
    """Mask the values of secret fields and secret numbers of a JSON value, but no text.

    Much faster than `mask_json_value`, for a value that is then masked as text, a part at a time.
    """
    rules = _reader.get()
    return value if rules is None else _mask_secret_fields_recursively(value, rules)


def _mask_secret_fields_recursively(value: Any, rules: MaskingRules) -> Any:
    if isinstance(value, list | tuple):
        secret_places = values_with_secret_names.find_indexes_of_secret_list_items(value, rules.is_secret_name)
        return [
            MASK if place in secret_places else _mask_secret_fields_recursively(item, rules)
            for place, item in enumerate(value)
        ]
    if isinstance(value, dict):
        secret_keys = values_with_secret_names.find_secret_object_keys(value, rules.is_secret_name)
        return {
            key: MASK if key in secret_keys else _mask_secret_fields_recursively(inner, rules)
            for key, inner in value.items()
        }
    return MASK if is_secret_number(value) else value


def mask_field_names_and_list_all_fields(value: dict[str, Any]) -> list[MaskedField]:
    """List the fields of a JSON object in order, as the current reader may see them, with unique names."""
    rules = _reader.get()
    return (
        [MaskedField(key, key, inner, False) for key, inner in value.items()]
        if rules is None
        else _build_fields_with_masked_names(value, rules)
    )


def find_list_item_indexes_secret_to_reader(value: Sequence[Any]) -> frozenset[int]:
    """Return the indexes of items in a JSON list that are secret because of the item before them."""
    rules = _reader.get()
    return (
        frozenset()
        if rules is None
        else values_with_secret_names.find_indexes_of_secret_list_items(value, rules.is_secret_name)
    )


def _build_fields_with_masked_names(value: dict[str, Any], rules: MaskingRules) -> list[MaskedField]:
    secret_keys = values_with_secret_names.find_secret_object_keys(value, rules.is_secret_name)
    fields: list[MaskedField] = []
    used_names: dict[str, int] = {}
    for key, inner in value.items():
        name = str(key)
        masked_name = mask_text(name)
        if masked_name != name or masked_name in used_names:
            number = used_names[masked_name] = used_names.get(masked_name, 0) + 1
            masked_name = masked_name if number == 1 and masked_name not in value else f"{masked_name} {number}"
        fields.append(MaskedField(key, masked_name, inner, key in secret_keys))
    return fields


def is_secret_number(value: Any) -> bool:
    """Return whether a JSON number is secret to the current reader: a card number, or a value of a secret field."""
    rules = _reader.get()
    if rules is None or isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(value, float):
        if not value.is_integer() or abs(value) > 1e20:
            return str(value) in rules.values
        value = int(value)
    elif abs(value) > 10**20:
        return False
    if not rules.values and abs(value) < _SMALLEST_CARD_NUMBER:
        return False
    digits = str(abs(value))
    return (rules.usual and secret_shapes.is_card_number(digits)) or (len(digits) > 3 and digits in rules.values)


def restore_masked_values(edited: Any, original: Any) -> Any:
    """Restore the original values at masks that remain in an edited JSON value."""
    if edited == MASK:
        return original
    if isinstance(edited, str) and MASK in edited and isinstance(original, str) and edited == mask_text(original):
        return original
    if isinstance(edited, dict) and isinstance(original, dict):
        keys = {field.name: field.key for field in mask_field_names_and_list_all_fields(original)}
        pairs = ((keys.get(name, name), inner) for name, inner in edited.items())
        return {key: restore_masked_values(inner, original[key]) if key in original else inner for key, inner in pairs}
    if isinstance(edited, list) and isinstance(original, list) and len(edited) == len(original):
        return [restore_masked_values(inner, before) for inner, before in zip(edited, original, strict=True)]
    return edited


def find_secret_spans(text: str) -> tuple[Span, ...]:
    """Return the spans in `text` that are secret to the current reader, ordered and disjoint."""
    rules = _reader.get()
    if rules is None or not text:
        return ()
    return (
        _find_spans_of_long_text_with_cache(text, rules)
        if len(text) > _MAX_CACHED_TEXT_LENGTH
        else _find_spans_of_short_text_with_cache(text, rules)
    )


@lru_cache(maxsize=16_384)
def _find_spans_of_short_text_with_cache(text: str, rules: MaskingRules) -> tuple[Span, ...]:
    return _find_secret_spans_in_text_and_decoded_escapes(text, rules)


class _SpanCache:
    """Secrets of long texts by digest and rules, within a budget; the oldest are dropped."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._spans: dict[tuple[bytes, MaskingRules], tuple[Span, ...]] = {}
        self._cost = 0

    def get(self, key: tuple[bytes, MaskingRules]) -> tuple[Span, ...] | None:
        return self._spans.get(key)

    def add(self, key: tuple[bytes, MaskingRules], spans: tuple[Span, ...]) -> None:
        with self._lock:
            if key in self._spans or len(spans) > _CACHED_SPANS:
                return
            self._spans[key] = spans
            self._cost += len(spans) + _COST_OF_TEXT
            while self._cost > _CACHED_SPANS:
                self._cost -= len(self._spans.pop(next(iter(self._spans)))) + _COST_OF_TEXT


_long_texts: Final = _SpanCache()


def _find_spans_of_long_text_with_cache(text: str, rules: MaskingRules) -> tuple[Span, ...]:
    """Find the secrets of a long text, cached, as the pages of one text are read one after the other."""
    key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest(), rules
    spans = _long_texts.get(key)
    if spans is None:
        spans = _find_secret_spans_in_text_and_decoded_escapes(text, rules)
        _long_texts.add(key, spans)
    return spans


def _find_secret_spans_in_text_and_decoded_escapes(
    text: str, rules: MaskingRules, *, is_cut: bool = False
) -> tuple[Span, ...]:
    """Find secrets in the text as written, and as decoded if that differs.

    `is_cut` means that the text continues: whatever may be the beginning of a long secret is secret up to the end.
    """
    find = _iterate_all_secret_spans_of_cut_text if is_cut else _iterate_secret_spans
    places = set(find(text, rules))
    readings: list[DecodedText] = []
    while (
        len(readings) < secret_scan_window.CODES_IN_CODES
        and (decoded := decode_escapes(readings[-1].text if readings else text)) is not None
    ):
        readings.append(decoded)
        places.update(_map_span_to_original(place, readings) for place in find(decoded.text, rules))
    return _merge_overlapping_spans(sorted(places)) if places else ()


def _find_secret_spans_near_slice(text: str, start: int, stop: int, rules: MaskingRules) -> Sequence[Span]:
    """Return the spans that are secret between `start` and `stop`; others may be missing."""
    longest = rules.known_values.longest_value_length
    hint = None if rules.name_patterns is None else rules.name_patterns.hint
    begin = secret_scan_window.find_window_start(text, start, longest_value_length=longest, hint=hint)
    for distance in _DISTANCES_AFTER_SLICE:
        end = stop + max(distance, _LONGEST_ESCAPE * longest)
        if end >= len(text):
            break
        spans = _find_secret_spans_in_text_and_decoded_escapes(text[begin:end], rules, is_cut=True)
        if not any(first < stop - begin and last == end - begin for first, last in spans):
            return [(first + begin, last + begin) for first, last in spans]
    rest = text[begin:]
    return [(first + begin, last + begin) for first, last in _find_spans_of_long_text_with_cache(rest, rules)]


def _map_span_to_original(place: Span, readings: Sequence[DecodedText]) -> Span:
    """Map a span of the last of these successively decoded texts to the original text."""
    for decoded in reversed(readings):
        place = decoded.map_span_to_written_text(*place)
    return place


def _iterate_secret_spans(text: str, rules: MaskingRules) -> Iterator[Span]:
    if rules.values:
        yield from rules.known_values.find_spans(text)
    if len(text) < 4:
        return
    if rules.words is not None:
        yield from (match.span() for match in rules.words.finditer(text))
    if rules.usual:
        yield from secret_shapes.iterate_secret_token_spans(text)
        yield from secret_shapes.iterate_card_number_spans(text)
    if rules.name_patterns is not None:
        yield from values_with_secret_names.iterate_spans_of_secret_values_by_name(
            text, rules.name_patterns, rules.is_secret_name
        )


def _iterate_all_secret_spans_of_cut_text(text: str, rules: MaskingRules) -> Iterator[Span]:
    end = len(text)
    for span in _iterate_secret_spans(text, rules):
        yield (span[0], end) if values_with_secret_names.is_unclosed_value(text, span) else span
    if rules.usual and (login := secret_shapes.find_start_of_cut_off_login(text)) is not None:
        yield login, end
    if rules.name_patterns is not None:
        yield from (
            (start, end)
            for start in values_with_secret_names.iterate_unclosed_xml_secret_starts(
                text, rules.name_patterns, rules.is_secret_name
            )
        )


def _merge_overlapping_spans(spans: list[Span]) -> tuple[Span, ...]:
    merged: list[Span] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return tuple(merged)
