import pytest
from django.utils.safestring import SafeString

from harness_site.core.rendering.html_match_highlighting import MarkedHtml, mark_search_words_and_open_folds


def shown(html: str, *words: str, named: bool = False) -> str:
    return str(mark_search_words_and_open_folds(SafeString(html), words, named=named).html)


@pytest.mark.parametrize(
    ("html", "word", "expected"),
    [
        ("<p>A lamp, a Lamp</p>", "LAMP", "<p>A <mark>lamp</mark>, a <mark>Lamp</mark></p>"),
        ('<a href="/p" title="a > p">p</a>', "p", '<a href="/p" title="a > p"><mark>p</mark></a>'),
        ("a &amp; b", "amp", "a &amp; b"),
        ("a &amp; b", "a & b", "<mark>a &amp; b</mark>"),
        ("&lt;b&gt; &#x27;x&#x27;", "<b> 'x'", "<mark>&lt;b&gt; &#x27;x&#x27;</mark>"),
        ("a.c abc", "a.c", "<mark>a.c</mark> abc"),
        ("<b>la</b>mp", "lamp", "<b>la</b>mp"),
    ],
)
def test_words_are_marked_only_between_tags(html: str, word: str, expected: str) -> None:
    assert shown(html, word) == expected


def test_role_and_time_beside_a_message_are_not_marked() -> None:
    html = SafeString("<aside><b>User</b><time>22:43:37</time></aside><p>Batch 3</p>")
    expected = html.replace("Batch 3", "Batch <mark>3</mark>")
    assert mark_search_words_and_open_folds(html, ("3", "user")) == MarkedHtml(SafeString(expected), complete=False)


def test_longest_of_several_words_is_marked_and_each_is_counted() -> None:
    assert shown("refund re", "re", "refund") == "<mark>refund</mark> <mark>re</mark>"
    assert mark_search_words_and_open_folds(SafeString("refund"), ("re", "REFUND")) == MarkedHtml(
        SafeString("<mark>refund</mark>"), True
    )
    assert not mark_search_words_and_open_folds(SafeString("refund"), ("refund", "lamp")).complete
    assert mark_search_words_and_open_folds(SafeString("<p>x</p>"), ()) == MarkedHtml(SafeString("<p>x</p>"), True)


def test_folds_around_a_mark_are_open() -> None:
    closed = "<details><summary>x</summary>none</details>"
    inner = '<details class="long">a lamp</details>'
    opened = '<details open class="long">a <mark>lamp</mark></details>'
    assert shown(f"{closed}<details>{inner}</details>", "lamp") == f"{closed}<details open>{opened}</details>"
    assert (
        shown("<details open>lamp lamp</details>", "lamp")
        == "<details open><mark>lamp</mark> <mark>lamp</mark></details>"
    )


def test_only_the_first_mark_has_an_anchor() -> None:
    assert shown("lamp lamp", "lamp", named=True) == '<mark id="found">lamp</mark> <mark>lamp</mark>'


def test_words_in_a_row_have_one_mark_and_count_each() -> None:
    marked = mark_search_words_and_open_folds(SafeString("Batch  12: done, batch 3"), ("batch", "12:"))
    assert marked == MarkedHtml(SafeString("<mark>Batch  12:</mark> done, <mark>batch</mark> 3"), True)


def test_marks_of_the_current_match_stand_out() -> None:
    marked = mark_search_words_and_open_folds(SafeString("a lamp"), ("lamp",), current=True)
    assert marked.html == 'a <mark class="current">lamp</mark>'
