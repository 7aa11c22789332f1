import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_site.core import word_diff
from harness_site.core.word_diff import DiffPiece

texts = st.text(st.sampled_from("ab .,\n\u00e9"), max_size=60)


def test_only_the_changed_words_are_marked() -> None:
    assert word_diff.compute_word_diff(
        "The order qualifies for a partial refund.", "The order qualifies for a full refund."
    ) == (
        DiffPiece("same", "The order qualifies for a"),
        DiffPiece("del", " partial"),
        DiffPiece("ins", " full"),
        DiffPiece("same", " refund."),
    )


def test_appended_words_do_not_mark_earlier_ones() -> None:
    assert word_diff.compute_word_diff("A refund.", "A refund; I am sending it.") == (
        DiffPiece("same", "A refund"),
        DiffPiece("ins", "; I am sending it"),
        DiffPiece("same", "."),
    )


@given(texts, texts)
def test_pieces_contain_both_texts(old: str, new: str) -> None:
    pieces = word_diff.compute_word_diff(old, new)
    assert "".join(piece.text for piece in pieces if piece.change != "ins") == old
    assert "".join(piece.text for piece in pieces if piece.change != "del") == new


def test_long_text_is_compared_by_lines() -> None:
    lines = [f"{number} is one of many numbers\n" for number in range(1000)]
    pieces = word_diff.compute_word_diff("".join(lines), "".join([*lines[:500], "something else\n", *lines[501:]]))
    assert [(piece.change, piece.text) for piece in pieces[1:3]] == [("del", lines[500]), ("ins", "something else\n")]


def test_text_with_too_many_lines_is_replaced_completely() -> None:
    old, new = "a\n" * 4000, "b\n" * 4000
    assert word_diff.compute_word_diff(old, new) == (DiffPiece("del", old), DiffPiece("ins", new))


def test_similarity_ranges_from_zero_to_one() -> None:
    assert word_diff.compute_similarity_of_beginnings("one two three", "one two three") == 1.0
    assert word_diff.compute_similarity_of_beginnings("one two three", "four five six") == 0.0
    assert word_diff.compute_similarity_of_beginnings("one two three four", "one two three five") == 0.75


@pytest.mark.parametrize(
    ("text", "space", "marked"), [(" at noon", " ", "at noon"), ("\n\n- one\n", "\n\n", "- one\n"), ("  ", "", "  ")]
)
def test_space_before_a_changed_word_is_outside_of_its_mark(text: str, space: str, marked: str) -> None:
    piece = DiffPiece("ins", text)
    assert (piece.space_before_mark, piece.marked_text) == (space, marked)
