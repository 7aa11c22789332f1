"""Regular expressions that take linear time."""

import threading
from random import Random

import pytest

from harness_site.core.linear_regex import UnsupportedPattern, compile_pattern
from harness_site.core.masking.masker import MASK, mask_text
from tests.support.linear_growth import assert_linear

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP"


def test_pattern_matches_text_in_any_script() -> None:
    found = list(compile_pattern(r"(\pL+)=(\d+)").finditer("größe=12, 名前=7"))
    assert [(match.span(), match.group(1), match[2]) for match in found] == [
        ((0, 8), "größe", "12"),
        ((10, 14), "名前", "7"),
    ]


@pytest.mark.parametrize("text", ["a1, bc22", "ä1, ßc22", "\ud8001, \udfffc22"])
def test_spans_are_those_of_the_matches(text: str) -> None:
    for pattern in (compile_pattern(r"\d+"), compile_pattern(r"(\pL)(\d+)"), compile_pattern("x")):
        assert list(pattern.iterate_spans(text)) == [match.span() for match in pattern.finditer(text)]


def test_flags_for_case_and_line_breaks() -> None:
    assert compile_pattern("key.value").search("KEY\nVALUE") is None
    match = compile_pattern("key.value", ignore_case=True, dot_all=True).search("KEY\nVALUE")
    assert match is not None
    assert match.span() == (0, 9)


def test_lone_surrogate_does_not_shift_a_match() -> None:
    match = compile_pattern("b+").search("\ud800é\udfffbb")
    assert match is not None
    assert match.span() == (3, 5)


@pytest.mark.parametrize("pattern", [r"(?<=a)b", r"(a)\1", "a++", "(?>a)", "a{1,1001}", "[", "\ud800"])
def test_pattern_without_linear_time_matching_is_refused(pattern: str) -> None:
    with pytest.raises(UnsupportedPattern, match="linear time"):
        compile_pattern(pattern)


def test_other_threads_run_during_a_search() -> None:
    # A program too large for the fast automaton: the search takes a while.
    pattern = compile_pattern(r"x[\w-]{100,200}y[\w]{100,300}z")
    text = "".join(Random(1).choices("xyz-", k=1_000_000))
    searching, meanwhile = threading.Event(), 0

    def search() -> None:
        searching.set()
        list(pattern.finditer(text))

    thread = threading.Thread(target=search)
    thread.start()
    searching.wait()
    while thread.is_alive():
        thread.join(0.001)
        meanwhile += 1
    assert meanwhile > 10


def test_text_of_token_prefixes_is_masked_in_linear_time() -> None:
    assert_linear(mask_text, lambda size: "eyJ-" * (size // 4))


def test_token_inside_a_longer_word_is_masked() -> None:
    assert mask_text(f"eyJ-{TOKEN}") == MASK
    assert mask_text(f"x-{TOKEN} y") == f"x-{MASK} y"


@pytest.mark.parametrize("text", ["a=1; b", "ä=1; b"])
def test_groups_of_a_match_are_the_same_for_ascii_and_other_text(text: str) -> None:
    found = list(compile_pattern(r"(?P<name>\pL)(=(\d))?").finditer(text))
    first = text[0]
    assert [(match.span(), match.start(1), match.end(), match.span(3)) for match in found] == [
        ((0, 3), 0, 3, (2, 3)),
        ((5, 6), 5, 6, (-1, -1)),
    ]
    assert [(match[0], match["name"], match.group("name"), match.groups()) for match in found] == [
        (f"{first}=1", first, first, (first, "=1", "1")),
        ("b", "b", "b", ("b", None, None)),
    ]
