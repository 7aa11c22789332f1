"""Markdown parser rules: links for bare URLs, and limits on the work for one text.

The parser's own rules for bare URLs take quadratic time: they scan the text in both directions for each colon.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

#: Maximum calls of inline rules for one text; a message of a few screens needs some thousand. Calls are counted and not
#: timed, so that the same text always looks the same.
BUDGET: Final = 10_000
#: Maximum table cells of one text: lines times the columns of the widest one, as the parser fills up short rows.
MAX_CELLS: Final = 30_000
_WORK: Final = "inline_rules"
#: Schemes of bare URLs that become links.
_SCHEMES: Final = ("http", "https")
#: Maximum length of a URL; longer ones stay text.
_MAX_URL_LENGTH: Final = 2_000
_ADDRESS: Final = re.compile(rf"://(?:\[[\w:.]{{0,50}}\]|\w)[^\s<>\[\]\"'`|\x00-\x20\x7f]{{0,{_MAX_URL_LENGTH}}}+")
#: Trailing punctuation that belongs to the sentence, not to the URL.
_PUNCTUATION: Final = ".,:;!?*_~({…。、，！？"
_BRACKETS: Final = {")": "(", "}": "{"}


class TooMuchWork(Exception):
    """Raised if a text exceeds its budget. Display it unparsed."""


def install_budget_and_autolink_rules(parser: MarkdownIt) -> None:
    """Add the rules of this module to `parser`."""
    parser.inline.ruler.before("text", "count_work", _spend_parser_budget)
    parser.inline.ruler.after("text", "address", _parse_bare_url)


def render_or_raise_too_much_work(parser: MarkdownIt, text: str) -> str:
    """Render `text` as HTML. Raises `TooMuchWork` if it exceeds the budget."""
    if _estimate_table_cells(text) > MAX_CELLS:
        raise TooMuchWork
    env: MutableMapping[str, Any] = {_WORK: 0}
    return str(parser.render(text, env))


def _spend_parser_budget(state: StateInline, _silent: bool) -> bool:
    state.env[_WORK] += 1
    if state.env[_WORK] > BUDGET:
        raise TooMuchWork
    return False


def _estimate_table_cells(text: str) -> int:
    if "|" not in text:
        return 0
    lines = text.split("\n")
    return len(lines) * max(line.count("|") for line in lines)


def _parse_bare_url(state: StateInline, silent: bool) -> bool:
    """Parse a bare URL whose colon is at the current position.

    Text that was scanned for one URL is not scanned again.
    """
    if state.linkLevel or not state.src.startswith("://", state.pos, state.posMax):
        return False
    scheme = _get_scheme_before_or_empty(state)
    match = _ADDRESS.match(state.src, state.pos, state.posMax) if scheme else None
    if match is None or len(match.group()) > _MAX_URL_LENGTH:
        return False
    matched = _strip_trailing_punctuation(match.group())
    address = scheme + matched
    target = state.md.normalizeLink(address)
    if not state.md.validateLink(target):
        return False
    if not silent:
        state.pending = state.pending[: -len(scheme)]
        state.push("link_open", "a", 1).attrs = {"href": target}
        state.push("text", "", 0).content = state.md.normalizeLinkText(address)
        state.push("link_close", "a", -1)
    state.pos += len(matched)
    return True


def _get_scheme_before_or_empty(state: StateInline) -> str:
    """Return the scheme that ends at the current position; empty if there is none or it is part of a longer word."""
    before = state.src[max(0, state.pos - 1 - len("https")) : state.pos]
    for scheme in _SCHEMES:
        spelling = before[-len(scheme) :]
        if spelling.lower() != scheme:
            continue
        previous = before[-len(scheme) - 1 : -len(scheme)]
        if not (previous.isascii() and previous.isalnum()) and previous not in {".", "+", "-"}:
            return spelling
    return ""


def _strip_trailing_punctuation(address: str) -> str:
    """Return a URL without the punctuation and closing brackets of the sentence around it."""
    excess = {close: address.count(close) - address.count(opening) for close, opening in _BRACKETS.items()}
    end = len(address)
    while end > len("://") + 1:
        last = address[end - 1]
        if last in _BRACKETS and excess[last] > 0:
            excess[last] -= 1
        elif last not in _PUNCTUATION:
            break
        end -= 1
    return address[:end]
