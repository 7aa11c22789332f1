"""A text as it will be read: without the codes of terminals, escapes, entities and marks that stand inside its words.

A secret is looked for in the text as it is written and in the text as it is shown. What is found in the second is
mapped back to the places of the first.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from html import unescape
from typing import Final

from harness_site.rendering.safe_text import ALWAYS_HIDDEN

_CODES: Final = rf"""
    (?:\x1b\[|\x9b)[0-9;:?]{{0,60}}[ -/]{{0,4}}[@-~]            # codes of terminals
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
#: Each alternative ends at the first character that does not fit, so that no text is read twice.
_WRITTEN: Final = re.compile(f"(?P<nothing>{_CODES}){_ESCAPES}", re.VERBOSE)
_WITH_LINKS: Final = re.compile(f"(?P<nothing>{_CODES}{_LINKS}){_ESCAPES}", re.VERBOSE)
#: From a fullwidth character to the one of ASCII.
_WIDE: Final = 0xFEE0
_BLANKS: Final = {"n": "\n", "r": "\n", "t": "\t"}


@dataclass(frozen=True)
class Decoded:
    """`text` as it is read, and where its characters stand in what was written.

    `places` has one row for each stretch: where it begins in `text`, where it begins and ends in what was written.
    """

    text: str
    places: tuple[tuple[int, int, int], ...]

    def written(self, start: int, end: int) -> tuple[int, int]:
        """Return where the characters from `start` to `end` of `text` are written."""
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, at: int) -> tuple[int, int]:
        row = bisect_right(self.places, (at, float("inf"))) - 1
        begins, start, end = self.places[row]
        following = self.places[row + 1][0] if row + 1 < len(self.places) else len(self.text)
        if following - begins == end - start:  # as it is written
            return start + at - begins, start + at - begins + 1
        return start, end


def decode(text: str) -> Decoded | None:
    """Return `text` as it is read; None where it is read as it is written."""
    parts: list[str] = []
    places: list[tuple[int, int, int]] = []
    length = at = 0
    pattern = _WITH_LINKS if "](" in text or "][" in text else _WRITTEN
    for match in pattern.finditer(text):
        start, end = match.span()
        if start > at:
            places.append((length, at, start))
            parts.append(text[at:start])
            length += start - at
        if shown := _shown(match):
            places.append((length, start, end))
            parts.append(shown)
            length += len(shown)
        at = end
    if not at:
        return None
    if at < len(text):
        places.append((length, at, len(text)))
        parts.append(text[at:])
    return Decoded("".join(parts), tuple(places)) if parts else None


def _shown(match: re.Match[str]) -> str:
    kind, written = match.lastgroup, match[match.lastgroup or 0]
    match kind:
        case "nothing":
            return ""
        case "entity":
            return unescape(written)
        case "blank":
            return _BLANKS[written]
        case "same":
            return written
        case "wide":
            return chr(ord(written) - _WIDE)
        case "space":
            return " "
        case "dash":
            return "-"
    return chr(int(written, 8 if kind == "octal" else 16))
