"""Excerpts of texts that a search has found."""

from __future__ import annotations

import json

import pytest

from harness_site.core.masking.masker import use_masking_rules_with_extra_values
from harness_site.search.load_search_hits import build_excerpt_parts
from harness_site.search.query_terms import SearchQuery
from harness_site.search.text_extraction import extract_masked_message_text


def list_marked_texts(text: str, typed: str) -> list[str]:
    return [part.text for part in build_excerpt_parts(text, SearchQuery.parse(typed).highlight_pattern) if part.marked]


@pytest.mark.parametrize(
    ("typed", "text", "marked"),
    [
        ("pay a bill", "Tabs: a.py. Pay a\nbill.", ["a", "Pay a\nbill"]),
        ("pay a bill", "The bill of a repair: pay.", ["bill", "a", "pay"]),
        ("a", "Bananas", ["a", "a", "a"]),
        ("c+ c++ code", "c++code", ["c++", "code"]),
        ("東 tower", "東京 tower", ["東", "tower"]),
    ],
)
def test_words_in_a_row_are_marked_together_and_short_words_by_themselves(
    typed: str, text: str, marked: list[str]
) -> None:
    assert list_marked_texts(text, typed) == marked


def test_excerpt_is_around_the_longest_match() -> None:
    text = f"a lead. {'Filler. ' * 100}Updating a team to assign a lead is slow."
    marked = list_marked_texts(text, "updating a team to assign a lead")
    assert marked == ["Updating a team to assign a lead"]


def test_match_that_is_longer_than_an_excerpt_is_shown_whole() -> None:
    text = f"A long{' ' * 300}word"
    assert list_marked_texts(text, "long word") == [text.removeprefix("A ")]


@pytest.mark.parametrize("space", ["\t", "\n", "\u00a0"])
def test_white_space_in_quotes_is_no_word_of_a_row_that_could_be_matched_in_many_ways(space: str) -> None:
    typed = f'"{space}"' * 30 + " lamp"
    assert list_marked_texts(f"A{space * 58}lamp", typed)[-1] == "lamp"
    assert list_marked_texts("broken \t lamp", '"broken " "\t" " lamp"') == ["broken \t lamp"]


def test_excerpt_begins_with_a_whole_word() -> None:
    text = "the beginning is left out " + "abcdefghi " * 6 + "refund"
    first, *_rest = build_excerpt_parts(text, SearchQuery.parse("refund").highlight_pattern)
    assert first.text == "… "
    assert _rest[0].text == "abcdefghi " * 6


def test_excerpt_begins_with_the_line_of_the_match() -> None:
    text = f"I look first.\n{'A long line. ' * 9}\nsend_reply toolu_1\ntext: We corrected the invoice.\nticket: 7"
    parts = build_excerpt_parts(text, SearchQuery.parse("corrected").highlight_pattern)
    assert "".join(part.text for part in parts) == "… text: We corrected the invoice. · ticket: 7"


@pytest.mark.parametrize(
    ("typed", "text", "shown"),
    [
        ("lamp", "## Order\nIt is a **Desk lamp**, see `order-17`.", "Order · It is a Desk lamp, see order-17."),
        ("lamp", "| item | price |\n|---|---:|\n| lamp | 40.00 |", "item, price · lamp, 40.00"),
        ("lamp", "a | b\n- c\nids: 1\nids: 2\nids: 3\nname: lamp\n", "a | b · c · ids: 1, 2, 3 · name: lamp"),
        ("lamp", "5 ** 2 lamps ** 3 * x # y", "5 ** 2 lamps ** 3 * x # y"),
        ('"**lamp"', "a **lamp**", "a **lamp**"),
    ],
)
def test_marks_of_markdown_are_left_out_unless_they_were_searched(typed: str, text: str, shown: str) -> None:
    assert "".join(part.text for part in build_excerpt_parts(text, SearchQuery.parse(typed).highlight_pattern)) == shown


@pytest.mark.parametrize("sequence", ["\x1b[1m", "\x1bPx\x1b\\", "\x1b7", "\x9d0;title\x9c", "\x1b[>4;1m"])
def test_text_between_terminal_sequences_is_shown_and_masked_as_one(sequence: str) -> None:
    result = f"\x1b[31mlamp\x1b[0m of sesame-{sequence}street-7 is \x1b[2Kout"
    with use_masking_rules_with_extra_values(["sesame-street-7"]):
        text = extract_masked_message_text(json.dumps({"role": "tool", "content": result}), "").text
    parts = build_excerpt_parts(text, SearchQuery.parse("lamp").highlight_pattern)
    assert "".join(part.text for part in parts) == "lamp of ‹masked› is out"
