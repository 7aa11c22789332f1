"""Marks of Markdown in the differences of two texts, so that bold words and code look as in the transcript."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import groupby
from typing import Final, NamedTuple

from harness_site.core.word_diff import DiffPiece

#: A fenced block, which is left as it is, a short text of code, or bold words.
_MARKED: Final = re.compile(r"```[\s\S]*?```|`(?P<code>[^`\n]+)`|\*\*(?!\s)(?P<strong>[^*\n]+)(?<!\s)\*\*")


class ProseKind(IntEnum):
    """What a character of a text of Markdown is: a `MARK` is not shown."""

    PLAIN = 0
    STRONG = 1
    CODE = 2
    MARK = 3


class ProseRun(NamedTuple):
    """Neighbouring characters of one kind."""

    kind: ProseKind
    text: str


def split_pieces_at_marks(pieces: Sequence[DiffPiece]) -> Iterator[tuple[DiffPiece, list[ProseRun]]]:
    """Yield each piece with its runs. Marks that only one of the texts has are shown, as they are the difference."""
    kinds = {
        side: _classify_characters("".join(piece.text for piece in pieces if piece.change in ("same", side)))
        for side in ("del", "ins")
    }
    at = {"del": 0, "ins": 0}
    for piece in pieces:
        sides = ("del", "ins") if piece.change == "same" else (piece.change,)
        first, last = (kinds[side][at[side] : at[side] + len(piece.text)] for side in (sides[0], sides[-1]))
        for side in sides:
            at[side] += len(piece.text)
        common = (
            first
            if first == last
            else bytes(one if one == other else 0 for one, other in zip(first, last, strict=True))
        )
        if piece.change != "same" and set(common) == {ProseKind.MARK}:
            common = bytes(len(common))  # the marks themselves are new or gone
        yield piece, list(_group_by_kind(piece.text, common))


def _classify_characters(text: str) -> bytes:
    kinds = bytearray(len(text))
    for match in _MARKED.finditer(text):
        if (name := match.lastgroup) is not None:
            first, last = match.span(name)
            kinds[match.start() : match.end()] = bytes([ProseKind.MARK]) * len(match[0])
            kinds[first:last] = bytes([ProseKind[name.upper()]]) * (last - first)
    return bytes(kinds)


def _group_by_kind(text: str, kinds: bytes) -> Iterator[ProseRun]:
    at = 0
    for kind, group in groupby(kinds):
        end = at + sum(1 for _ in group)
        yield ProseRun(ProseKind(kind), text[at:end])
        at = end
