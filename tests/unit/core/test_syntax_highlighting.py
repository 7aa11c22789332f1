import re
from html import unescape

import pytest

from harness_site.core.rendering.syntax_highlighting import CLASSES, LIMIT, mask_and_highlight_code


def test_tokens_get_known_css_classes() -> None:
    html = mask_and_highlight_code("def f(): return '<b>'", "python")
    assert set(re.findall(r'class="([^"]*)"', html)) <= CLASSES
    assert '<span class="hl-k">def</span>' in html
    assert "&lt;b&gt;" in html


@pytest.mark.parametrize(
    ("language", "code", "html"),
    [
        ("json", '{"a": "b", "n": -1.5, "t": true}', '"a"[nt] "b"[s] "n"[nt] 1.5[m] "t"[nt] true[k]'),
        ("py", 'def f(a1): """x\ny"""  # z', 'def[k] """x\ny"""[s] # z[c]'),
        ("js", "let a = `b\nc` // d\n/* e", "let[k] `b\nc`[s] // d[c] /* e[c]"),
        ("bash", "if a#b; then echo 'c d' # e", "if[k] then[k] echo[k] 'c d'[s] # e[c]"),
        ("yaml", "a-b: true # c", "a-b[nt] true[k] # c[c]"),
        ("SQL", "SELECT 1 -- x", "SELECT[k] 1[m] -- x[c]"),
        ("html", '<a b="c"><!-- d', '<a[nt] "c"[s] <!-- d[c]'),
        ("diff", "--- a\n+b\n-c\n d", "--- a[gh] +b[gi] -c[gd]"),
        ("c", 'char *s = "never closed\nint i;', 'char[k] "never closed[s] int[k]'),
    ],
)
def test_each_language_family_has_keywords(language: str, code: str, html: str) -> None:
    shown = mask_and_highlight_code(code, language)
    found = re.findall(r'<span class="hl-(\w+)">(.*?)</span>', shown, re.DOTALL)
    assert " ".join(f"{unescape(text)}[{kind}]" for kind, text in found) == html
    assert unescape(re.sub("<[^>]*>", "", shown)) == code


def test_unknown_language_is_plain_text() -> None:
    assert mask_and_highlight_code("<b>", 'nope" onclick="x') == "&lt;b&gt;"


def test_very_long_code_is_plain_text() -> None:
    assert mask_and_highlight_code("<" * (LIMIT + 1), "html") == "&lt;" * (LIMIT + 1)


def test_hidden_characters_are_shown() -> None:
    assert mask_and_highlight_code("x\u202e", "nope") == "x‹U+202E›"
