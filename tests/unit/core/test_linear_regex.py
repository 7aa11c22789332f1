"""The engine whose work grows in proportion to the text."""

import threading
from random import Random

import pytest

from harness_site.core.masking.masker import MASK, mask_text
from harness_site.core.rendering.linear_regex import UnsupportedPattern, compile_pattern
from tests.support.linear_growth import assert_linear

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP"


def test_a_pattern_finds_what_it_describes_in_any_script() -> None:
    found = list(compile_pattern(r"(\pL+)=(\d+)").finditer("größe=12, 名前=7"))
    assert [(match.span(), match.group(1), match[2]) for match in found] == [
        ((0, 8), "größe", "12"),
        ((10, 14), "名前", "7"),
    ]


def test_case_and_line_breaks_count_unless_said_otherwise() -> None:
    assert compile_pattern("key.value").search("KEY\nVALUE") is None
    match = compile_pattern("key.value", ignore_case=True, dot_all=True).search("KEY\nVALUE")
    assert match is not None
    assert match.span() == (0, 9)


def test_a_half_of_a_character_moves_no_match() -> None:
    match = compile_pattern("b+").search("\ud800é\udfffbb")
    assert match is not None
    assert match.span() == (3, 5)


@pytest.mark.parametrize("pattern", [r"(?<=a)b", r"(a)\1", "a++", "(?>a)", "a{1,1001}", "[", "\ud800"])
def test_what_cannot_be_matched_in_linear_time_is_refused_with_its_reason(pattern: str) -> None:
    with pytest.raises(UnsupportedPattern, match="linear time"):
        compile_pattern(pattern)


def test_other_threads_run_while_a_text_is_searched() -> None:
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


def test_a_word_full_of_beginnings_of_tokens_is_masked_in_linear_time() -> None:
    assert_linear(mask_text, lambda size: "eyJ-" * (size // 4))


def test_a_token_inside_a_longer_word_is_masked() -> None:
    assert mask_text(f"eyJ-{TOKEN}") == MASK
    assert mask_text(f"x-{TOKEN} y") == f"x-{MASK} y"
