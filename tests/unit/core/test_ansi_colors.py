import pytest
from django.utils.html import strip_tags

from harness_site.core.masking.masker import mask_text, use_masking_rules_with_extra_values
from harness_site.core.rendering import ansi_colors
from harness_site.core.rendering.line_chunks import LINES
from harness_site.core.rendering.markdown import mask_and_render_markdown
from tests.support.linear_growth import assert_linear


def test_colours_become_classes() -> None:
    assert ansi_colors.render_ansi_as_html("\x1b[1;31mFAILED\x1b[0m 3 <b>") == (
        '<span class="ansi-bold ansi-red">FAILED</span> 3 &lt;b&gt;'
    )


def test_style_applies_until_it_is_changed() -> None:
    shown = ansi_colors.render_ansi_as_html("\x1b[32ma\x1b[1mb\x1b[39mc\x1b[22md\x1b[97me")
    assert shown == (
        '<span class="ansi-green">a</span><span class="ansi-bold ansi-green">b</span><span class="ansi-bold">c</span>d'
        '<span class="ansi-white">e</span>'
    )


def test_only_the_length_of_many_colours_is_counted() -> None:
    assert (
        ansi_colors.render_ansi_as_html("\x1b[38;5;196;1mx\x1b[0m \x1b[48;2;1;2;3my")
        == '<span class="ansi-bold">x</span> y'
    )


def test_other_control_codes_are_made_visible() -> None:
    assert ansi_colors.render_ansi_as_html("\x1b]0;t\x1b[31mx\a") == '␛]0;t<span class="ansi-red">x␇</span>'
    assert ansi_colors.render_ansi_as_html("x\x1b[\x1b[2\ny") == "x␛[␛[2\ny"
    assert ansi_colors.render_ansi_as_html('<i> "') == "&lt;i&gt; &quot;"


def test_codes_that_move_the_cursor_are_left_out() -> None:
    assert ansi_colors.render_ansi_as_html("\x1b[2K\x1b[?25l\x1b[31mx\x1b[1A") == '<span class="ansi-red">x</span>'
    assert ansi_colors.render_ansi_as_html("\x1b[2Kx") == "x"


@pytest.mark.parametrize("parameters", ["", "?25", ">4;1", "38;2;255;255;255", "1;" * 30, "1;" * 50])
@pytest.mark.parametrize("final", ["h", "K", "m"])
def test_a_secret_that_is_split_by_a_code_is_masked_or_stays_split(parameters: str, final: str) -> None:
    with use_masking_rules_with_extra_values(["sesame-street-7"]):
        text = mask_text(f"sesame-\x1b[{parameters}{final}street-7")
    assert "sesame-street-7" not in strip_tags(ansi_colors.render_ansi_as_html(text))


def test_damaged_codes_are_shown_as_text() -> None:
    assert (
        ansi_colors.render_ansi_as_html("\x1b[;;;m\x1b[38m\x1b[99999999m\x1b[31mx\x1b[")
        == '<span class="ansi-red">x␛[</span>'
    )


def test_coloured_text_is_not_rendered_as_markdown() -> None:
    assert (
        mask_and_render_markdown("\x1b[31m# x\x1b[0m **y**")
        == '<pre class="plain"><span class="ansi-red"># x</span> **y**</pre>'
    )


def test_long_text_is_split_at_line_ends() -> None:
    text = "\x1b[31m" + "".join(f"{number}\n" for number in range(LINES)) + "<last>"
    first = "".join(f"{number}\n" for number in range(LINES))
    assert ansi_colors.render_ansi_as_html(text) == (
        f'<span class="line-chunk"><span class="ansi-red">{first}</span></span>'
        '<span class="line-chunk"><span class="ansi-red">&lt;last&gt;</span></span>'
    )
    assert ansi_colors.render_ansi_as_html(first + "<last>") == (
        f'<span class="line-chunk">{first}</span><span class="line-chunk">&lt;last&gt;</span>'
    )
    assert ansi_colors.render_ansi_as_html(first) == first
    assert ansi_colors.render_ansi_as_html("") == ""


def test_codes_beyond_the_limit_are_text() -> None:
    shown = ansi_colors.render_ansi_as_html("\x1b[1mx" * (ansi_colors.MAX_CODES + 2))
    assert shown.count("<span") == ansi_colors.MAX_CODES
    assert shown.endswith('<span class="ansi-bold">x␛[1mx␛[1mx</span>')


def test_parameters_beyond_the_limit_are_ignored() -> None:
    assert (
        ansi_colors.render_ansi_as_html(f"\x1b[{';' * (ansi_colors.MAX_PARAMETERS - 1)}1;31mx")
        == '<span class="ansi-bold">x</span>'
    )


def test_code_with_a_million_parameters_takes_linear_time() -> None:
    assert_linear(ansi_colors.render_ansi_as_html, lambda size: f"\x1b[{'1;' * (size // 2)}m")
