"""Text as displayed, without the escape sequences, entities and markup in its words.

Secrets are searched in both the written and the displayed text; spans of the latter are mapped back to the written
text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from html import unescape
from typing import Final

from harness_site.core.hidden_characters import ALWAYS_HIDDEN
from harness_site.core.terminal_sequence_patterns import FINAL, INTRODUCER, SHORT_PARAMETERS

_CODES: Final = rf"""
    {INTRODUCER}{SHORT_PARAMETERS}{FINAL}                    # codes of terminals
    | \x1b\][^\x07\x1b]{{0,500}}+(?:\x07|\x1b\\)               # … titles and links
    | \x1b[()*+][0-9A-Za-z]                                  # … sets of characters
    | [{ALWAYS_HIDDEN}\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]
    | \*+ | ~~ | (?<=\w)`+(?=\w)                              # marks of Markdown
"""
_LINKS: Final = r"| !?\[ | \]\([^()]{0,500}+\) | \]\[[^\[\]]{0,100}+\]"
_ESCAPES: Final = r"""
    | \\{1,8} (?:
        u(?P<unicode>[0-9A-Fa-f]{4}) | u\{(?P<braces>[0-9A-Fa-f]{1,5})\} | U000(?P<long>[0-9A-Fa-f]{5})
        | x(?P<hex>[0-9A-Fa-f]{2}) | (?P<octal>[0-3][0-7]{2}) | (?P<blank>[nrt]) | (?P<same>[!-/:-@\[\]-`{-~])
    )
    | (?P<entity>&(?:\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});)
    | %(?:25){0,3}(?P<percent>[2-7][0-9A-Fa-f])
    | (?P<wide>[\uff01-\uff5e])
    | (?P<space>[\u00a0\u2000-\u200a\u202f\u205f\u3000])
    | (?P<dash>[\u2010-\u2013\u2212])
"""
#: First characters of everything that is decoded. Searching for them first is many times faster than the alternatives.
_FIRST: Final = re.compile(
    rf"[\x1b\x9b{ALWAYS_HIDDEN}\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef*~`!\[\]\\&%"
    "\uff01-\uff5e\u00a0\u2000-\u200a\u202f\u205f\u3000\u2010-\u2013\u2212]"
)
#: Those of ASCII alone, which are found several times as fast.
_FIRST_OF_ASCII: Final = re.compile(
    "[" + "".join(re.escape(chr(code)) for code in range(128) if _FIRST.match(chr(code))) + "]"
)
#: Each alternative ends at the first character that does not match, so that no text is scanned twice.
_ESCAPE_SEQUENCE: Final = re.compile(f"(?P<nothing>{_CODES}){_ESCAPES}", re.VERBOSE)
_WITH_LINKS: Final = re.compile(f"(?P<nothing>{_CODES}{_LINKS}){_ESCAPES}", re.VERBOSE)
#: Offset of fullwidth forms from ASCII.
_WIDE: Final = 0xFEE0
_BLANKS: Final = {"n": "\n", "r": "\n", "t": "\t"}


@dataclass(frozen=True)
class DecodedText:
    """Decoded text with a map of positions to the written text.

    `places` has one row for each stretch: its start in `text`, and its start and end in the written text.
    """

    text: str
    places: tuple[tuple[int, int, int], ...]

    def map_span_to_written_text(self, start: int, end: int) -> tuple[int, int]:
        """Return the written span of the characters from `start` to `end` of `text`."""
        return self._map_position_to_written_span(start)[0], self._map_position_to_written_span(end - 1)[1]

    def _map_position_to_written_span(self, at: int) -> tuple[int, int]:
        row = bisect_right(self.places, (at, float("inf"))) - 1
        text_start, start, end = self.places[row]
        next_start = self.places[row + 1][0] if row + 1 < len(self.places) else len(self.text)
        if next_start - text_start == end - start:  # nothing in this stretch is decoded
            return start + at - text_start, start + at - text_start + 1
        return start, end


def decode_escapes(text: str) -> DecodedText | None:
    """Return the decoded text; None if there is nothing to decode."""
    parts: list[str] = []
    places: list[tuple[int, int, int]] = []
    length = at = 0
    pattern = _WITH_LINKS if "](" in text or "][" in text else _ESCAPE_SEQUENCE
    for first in (_FIRST_OF_ASCII if text.isascii() else _FIRST).finditer(text):
        if first.start() < at or (match := pattern.match(text, first.start())) is None:
            continue
        start, end = match.span()
        if start > at:
            places.append((length, at, start))
            parts.append(text[at:start])
            length += start - at
        if decoded := _decode_matched_escape(match):
            places.append((length, start, end))
            parts.append(decoded)
            length += len(decoded)
        at = end
    if not at:
        return None
    if at < len(text):
        places.append((length, at, len(text)))
        parts.append(text[at:])
    return DecodedText("".join(parts), tuple(places)) if parts else None


def _decode_matched_escape(match: re.Match[str]) -> str:
    kind, source = match.lastgroup, match[match.lastgroup or 0]
    match kind:
        case "nothing":
            return ""
        case "entity":
            return unescape(source)
        case "blank":
            return _BLANKS[source]
        case "same":
            return source
        case "wide":
            return chr(ord(source) - _WIDE)
        case "space":
            return " "
        case "dash":
            return "-"
    return chr(int(source, 8 if kind == "octal" else 16))
