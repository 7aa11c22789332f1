import pytest

from harness_site.core import masked_formatting
from harness_site.core.masking.masker import use_masking_rules_with_extra_values
from harness_site.core.rendering.terminal_sequence_removal import remove_terminal_sequences


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("\x1b[31m\x1b[1mnpm ERR!\x1b[0m code 1", "npm ERR! code 1"),
        ("\x9b38;5;196mred\x9b0m \x1b[48:2::1:2:3mwide\x1b[m", "red wide"),
        ("done\x1b[2K\x1b[1Gnext", "done next"),
        ("done \x1b[2K next", "done next"),
        ("\x1b[?25lhidden cursor\x1b[?25h", "hidden cursor "),
        ("\x1b]0;title of the window\x07text", "text"),
        ("see \x1b]8;;https://example.org/ü\x1b\\the page\x1b]8;;\x1b\\!", "see the page!"),
        ("\x9d0;title\x9ctext \x1bPq#0\x1b\\.", "text ."),
        ("\x1b(B\x1b7\x1bcplain\x1b8", "plain"),
        ("beep\x07 back\x08 null\x00 delete\x7f \x84", "beep back null delete "),
        ("10 %\r20 %\r\n30 %\r\r\n\tend", "10 %\n20 %\n30 %\n\tend"),
        ("cut \x1b[38;5", "cut "),
        ("cut \x1b", "cut "),
        ("\x1b\x1b[31mred \x1b[3\x1b[1mbold \x1b \x9b0mend", "red bold end"),
        ("\x1b\x1b]0;title\x07text \x1b(\x1b[mend", "text end"),
        ("open \x1b]0;title goes on", "open 0;title goes on"),
        ("déjà vu\tÜ\n", "déjà vu\tÜ\n"),
        ("\u202e and \u200b stay", "\u202e and \u200b stay"),
    ],
)
def test_sequences_and_control_characters_are_removed(output: str, shown: str) -> None:
    assert remove_terminal_sequences(output) == shown


def test_output_on_one_line_has_no_sequences_and_is_masked_behind_them() -> None:
    with use_masking_rules_with_extra_values(["sesame-street-7"]):
        line = masked_formatting.mask_and_shorten_output_to_one_line(
            "\x1b[31mfailed\x1b[0m with\r\nsesame-\x1b[1mstreet-7\x1b[0m \u202ex", 60
        )
    assert line == "failed with ‹masked› ‹U+202E›x"
    assert masked_formatting.mask_and_shorten_output_to_one_line("\x1b[31m" * 100 + "abcdef", 4) == "abc…"


def test_output_on_one_line_has_no_horizontal_rules() -> None:
    output = "⎯⎯⎯ Failed Tests 1 ⎯⎯⎯\n┌──────┐\n│ FAIL │ a.py\n======\n-v --x === y"
    assert masked_formatting.mask_and_shorten_output_to_one_line(output, 60) == "Failed Tests 1 FAIL a.py -v --x === y"
