"""Known words that are like a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

#: Smallest similarity of a word that may be meant, from 0 to 1: one of four letters differs.
_MIN_SIMILARITY: Final = 0.75


def list_similar_words(typed: str, known: Iterable[str], *, limit: int) -> list[str]:
    """List the known words that differ from what was typed in a few letters, most similar first."""
    return get_close_matches(typed, list(known), n=limit, cutoff=_MIN_SIMILARITY)


def find_most_similar_word_or_empty(typed: str, known: Iterable[str]) -> str:
    return next(iter(list_similar_words(typed, known, limit=1)), "")
