"""Known words that are like a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

#: One edit is allowed for so many letters of the typed word, and so many edits at most.
_LETTERS_FOR_ONE_EDIT: Final = 4
_MAX_EDITS: Final = 3
#: Shortest word that may have an edit.
_MIN_EDITED_LENGTH: Final = 3


def compute_edit_distance(typed: str, known: str, *, limit: int) -> int:
    """Count the edits that turn one word into the other, `limit + 1` if there are more than `limit`.

    An edit adds, removes or replaces a letter, or swaps two neighbouring ones (the restricted Damerau-Levenshtein
    distance). Each letter is compared with at most `2 * limit + 1` others.
    """
    too_many = limit + 1
    if abs(len(typed) - len(known)) > limit:
        return too_many
    before: list[int] = []
    row = [min(column, too_many) for column in range(len(known) + 1)]
    for index, letter in enumerate(typed, 1):
        first, last = max(1, index - limit), min(len(known), index + limit)
        current = [too_many] * (len(known) + 1)
        current[0] = min(index, too_many)
        for column in range(first, last + 1):
            other = known[column - 1]
            edits = min(row[column] + 1, current[column - 1] + 1, row[column - 1] + (letter != other))
            if index > 1 < column and letter == known[column - 2] and typed[index - 2] == other:
                edits = min(edits, before[column - 2] + 1)
            current[column] = min(edits, too_many)
        if min(current[first - 1 : last + 1]) > limit and min(row[first - 1 : last + 1]) > limit:
            return too_many
        before, row = row, current
    return row[-1]


def get_max_edits(typed: str) -> int:
    """Return how many edits a word may have for a misspelling of the typed one."""
    if len(typed) < _MIN_EDITED_LENGTH:
        return 0
    return min(max(1, len(typed) // _LETTERS_FOR_ONE_EDIT), _MAX_EDITS)


def list_nearest_words(
    typed: str, known: Iterable[str], *, limit: int, frequencies: Mapping[str, int] | None = None
) -> list[str]:
    """List at most `limit` known words with the fewest edits, all of them with equally many.

    Those with the same first letter come first, then those with the highest of `frequencies`.
    """
    ranked = _rank_words_by_edits(typed, known, frequencies or {})
    return [word for edits, word in ranked if edits == ranked[0][0]][:limit]


def list_similar_words(typed: str, known: Iterable[str], *, limit: int) -> list[str]:
    """List the known words that differ from what was typed in a few letters, most similar first."""
    return [word for _edits, word in _rank_words_by_edits(typed, known, {})[:limit]]


def find_most_similar_word_or_empty(typed: str, known: Iterable[str]) -> str:
    return next(iter(list_similar_words(typed, known, limit=1)), "")


def _rank_words_by_edits(typed: str, known: Iterable[str], frequencies: Mapping[str, int]) -> list[tuple[int, str]]:
    """Rank the words with few edits by their number, then those with the same first letter first, then by frequency."""
    limit = get_max_edits(typed)
    letters = frozenset(typed)
    found = [
        (edits, word)
        for word in known
        # An edit adds at most one letter and removes at most one, so most words need no comparison.
        if len(letters.symmetric_difference(word)) <= 2 * limit
        and (edits := compute_edit_distance(typed, word, limit=limit)) <= limit
    ]
    found.sort(key=lambda entry: (entry[0], entry[1][:1] != typed[:1], -frequencies.get(entry[1], 0), entry[1]))
    return found
