import pytest
from django.utils.safestring import SafeString

from harness_site.rendering.marking import marked


@pytest.mark.parametrize(
    ("html", "words", "expected", "count"),
    [
        ("<p>A lamp, a Lamp</p>", "LAMP", "<p>A <mark>lamp</mark>, a <mark>Lamp</mark></p>", 2),
        ('<a href="/p" title="a > p">p</a>', "p", '<a href="/p" title="a > p"><mark>p</mark></a>', 1),
        ("a &amp; b", "amp", "a &amp; b", 0),
        ("a &amp; b", "a & b", "<mark>a &amp; b</mark>", 1),
        ("&lt;b&gt; &#x27;x&#x27;", "<b> 'x'", "<mark>&lt;b&gt; &#x27;x&#x27;</mark>", 1),
        ("a.c abc", "a.c", "<mark>a.c</mark> abc", 1),
        ("<b>la</b>mp", "lamp", "<b>la</b>mp", 0),
        ("<p>x</p>", "", "<p>x</p>", 0),
    ],
)
def test_words_are_marked_between_tags_alone(html: str, words: str, expected: str, count: int) -> None:
    assert marked(SafeString(html), words) == (expected, count)
