"""Edits between words, and the order of similar words."""

import re

import pytest

from harness_site.core.similar_words import compute_edit_distance, list_nearest_words, list_similar_words
from harness_site.search.query_terms import MisspeltWord


@pytest.mark.parametrize(
    ("typed", "known", "edits"),
    [
        ("refund", "refund", 0),
        ("reufnd", "refund", 1),
        ("refnud", "refund", 1),
        ("erfund", "refund", 1),
        ("invoce", "invoice", 1),
        ("chandeleer", "chandelier", 1),
        ("ca", "abc", 3),  # a swapped pair is not edited again
        ("abcd", "badc", 2),
        ("", "ab", 2),
        ("kitten", "sitting", 3),
        ("chandeleer", "handler", 3),
    ],
)
def test_swap_of_neighbouring_letters_counts_as_one_edit(typed: str, known: str, edits: int) -> None:
    assert compute_edit_distance(typed, known, limit=3) == edits
    assert compute_edit_distance(known, typed, limit=3) == edits


def test_more_edits_than_the_limit_are_not_counted() -> None:
    assert compute_edit_distance("kitten", "sitting", limit=1) == 2
    assert compute_edit_distance("a" * 9, "b" * 9, limit=2) == 3


def test_nearest_words_are_sorted_by_first_letter_and_frequency() -> None:
    frequencies = {"lamp": 1, "lump": 9, "damp": 99, "lamps": 0, "chair": 5}
    assert list_nearest_words("limp", frequencies, limit=3, frequencies=frequencies) == ["lump", "lamp"]
    assert list_nearest_words("lamp", frequencies, limit=3, frequencies=frequencies) == ["lamp"]
    assert list_similar_words("lamp", frequencies, limit=3) == ["lamp", "lamps", "lump"]


def test_regular_expression_matches_just_the_words_with_one_edit() -> None:
    letters = "abc"
    words = [""]
    for _ in range(6):
        words += [word + letter for word in words if len(word) == len(max(words, key=len)) for letter in letters]
    for typed in ("abca", "aabb"):
        pattern = re.compile(MisspeltWord(typed).regex)
        for word in words:
            edits = compute_edit_distance(typed, word, limit=2)
            # the typed word is made of itself by one edit as well, by replacing a letter with itself
            assert bool(pattern.fullmatch(word)) == (edits <= 1), word


def test_each_word_with_one_edit_has_a_part() -> None:
    typed = "abcdef"
    edited = [typed[:at] + "x" + typed[at + cut :] for at in range(7) for cut in (0, 1)]
    edited += [typed[:at] + typed[at + 1 :] for at in range(6)]
    edited += [typed[:at] + typed[at + 1] + typed[at] + typed[at + 2 :] for at in range(5)]
    assert all(any(part in word for part in MisspeltWord(typed).parts) for word in edited)
