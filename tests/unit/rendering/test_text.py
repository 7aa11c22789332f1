import pytest

from harness_site.rendering.text import Folded, byte_size, fold, size, visible


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("a\x00b", "a␀b"),
        ("a\x1b[31mb", "a␛[31mb"),
        ("a\x7fb", "a‹U+007F›b"),
        ("a\u202eexe.png", "a‹U+202E›exe.png"),
        ("a\u2066b\u2069", "a‹U+2066›b‹U+2069›"),
        ("a\ud800b", "a‹U+D800›b"),
        ("a\U000e0041b", "a‹U+E0041›b"),
        ("a\ufeffb", "a‹U+FEFF›b"),
        ("a\r\nb\rc", "a\nb␍c"),
    ],
)
def test_what_would_hide_is_shown(hidden: str, shown: str) -> None:
    assert visible(hidden) == shown
    assert visible(hidden).encode().decode() == shown


@pytest.mark.parametrize("text", ["", "plain", "a\tb\nc", "שלום عالم", "👩\u200d🔬 café"])
def test_everything_else_stays(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 KB"),
        (12_345, "12 KB"),
        (5_200_000, "5.2 MB"),
        (1_000_000_000, "1.0 GB"),
        (10_000_000_000_000, "10000 GB"),
    ],
)
def test_sizes_are_readable(count: int, words: str) -> None:
    assert size(count) == words


def test_sizes_are_of_bytes() -> None:
    assert byte_size("é") == 2
    assert byte_size("\ud800") == 3


def test_a_short_text_stays_whole() -> None:
    assert fold("one two", 7) == Folded("one two", True, 7)
    assert fold("one two!!", 8) == Folded("one two!!", True, 9)


def test_a_long_text_is_cut_at_a_line_or_a_word() -> None:
    assert fold("one two\nthree four five", 12).text == "one two"
    assert fold("one two three four five", 12).text == "one two"
    assert fold("x" * 100, 12).text == "x" * 12


def test_a_fold_says_the_size_of_the_whole() -> None:
    assert fold("é" * 100, 10) == Folded("é" * 10, False, 200)


def test_many_lines_are_a_long_text() -> None:
    assert fold("\n".join("abcdefgh"), 100, lines=3) == Folded("a\nb\nc", False, 15)
    assert fold("a\nb\nc\nd", 100, lines=3).whole
