"""What changed inside a text, word by word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

#: Words with the space before them, so that a changed word does not break the text around it.
_WORD = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
#: Matching takes time with the square of this; longer texts are compared by lines, still longer ones as a whole.
_MOST = 3000
#: So many words decide how much two texts have in common.
_SAMPLE = 300


@dataclass(frozen=True, slots=True)
class Piece:
    change: Literal["same", "del", "ins"]
    text: str


def diff(old: str, new: str) -> tuple[Piece, ...]:
    """The pieces of both texts in order. Without `ins` they are `old`, without `del` they are `new`."""
    for pattern in (_WORD, _LINE):
        before, after = pattern.findall(old), pattern.findall(new)
        if max(len(before), len(after)) <= _MOST:
            break
    else:
        before, after = [old], [new]
    pieces: list[Piece] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            pieces.append(Piece("same", "".join(before[i1:i2])))
            continue
        if i1 < i2:
            pieces.append(Piece("del", "".join(before[i1:i2])))
        if j1 < j2:
            pieces.append(Piece("ins", "".join(after[j1:j2])))
    return tuple(pieces)


def likeness(old: str, new: str) -> float:
    """From 0 (nothing in common) to 1 (the same), judged by the beginnings of both."""
    before, after = _WORD.findall(old[: _SAMPLE * 8])[:_SAMPLE], _WORD.findall(new[: _SAMPLE * 8])[:_SAMPLE]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= 0.5 else 0.0
