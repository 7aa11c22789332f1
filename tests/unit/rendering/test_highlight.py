import re

from harness_site.rendering.highlight import CLASSES, LIMIT, highlight


def test_words_get_classes_of_ours() -> None:
    html = highlight("def f(): return '<b>'", "python")
    assert set(re.findall(r'class="([^"]*)"', html)) <= CLASSES
    assert '<span class="hl-k">def</span>' in html
    assert "&lt;b&gt;" in html


def test_an_unknown_language_is_plain_text() -> None:
    assert highlight("<b>", 'nope" onclick="x') == "&lt;b&gt;"


def test_very_long_code_is_plain_text() -> None:
    assert highlight("<" * (LIMIT + 1), "html") == "&lt;" * (LIMIT + 1)


def test_hidden_characters_are_shown() -> None:
    assert highlight("x\u202e", "nope") == "x‹U+202E›"
