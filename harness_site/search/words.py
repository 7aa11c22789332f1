"""What somebody looks for, and how texts are prepared for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

#: Nobody looks for more at once.
MOST: Final = 8
LONGEST: Final = 200
_TERM = re.compile(r'"([^"]+)"|(\S+)')
#: Scripts in which one or two letters are a word: kana, bopomofo, Han, Hangul, Yi.
_DENSE: Final = (
    "\u3040-\u30ff\u3100-\u312f\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua48f\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_DENSE_RUN = re.compile(f"[{_DENSE}]+")
#: Three letters or digits in a row are the least that the index of words can look for.
_WORD = re.compile(r"[^\W_]{3}")
#: Stands before each pair: with it, even one letter is long enough for an index of triples.
GAP: Final = "  "


@dataclass(frozen=True, slots=True)
class Term:
    """One word or quoted phrase, found wherever it stands inside a text, in any case."""

    text: str

    @property
    def pairs(self) -> tuple[str, ...]:
        """What has to stand in `Passage.dense` of every text with this term."""
        return tuple(dict.fromkeys(pair for run in _DENSE_RUN.findall(self.text) for pair in _pairs(run)))

    @property
    def indexed(self) -> bool:
        """Whether the index can look for it at all, in either way."""
        return bool(_WORD.search(self.text) or self.pairs)


@dataclass(frozen=True, slots=True)
class Query:
    """All of these terms have to stand in one text."""

    terms: tuple[Term, ...]

    @classmethod
    def parse(cls, typed: str) -> Query:
        cleaned = "".join(each for each in typed[:LONGEST] if each != "\0" and not "\ud800" <= each <= "\udfff")
        found = (phrase or word for phrase, word in _TERM.findall(cleaned))
        return cls(tuple(map(Term, dict.fromkeys(text.strip('"') for text in found if text.strip(' "'))))[:MOST])

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __str__(self) -> str:
        """As somebody would type it."""
        return " ".join(f'"{term.text}"' if " " in term.text else term.text for term in self.terms)

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(term.text for term in self.terms)

    @property
    def indexed(self) -> bool:
        """Whether one of the terms leads through the index; otherwise texts have to be read one by one."""
        return any(term.indexed for term in self.terms)

    @property
    def pattern(self) -> re.Pattern[str]:
        """Finds any of the terms; longer ones first, so that the longest is marked."""
        texts = sorted((term.text for term in self.terms), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, texts)), re.IGNORECASE)

    def within(self, text: str) -> bool:
        """Whether every term stands in `text`."""
        return all(re.search(re.escape(term.text), text, re.IGNORECASE) for term in self.terms)


def folded(text: str) -> str:
    """`text` as it is looked through, without upper case; each letter on its own, wherever in a word it stands."""
    return text.replace("İ", "i").lower().replace("ς", "σ")


def dense(text: str) -> str:
    """For `Passage.dense`: every pair of neighbours of dense scripts in `text`, each once, a last letter alone."""
    runs = _DENSE_RUN.findall(text)
    words = dict.fromkeys(run[at : at + 2] for run in runs for at in range(len(run)))
    return "".join(f"{GAP}{word}" for word in words)


def _pairs(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]
