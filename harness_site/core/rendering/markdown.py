"""Rendering of Markdown as harmless HTML: no tags or classes of the author, links to http, https and mailto only.

There are two independent protections: the parser accepts neither HTML nor other schemes, and its output passes a
sanitizer with an allowlist.
"""

import re
from collections.abc import Iterator, MutableMapping, Sequence
from functools import lru_cache
from typing import Any

import nh3
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, gettext
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline, newline
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from harness_site.core.masking.masker import MaskingRules, get_current_masking_rules, mask_adjacent_texts, mask_text
from harness_site.core.rendering import ansi_colors, markdown_work_budget_and_autolinks
from harness_site.core.rendering.safe_display_text import reveal_hidden_characters
from harness_site.core.rendering.syntax_highlighting import CLASSES, mask_and_highlight_code
from harness_site.core.rendering.text_shortening import format_byte_size, get_byte_size

#: Longer text is not parsed (characters).
LIMIT = 50_000
#: Heading levels for Markdown; the headings of the page end at h2.
_FIRST, _LAST = 3, 6
_BLOCKS = {"blockquote", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "ul"}
_TABLES = {"table", "tbody", "td", "th", "thead", "tr"}
#: Spaces that a browser would collapse: several in a row, tabs, and those at the beginning of a line.
_COLLAPSING_SPACES = re.compile(r"[ \t]{2,}|\t")
_COLLAPSING_SPACES_OF_LINE = re.compile(rf"^[ \t]+|{_COLLAPSING_SPACES.pattern}")
_WORDS = {"a", "br", "code", "del", "em", "s", "span", "strong", "sub", "sup"}

_cleaner = nh3.Cleaner(
    tags=_BLOCKS | _TABLES | _WORDS,
    attributes={"a": {"href", "title"}, "ol": {"start"}},
    allowed_classes={"pre": {"code"}, "span": {*CLASSES, "spaces"}},
    # Blocks that may be wider than the page take the focus, so that keys scroll them.
    set_tag_attribute_values={"pre": {"tabindex": "0"}, "table": {"tabindex": "0"}},
    url_schemes={"http", "https", "mailto"},
    url_relative="deny",
    link_rel="noopener noreferrer nofollow",
)


def mask_and_render_markdown(text: str) -> SafeString:
    """Render Markdown as safe HTML; text with terminal colours is not parsed.

    Remote images become links, so that a page loads nothing from other hosts.
    """
    text = mask_text(text)
    if len(text) > LIMIT:
        return _render_unparsed_with_note(text)
    return _parse_and_render_markdown_cached(text, get_current_masking_rules(), get_language())


def _render_plain_text(text: str) -> SafeString:
    return format_html('<pre class="plain">{}</pre>', ansi_colors.render_ansi_as_html(text))


def _render_unparsed_with_note(text: str) -> SafeString:
    """Render text that is too expensive to parse as it is, with a note."""
    note = gettext("This text is shown as it was written, because formatting it would take too long.")
    return format_html('<p class="muted">{}</p>{}', note, _render_plain_text(text))


@lru_cache(maxsize=1024)
def _parse_and_render_markdown_cached(text: str, _rules: MaskingRules | None, _language: str | None) -> SafeString:
    # Cached by the masking rules of the reader, which `_mask_parsed_tokens` uses, and by the language of descriptions.
    if ansi_colors.has_ansi_style_codes(text):
        return _render_plain_text(text)
    try:
        html = markdown_work_budget_and_autolinks.render_or_raise_too_much_work(_parser, reveal_hidden_characters(text))
    except markdown_work_budget_and_autolinks.TooMuchWork:
        return _render_unparsed_with_note(text)
    # Reveal hidden characters again, as entities become characters only in this step.
    return mark_safe(reveal_hidden_characters(_cleaner.clean(html)))  # noqa: S308 - this is the sanitiser


def _mask_and_highlight_code_block(code: str, language: str, _attributes: str) -> str:
    """Highlight a code block. Its secrets are masked here, as no other rule sees its text."""
    return f'<pre class="code">{mask_and_highlight_code(code, language)}</pre>'


def _demote_headings(state: StateCore) -> None:
    """Demote headings below those of the page, without gaps between their levels."""
    headings = [token for token in state.tokens if token.type in {"heading_open", "heading_close"}]
    levels = sorted({token.tag for token in headings})
    for token in headings:
        token.tag = f"h{min(_FIRST + levels.index(token.tag), _LAST)}"


def _mask_parsed_tokens(state: StateCore) -> None:
    """Mask the text of tokens; markup, entities and escapes may have split a secret."""
    for token in state.tokens:
        if token.type == "inline":
            _mask_inline_tokens(token.children or [])
        elif token.content:
            token.content = mask_text(token.content)


def _mask_inline_tokens(tokens: Sequence[Token]) -> None:
    token_texts = list(_iterate_token_texts(tokens))
    pieces = mask_adjacent_texts([piece for _, piece in token_texts])
    for (token, _), piece in zip(token_texts, pieces, strict=True):
        if token is not None:
            token.content = piece
    for token in tokens:
        for name in ("href", "src", "title"):
            if isinstance(address := token.attrs.get(name), str):
                token.attrs[name] = mask_text(address)


def _iterate_token_texts(tokens: Sequence[Token]) -> Iterator[tuple[Token | None, str]]:
    """Yield the text of each token, and the separators between them."""
    for token in tokens:
        if token.type == "image":
            yield from _iterate_token_texts(token.children or [])
        elif token.type == "code_inline":
            yield from ((None, "`"), (token, token.content), (None, "`"))
        elif token.type in {"softbreak", "hardbreak"}:
            yield None, "\n"
        else:
            yield token, token.content


def _render_image_as_link(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
) -> str:
    token = tokens[index]
    source = str(token.attrs.get("src", ""))
    alt = renderer.renderInlineAsText(token.children or [], options, env)
    if source.startswith("data:"):
        size = format_byte_size(get_byte_size(source))
        if alt:
            return escape(gettext("[image: %(name)s, %(size)s inside the text]") % {"name": alt, "size": size})
        return escape(gettext("[image without a name, %(size)s inside the text]") % {"size": size})
    return format_html('<a href="{}">{}</a>', source, gettext("Image: %(name)s") % {"name": alt or source})


def _break_line_and_keep_indentation(state: StateInline, silent: bool) -> bool:
    """Break a line as the parser does, and keep the indentation of the next one: people paste code without a fence."""
    start = state.pos + 1
    if not newline(state, silent):
        return False
    if not silent:
        state.pending += " " * len(state.src[start : state.pos].expandtabs(4))
    return True


def _render_text_with_its_spaces(
    _renderer: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: MutableMapping[str, Any]
) -> str:
    """Keep all spaces: they are a part of what a model was told, for example of code."""
    begins_line = index > 0 and tokens[index - 1].type in {"softbreak", "hardbreak"}
    spaces = _COLLAPSING_SPACES_OF_LINE if begins_line else _COLLAPSING_SPACES
    return spaces.sub(r'<span class="spaces">\g<0></span>', escape(tokens[index].content))


def _build_markdown_parser() -> MarkdownIt:
    parser = MarkdownIt("js-default", {"html": False, "breaks": True, "highlight": _mask_and_highlight_code_block})
    parser.core.ruler.push("demote", _demote_headings)
    parser.core.ruler.push("mask", _mask_parsed_tokens)
    parser.inline.ruler.at("newline", _break_line_and_keep_indentation)
    parser.add_render_rule("image", _render_image_as_link)
    parser.add_render_rule("text", _render_text_with_its_spaces)
    markdown_work_budget_and_autolinks.install_budget_and_autolink_rules(parser)
    return parser


_parser = _build_markdown_parser()
