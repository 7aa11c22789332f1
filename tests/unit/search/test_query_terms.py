import pytest

from harness_site.search.query_terms import MOST, SearchQuery, SearchTerm, build_dense_script_pairs, fold_case
from harness_site.search.text_extraction import OVERLAP, PIECE, split_into_pieces


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
        (" ".join(map(str, range(20))), [str(number) for number in range(MOST)]),
    ],
)
def test_what_is_typed_becomes_terms(typed: str, expected: list[str]) -> None:
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
def test_what_the_index_can_look_for(text: str, indexed: bool) -> None:
    assert SearchTerm(text).indexed is indexed


def test_every_pair_of_a_dense_script_is_kept_once() -> None:
    assert build_dense_script_pairs("漢字漢字 and 表") == "  漢字  字漢  字  表"
    assert build_dense_script_pairs("Latin only") == ""


@pytest.mark.parametrize("term", ["漢", "字表", "漢字表", "abc字表"])
def test_the_pairs_of_a_term_stand_in_every_text_with_it(term: str) -> None:
    text = build_dense_script_pairs("前abc漢字表後 abc字表")
    assert SearchTerm(term).pairs
    assert all(f"  {pair}" in text for pair in SearchTerm(term).pairs)


@pytest.mark.parametrize(("text", "part"), [("ΔΡΟΜΟΣΑ", "δρομοσ"), ("ΔΡΟΜΟΣ", "ΔΡΟΜΟΣΑ"[:6]), ("İÇ", "iç"), ("ẞ", "ß")])
def test_each_letter_is_folded_wherever_in_a_word_it_stands(text: str, part: str) -> None:
    assert fold_case(part) in fold_case(text)
    assert SearchQuery.parse(part).within(text)


def test_a_text_holds_all_terms_in_any_case() -> None:
    assert SearchQuery.parse("LAMP broken").within("The lamp arrived Broken.")
    assert not SearchQuery.parse("lamp refund").within("The lamp arrived broken.")


@pytest.mark.parametrize("length", [0, 1, PIECE, PIECE + 1, 3 * PIECE])
def test_pieces_are_a_text_with_overlaps(length: int) -> None:
    text = "".join(chr(0x4E00 + number % 20_000) for number in range(length))
    found = list(split_into_pieces(text))
    assert found[0] + "".join(piece[OVERLAP:] for piece in found[1:]) == text
    assert all(len(piece) <= PIECE for piece in found)
    assert len(set(found)) == len(found)
