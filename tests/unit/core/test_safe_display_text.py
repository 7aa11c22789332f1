import pytest

from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden, mask_safe_link_or_return_empty
from harness_site.core.rendering.text_shortening import FoldedText, cut_text_to_preview, format_byte_size, get_byte_size


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
def test_hidden_characters_are_made_visible(hidden: str, shown: str) -> None:
    assert mask_and_reveal_hidden(hidden) == shown
    assert mask_and_reveal_hidden(hidden).encode().decode() == shown


@pytest.mark.parametrize("text", ["", "plain", "a\tb\nc", "שלום عالم", "👩\u200d🔬 café"])
def test_other_characters_are_unchanged(text: str) -> None:
    assert mask_and_reveal_hidden(text) == text


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
    assert format_byte_size(count) == words


def test_sizes_count_bytes() -> None:
    assert get_byte_size("é") == 2
    assert get_byte_size("\ud800") == 3


def test_short_text_is_not_cut() -> None:
    assert cut_text_to_preview("one two", 7) == FoldedText("one two", True, 7)
    assert cut_text_to_preview("one two!!", 8) == FoldedText("one two!!", True, 9)


def test_long_text_is_cut_at_a_line_or_word() -> None:
    assert cut_text_to_preview("one two\nthree four five", 12).text == "one two"
    assert cut_text_to_preview("one two three four five", 12).text == "one two"
    assert cut_text_to_preview("x" * 100, 12).text == "x" * 12


def test_folded_text_shows_the_total_size() -> None:
    assert cut_text_to_preview("é" * 100, 10) == FoldedText("é" * 10, False, 200)


def test_text_of_many_lines_is_long() -> None:
    assert cut_text_to_preview("\n".join("abcdefgh"), 100, lines=3) == FoldedText("a\nb\nc", False, 15)
    assert cut_text_to_preview("a\nb\nc\nd", 100, lines=3).whole


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", " javascript:alert(1)", "data:x", "//a.example", "http://", "http://[", "", None]
)
def test_only_web_addresses_become_links(address: object) -> None:
    assert mask_safe_link_or_return_empty(address) == ""


def test_web_address_becomes_a_link() -> None:
    assert mask_safe_link_or_return_empty("https://bank.example/#re_81f3") == "https://bank.example/#re_81f3"
