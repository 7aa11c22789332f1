from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_site.core.rendering import ansi_colors
from harness_site.core.rendering.markdown import LIMIT, mask_and_render_markdown
from harness_site.core.rendering.syntax_highlighting import CLASSES

TAGS = {
    *("a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s"),
    *("span", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}

NOTE = '<p class="muted">This text is shown as it was written, because formatting it would take too long.</p>'


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]


def parsed(html: str) -> _Reader:
    reader = _Reader()
    reader.feed(html)
    return reader


def test_markdown_is_rendered() -> None:
    assert mask_and_render_markdown("**bold** and `code`") == "<p><strong>bold</strong> and <code>code</code></p>\n"


def test_line_breaks_are_kept() -> None:
    assert mask_and_render_markdown("one\ntwo") == "<p>one<br>\ntwo</p>\n"


def test_indentation_of_pasted_code_is_kept() -> None:
    html = mask_and_render_markdown("import {\n  Lamp,\n\tpassword:\n   Hunter1x\n}\n- a\n  b")
    assert (
        'import {<br>\n<span class="spaces">  </span>Lamp,<br>\n<span class="spaces">    </span>password:<br>\n' in html
    )
    assert "Hunter" not in html
    assert "<li>a<br>\nb</li>" in html  # the item's own indentation


def test_runs_of_spaces_are_kept() -> None:
    html = mask_and_render_markdown("- add '    print(x)'\n\n  a  *b* c\td")
    assert "<li>\n<p>add '<span class=\"spaces\">    </span>print(x)'</p>" in html
    assert '<p>a<span class="spaces">  </span><em>b</em> c<span class="spaces">\t</span>d</p>' in html


def test_headings_are_below_those_of_the_page() -> None:
    assert mask_and_render_markdown("# a\n### b\n###### c") == "<h3>a</h3>\n<h4>b</h4>\n<h5>c</h5>\n"
    assert mask_and_render_markdown("### a") == "<h3>a</h3>\n"
    assert "<h6>f</h6>" in mask_and_render_markdown("# a\n## b\n### c\n#### d\n##### e\n###### f")


def test_html_tags_are_escaped() -> None:
    assert mask_and_render_markdown("<script>alert(1)</script>") == "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n"
    assert mask_and_render_markdown("<b>unclosed") == "<p>&lt;b&gt;unclosed</p>\n"


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java\tscript:alert(1)",
        "&#106;avascript:alert(1)",
        "vbscript:x",
        "data:text/html,<script>",
        "file:///etc/passwd",
        "//evil.example/x",
        "/accounts/logout/",
        "?next=x",
    ],
)
def test_other_url_schemes_are_not_linked(address: str) -> None:
    for text in (f"[x]({address})", f"[x](<{address}>)", f"<{address}>", f"![x]({address})", f"[x]: {address}\n\n[x]"):
        assert [name for _, name, _ in parsed(mask_and_render_markdown(text)).attributes if name == "href"] == []


@pytest.mark.parametrize("written", ["http://a.example/b?c=1", "https://a.example/"])
def test_url_in_text_becomes_a_link(written: str) -> None:
    reader = parsed(mask_and_render_markdown(f"See {written} (or not)."))
    assert ("a", "href", written) in reader.attributes


@pytest.mark.parametrize(
    "name", ["main.py", "README.md", "run.sh", "www.a.example", "a@a.example", "//a.example", "x://a.sh"]
)
def test_file_and_host_names_are_not_linked(name: str) -> None:
    """Not even beside a URL: a click on `main.py` would request a host that somebody registered under that name."""
    assert mask_and_render_markdown(f"See {name}") == f"<p>See {name}</p>\n"
    hrefs = [
        value
        for _, attribute, value in parsed(mask_and_render_markdown(f"See {name} and http://b.example")).attributes
        if attribute == "href"
    ]
    assert hrefs == ["http://b.example"]


def test_links_send_no_referrer() -> None:
    assert mask_and_render_markdown("[x](https://a.example/?b=1&c=2)") == (
        '<p><a href="https://a.example/?b=1&amp;c=2" rel="noopener noreferrer nofollow">x</a></p>\n'
    )


def test_remote_image_is_a_link() -> None:
    assert mask_and_render_markdown("![a chart](https://a.example/b.png)") == (
        '<p><a href="https://a.example/b.png" rel="noopener noreferrer nofollow">Image: a chart</a></p>\n'
    )


def test_embedded_image_is_named_with_its_size() -> None:
    assert (
        mask_and_render_markdown("![a chart](data:image/png;base64,AAAA)")
        == "<p>[image: a chart, 26 bytes inside the text]</p>\n"
    )


def test_code_language_is_not_used_as_a_css_class() -> None:
    html = mask_and_render_markdown('```evil" onclick="x\n<b>\n```\n\n```python\nreturn 1\n```')
    assert {name for _, name, _ in parsed(html).attributes} == {"class", "tabindex"}
    assert {value for _, _, value in parsed(html).attributes} <= CLASSES | {"code", "0"}


def test_hidden_characters_are_shown() -> None:
    assert mask_and_render_markdown("a\u202eb\x00\ud800") == "<p>a‹U+202E›b␀‹U+D800›</p>\n"


def test_very_long_text_is_shown_as_plain_text() -> None:
    text = "**x** <b>" * (LIMIT // 9 + 1)
    assert (
        mask_and_render_markdown(text)
        == f'{NOTE}<pre class="plain">{text.replace("<", "&lt;").replace(">", "&gt;")}</pre>'
    )


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("(http://a.example/b)", "http://a.example/b"),
        ("http://a.example/b_(c)", "http://a.example/b_(c)"),
        ("**http://a.example/**", "http://a.example/"),
        ("http://a.example/__init__.py", "http://a.example/__init__.py"),
        ("HTTPS://a.example!", "HTTPS://a.example"),
        ("看http://a.example/é。", "http://a.example/%C3%A9"),
        ("http://[::1]:80/", "http://[::1]:80/"),
        ("xhttp://a.example", None),
        ("http\\://a.example", None),
        ("`http://a.example`", None),
        ("http://", None),
        (f"http://a/{'b' * 3000}", None),
    ],
)
def test_url_ends_before_the_punctuation_of_its_sentence(text: str, address: str | None) -> None:
    hrefs = [value for _, name, value in parsed(mask_and_render_markdown(text)).attributes if name == "href"]
    assert hrefs == ([] if address is None else [address])


def test_url_inside_a_link_is_not_linked_again() -> None:
    assert mask_and_render_markdown("[http://b.example](http://a.example)") == (
        '<p><a href="http://a.example" rel="noopener noreferrer nofollow">http://b.example</a></p>\n'
    )


@pytest.mark.parametrize("text", ["![" * 10_000, f"|{'a|' * 400}\n|{'-|' * 400}\n" + "|\n" * 400])
def test_text_beyond_the_budget_is_shown_as_plain_text(text: str) -> None:
    assert mask_and_render_markdown(text) == f'{NOTE}<pre class="plain">{ansi_colors.render_ansi_as_html(text)}</pre>'


@given(st.text(st.sampled_from("<>&\"'`*_[]()!#|-\n\\/:=ajsx \u202e\ud800"), max_size=200))
def test_output_contains_only_allowed_tags(text: str) -> None:
    html = mask_and_render_markdown(text)
    reader = parsed(html)
    assert reader.tags <= TAGS
    assert {name for _, name, _ in reader.attributes} <= {"href", "title", "rel", "start", "class", "tabindex"}
    assert html.encode().decode() == html
