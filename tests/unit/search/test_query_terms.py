import pytest

from harness_site.search import trigram_search_conditions
from harness_site.search.query_terms import (
    MAX_TERMS,
    SearchQuery,
    SearchTerm,
    build_letter_pair_text_of_dense_scripts,
    do_terms_occur_outside_of_ids,
    fold_case,
)
from harness_site.search.text_extraction import OVERLAP, PIECE, split_into_overlapping_pieces


def terms(typed: str) -> list[str]:
    return [term.text for term in SearchQuery.parse(typed).terms]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("broken lamp", ["broken", "lamp"]),
        ('"broken lamp" refund', ["broken lamp", "refund"]),
        ('lamp lamp "unclosed', ["lamp", "unclosed"]),
        ("  ", []),
        ('""', []),
        ("a\0b \ud800c", ["ab", "c"]),
        (" ".join(map(str, range(20))), [str(number) for number in range(MAX_TERMS)]),
    ],
)
def test_query_is_split_into_terms(typed: str, expected: list[str]) -> None:
    assert terms(typed) == expected


@pytest.mark.parametrize(
    ("text", "indexed"),
    [
        ("ab", False),
        ("abc", True),
        ("a_b", False),
        ("re_81f3", True),
        ("漢", True),
        ("환불", True),
        ("за", False),
        ("!!!", False),
    ],
)
def test_indexable_terms(text: str, indexed: bool) -> None:
    assert SearchTerm(text).is_findable_by_index is indexed


@pytest.mark.parametrize(
    ("typed", "part"),
    [
        ("order-1-999839", "999839"),
        ("cus_NffrFeUfNV2Hib", "NffrFeUfNV2Hib"),
        ("2026-11-27", ""),
        ("customer-service", ""),
    ],
)
def test_rare_part_of_a_term_is_its_longest_part_with_a_digit(typed: str, part: str) -> None:
    assert SearchTerm(typed).longest_identifier_part == part


def test_index_reads_rare_parts_first_and_long_terms_before_short_ones() -> None:
    query = SearchQuery.parse("lamp order-1-999839 refund")
    assert trigram_search_conditions._list_most_selective_parts_first(query) == [
        "999839",
        "order-1-999839",
        "refund",
        "lamp",
    ]


def test_bigrams_of_dense_scripts_are_unique() -> None:
    assert build_letter_pair_text_of_dense_scripts("漢字漢字 and 表") == "  漢字  字漢  字  表"
    assert build_letter_pair_text_of_dense_scripts("Latin only") == ""


@pytest.mark.parametrize("term", ["漢", "字表", "漢字表", "abc字表"])
def test_bigrams_of_a_term_are_in_every_matching_text(term: str) -> None:
    text = build_letter_pair_text_of_dense_scripts("前abc漢字表後 abc字表")
    assert SearchTerm(term).dense_script_pairs
    assert all(f"  {pair}" in text for pair in SearchTerm(term).dense_script_pairs)


@pytest.mark.parametrize(("text", "part"), [("ΔΡΟΜΟΣΑ", "δρομοσ"), ("ΔΡΟΜΟΣ", "ΔΡΟΜΟΣΑ"[:6]), ("İÇ", "iç"), ("ẞ", "ß")])
def test_letters_are_folded_at_every_position(text: str, part: str) -> None:
    assert fold_case(part) in fold_case(text)
    assert SearchQuery.parse(part).matches_text(text)


def test_text_matches_all_terms_case_insensitively() -> None:
    assert SearchQuery.parse("LAMP broken").matches_text("The lamp arrived Broken.")
    assert not SearchQuery.parse("lamp refund").matches_text("The lamp arrived broken.")


@pytest.mark.parametrize("length", [0, 1, PIECE, PIECE + 1, 3 * PIECE])
def test_long_text_is_split_into_overlapping_pieces(length: int) -> None:
    text = "".join(chr(0x4E00 + number % 20_000) for number in range(length))
    found = list(split_into_overlapping_pieces(text))
    assert found[0] + "".join(piece[OVERLAP:] for piece in found[1:]) == text
    assert all(len(piece) <= PIECE for piece in found)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("typed", "text", "is_telling"),
    [
        ("0104", "msg_0104\nHello", False),
        ("0104", "Invoice 0104 of msg_0104", True),
        ("msg_0104", "msg_0104", True),
        ("0104", "of 01998190-fba6-7f40-98a0-104e9a0104ff", False),
        ("01998190-fba6-7f40-98a0-104e9a0104ff", "of 01998190-fba6-7f40-98a0-104e9a0104ff", True),
        ("0104", "order 123450104999", False),
        ("50104", "order 123450104999", True),
        ("ch_", "search_web", False),
        ("web", "search_web", True),
        ("oder", "The coder answers moderately.", False),
        ("oder", "Ja oder nein", True),
        ("voice", "The invoice", True),
        ("lamp 0104", "A lamp of msg_0104", False),
        ("灯", "的灯坏了", True),
    ],
)
def test_part_of_a_hash_or_of_another_word_tells_nothing(typed: str, text: str, is_telling: bool) -> None:
    assert do_terms_occur_outside_of_ids(SearchQuery.parse(typed), text) is is_telling
