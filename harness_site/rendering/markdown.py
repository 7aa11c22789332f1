"""Markdown to HTML that cannot do anything: no tag of its author's, no class, no address but http, https and mailto.

Two fences, each enough by itself: the parser takes no HTML and refuses other addresses, and what it makes passes a
sanitiser with a closed list.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from functools import lru_cache
from typing import Any

import nh3
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from harness_site.rendering import ansi, markdown_rules
from harness_site.rendering.highlight import CLASSES, highlight
from harness_site.rendering.masking import Rules, masked, masked_pieces, rules_in_force
from harness_site.rendering.text import byte_size, size, uncovered

#: Longer text is shown as it is written.
LIMIT = 50_000
_NOTE = mark_safe('<p class="muted">Shown as it is written: it would take too long to format.</p>')
#: The pages' own headings end at h2.
_FIRST, _LAST = 3, 6
_BLOCKS = {"blockquote", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "ul"}
_TABLES = {"table", "tbody", "td", "th", "thead", "tr"}
_WORDS = {"a", "br", "code", "del", "em", "s", "span", "strong", "sub", "sup"}

_cleaner = nh3.Cleaner(
    tags=_BLOCKS | _TABLES | _WORDS,
    attributes={"a": {"href", "title"}, "ol": {"start"}},
    allowed_classes={"pre": {"code"}, "span": set(CLASSES)},
    url_schemes={"http", "https", "mailto"},
    url_relative="deny",
    link_rel="noopener noreferrer nofollow",
)


def prose(text: str) -> SafeString:
    """`text`, read as Markdown, as safe HTML; as it is where it has the colours of a terminal. Remote images become
    links: opening a page calls no other host."""
    text = masked(text)
    return _as_written(text) if len(text) > LIMIT else _prose(text, rules_in_force())


def _plain(text: str) -> SafeString:
    return format_html('<pre class="plain">{}</pre>', ansi.html(text))


def _as_written(text: str) -> SafeString:
    """All of a text that is too much to read as Markdown, after a note that says so."""
    return format_html("{}{}", _NOTE, _plain(text))


@lru_cache(maxsize=1024)
def _prose(text: str, _rules: Rules | None) -> SafeString:
    # Remembered under the rules of the reader, by which `_mask` goes.
    if ansi.coloured(text):
        return _plain(text)
    try:
        html = markdown_rules.render(_parser, uncovered(text))
    except markdown_rules.TooMuchWork:
        return _as_written(text)
    # Once more at the end: what is written as an entity becomes a character only here.
    return mark_safe(uncovered(_cleaner.clean(html)))  # noqa: S308 - this is the sanitiser


def _code(code: str, language: str, _attributes: str) -> str:
    return f'<pre class="code">{highlight(code, language)}</pre>'


def _demote(state: StateCore) -> None:
    """Headings of a text stand below those of the page, without a gap between their levels."""
    headings = [token for token in state.tokens if token.type in {"heading_open", "heading_close"}]
    levels = sorted({token.tag for token in headings})
    for token in headings:
        token.tag = f"h{min(_FIRST + levels.index(token.tag), _LAST)}"


def _mask(state: StateCore) -> None:
    """Mask what will be shown. Marks, entities and escapes may have stood inside what is secret."""
    for token in state.tokens:
        if token.type == "inline":
            _mask_inline(token.children or [])
        elif token.content:
            token.content = masked(token.content)


def _mask_inline(tokens: Sequence[Token]) -> None:
    shown = list(_shown(tokens))
    pieces = masked_pieces([piece for _, piece in shown])
    for (token, _), piece in zip(shown, pieces, strict=True):
        if token is not None:
            token.content = piece
    for token in tokens:
        for name in ("href", "src", "title"):
            if isinstance(address := token.attrs.get(name), str):
                token.attrs[name] = masked(address)


def _shown(tokens: Sequence[Token]) -> Iterator[tuple[Token | None, str]]:
    """The text of each token, and what separates them."""
    for token in tokens:
        if token.type == "image":
            yield from _shown(token.children or [])
        elif token.type == "code_inline":
            yield from ((None, "`"), (token, token.content), (None, "`"))
        elif token.type in {"softbreak", "hardbreak"}:
            yield None, "\n"
        else:
            yield token, token.content


def _image(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
) -> str:
    token = tokens[index]
    source = str(token.attrs.get("src", ""))
    alt = renderer.renderInlineAsText(token.children or [], options, env)
    if source.startswith("data:"):
        return escape(f"[image: {alt or 'without a name'}, {size(byte_size(source))} inside the text]")
    return format_html('<a href="{}">{}</a>', source, f"Image: {alt or source}")


def _parser_with_rules() -> MarkdownIt:
    made = MarkdownIt("js-default", {"html": False, "breaks": True, "highlight": _code})
    made.core.ruler.push("demote", _demote)
    made.core.ruler.push("mask", _mask)
    made.add_render_rule("image", _image)
    markdown_rules.install(made)
    return made


_parser = _parser_with_rules()
