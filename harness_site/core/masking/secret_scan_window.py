"""The part of a long text that has to be searched to find the secrets in a range of it.

A secret that reaches into the range may begin long before it: a private key, a quoted value of many lines, the content
of an XML element. The window begins at a line from which on none of them can be open. Everything else that begins
before the window is shorter than the run-up, which is the distance between the start of the window and the range.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harness_site.core.linear_regex import LinearPattern, compile_pattern
from harness_site.core.masking.escape_decoding import decode_escapes
from harness_site.core.terminal_sequence_patterns import FINAL, INTRODUCER, SHORT_PARAMETERS

#: Maximum nesting of encodings, such as an ANSI sequence inside of JSON.
CODES_IN_CODES: Final = 3
#: Characters of the run-up, and of the text after the range.
RUN_UP: Final = 32_000
#: Minimum characters of the decoded run-up: more than a list or an object in a text that is masked as a value.
_SHORTEST_RUN_UP: Final = 24_000
#: Maximum characters of a run-up that is extended to the last quote or angle bracket.
_LONGEST_RUN_UP: Final = 250_000
#: Characters before a quote or an angle bracket that may hold the name of its value.
_NAME_DISTANCE: Final = 2_000
#: Characters that are searched at once on the way back to a delimiter.
_BLOCK: Final = 50_000
#: The start of a line that ends values of several lines without delimiters, such as lists of YAML.
_LINE_AFTER_VALUE: Final = re.compile(r"\n(?![ \t]{1,40}-[ \t])[ \t]*+\S")
_END_OF_KEY: Final = re.compile(r"-----END [A-Z0-9 ]{0,60}-----")


def _build_encoded_character_pattern(character: str) -> str:
    """Build a pattern of a character as it may be written in a text with escapes."""
    code = ord(character)
    escapes = rf"\\+(?:u\{{?0*{code:x}\}}?|U0*{code:x}|x{code:x}|0?{code:o})"
    return rf"{escapes}|&#0*{code};|&#x0*{code:x};|%(?:25)*{code:x}|{chr(code + 0xFEE0)}"


@dataclass(frozen=True)
class _Delimiter:
    """Characters that enclose values of any length.

    `certain` matches one that always ends such a value, and that alone can begin one, `encoded` one that is decoded.
    """

    characters: str
    certain: re.Pattern[str]
    encoded: LinearPattern


def _compile_raw_and_encoded_delimiter_patterns(characters: str, certain: str, *others: str) -> _Delimiter:
    encoded = "|".join([*map(_build_encoded_character_pattern, characters), *others])
    return _Delimiter(characters, re.compile(certain), compile_pattern(f"(?i){encoded}"))


_DELIMITERS: Final = (
    _compile_raw_and_encoded_delimiter_patterns('"', r'(?<!\\)"', r'\\"', "&quot;"),
    _compile_raw_and_encoded_delimiter_patterns("'", r"(?<!\\)'", r"\\'", "&apos;"),
    _compile_raw_and_encoded_delimiter_patterns("<>", "[<>]", "&[lg]t;"),
)
#: The word of the first line of a private key, with escapes, codes of terminals and Markdown marks in it.
_PRIVATE: Final = compile_pattern(
    rf"(?:[^\w\s]|{INTRODUCER}{SHORT_PARAMETERS}{FINAL}|&#?\w{{1,10}};)*".join(
        rf"(?:{character}|{_build_encoded_character_pattern(character)})" for character in "PRIVATE"
    )
)


def find_window_start(text: str, start: int, *, longest_value_length: int, hint: LinearPattern | None) -> int:
    """Return where a search has to begin to find the secrets that reach the character at `start` or follow it.

    `longest_value_length` is the length of the longest known value in characters, `hint` the pattern that every secret
    name contains. Returns 0 if no line is certain to be outside of a secret.
    """
    shortest = max(_SHORTEST_RUN_UP, longest_value_length + 1)
    begin = _find_nonempty_line_start_before(text, start - max(RUN_UP, 2 * shortest))
    for _ in range(2 * len(_DELIMITERS)):
        if begin <= 0:
            return 0
        readings = list(iterate_decoded_forms(text[begin:start]))
        if any(len(reading) < shortest or _LINE_AFTER_VALUE.search(reading) is None for reading in readings):
            return 0
        if _may_be_in_private_key(text, begin, readings):
            return 0
        places = [_find_opening_of_enclosing_value(text, begin, delimiter, readings) for delimiter in _DELIMITERS]
        openings = [at for at in places if at is not None]
        if any(at < 0 for at in openings):
            return 0
        near = [at for at in openings if start - at <= _LONGEST_RUN_UP]
        if any(_may_secret_value_begin_at(text, at, begin, hint) for at in openings if at not in near):
            return 0
        if not near:
            return begin
        begin = _find_nonempty_line_start_before(text, min(near) - _NAME_DISTANCE)
    return 0


def iterate_decoded_forms(text: str) -> Iterator[str]:
    """Yield a text as written, and as decoded once, twice …"""
    yield text
    for _ in range(CODES_IN_CODES):
        decoded = decode_escapes(text)
        if decoded is None:
            return
        text = decoded.text
        yield text


def _find_nonempty_line_start_before(text: str, at: int) -> int:
    """Return the start of the last line before `at` that is not empty; 0 if there is none near."""
    lowest = max(0, at - _LONGEST_RUN_UP)
    while at > lowest:
        at = text.rfind("\n", lowest, at)
        if at >= 0 and text[at + 1] not in "\r\n":
            return at + 1
    return 0


def _may_be_in_private_key(text: str, begin: int, readings: list[str]) -> bool:
    """Return whether a private key may begin before `begin` and continue after the run-up."""
    if all(_END_OF_KEY.search(reading) is not None for reading in readings):
        return False
    last_start = max((match.start() for match in _PRIVATE.finditer(text[:begin])), default=-1)
    if last_start < 0:
        return False
    last_end = text.rfind("-----END ", 0, begin)
    return last_end < 0 or last_start > last_end + 80 or _END_OF_KEY.match(text, last_end) is None


def _find_opening_of_enclosing_value(text: str, begin: int, delimiter: _Delimiter, readings: list[str]) -> int | None:
    """Return the place of the last certain delimiter before `begin`; None if no value can be open there.

    Returns -1 if one may be open in a decoded reading, but its start is unknown.
    """
    is_certain = [delimiter.certain.search(reading) is not None for reading in readings]
    if all(is_certain):
        return None
    end = begin
    while (end := max(text.rfind(character, 0, end) for character in delimiter.characters) + 1) > 0:
        first = max(0, end - _BLOCK)
        places = [match.start() for match in delimiter.certain.finditer(text, first, end)]
        if places:
            return places[-1]
        end = first
    # The last reading is also that of a text around it with more levels of encoding.
    is_certain_if_decoded = all([*is_certain[1:], is_certain[-1]])
    return None if is_certain_if_decoded or not _matches_encoded_characters(delimiter.encoded, text[:begin]) else -1


def _matches_encoded_characters(encoded: LinearPattern, text: str) -> bool:
    """Return whether a pattern of encoded characters matches."""
    return (not text.isascii() or any(mark in text for mark in "\\&%")) and encoded.search(text) is not None


def _may_secret_value_begin_at(text: str, at: int, begin: int, hint: LinearPattern | None) -> bool:
    """Return whether a secret value may begin at the far delimiter at `at`, or at an encoded one after it."""
    if hint is None:
        return False
    if any(_matches_encoded_characters(delimiter.encoded, text[at + 1 : begin]) for delimiter in _DELIMITERS):
        return True
    before = text[max(0, at - _NAME_DISTANCE) : at + 1]
    return any(hint.search(reading) is not None for reading in iterate_decoded_forms(before))
