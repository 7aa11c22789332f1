from harness_site.core.word_diff import DiffPiece, compute_word_diff
from harness_site.sessions.templatetags.harness_comparison import render_pieces_of_prose


def show(old: str, new: str) -> str:
    return str(render_pieces_of_prose(compute_word_diff(old, new)))


def test_bold_words_and_code_look_as_in_the_transcript() -> None:
    html = show("The refund of **32.70 EUR** for `a<1` is late", "The refund of **32.70 EUR** for `a<1` is done")
    assert html == (
        "The refund of <strong>32.70 EUR</strong> for <code>a&lt;1</code> is <del>late</del><ins>done</ins>"
    )


def test_changed_words_keep_their_marks_off() -> None:
    pieces = (
        DiffPiece("same", "In **"),
        DiffPiece("del", "701"),
        DiffPiece("ins", "702"),
        DiffPiece("same", "** now"),
    )
    html = render_pieces_of_prose(pieces)
    assert html == "In <del><strong>701</strong></del><ins><strong>702</strong></ins> now"


def test_marks_of_only_one_text_are_shown() -> None:
    pieces = (DiffPiece("same", "In **701"), DiffPiece("ins", "**"))
    assert render_pieces_of_prose(pieces) == "In **701<ins>**</ins>"
    assert show("```\n**a**\n```", "```\n**a**\n``` b") == "```\n**a**\n```<ins> b</ins>"


def test_middle_of_a_long_unchanged_text_is_folded() -> None:
    html = show("**Begin** " + "word " * 200 + "x", "**Begin** " + "word " * 200 + "y")
    assert html.startswith("<strong>Begin</strong> word ")
    assert "unchanged characters … " in html
