"""Rules of the Markdown parser: addresses in running text become links, and what takes too much work is given up.

The rules that come with the parser for addresses are quadratic: for each colon they read back and on through the text.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

#: Calls of inline rules for one text: a message of some screens needs a few thousand. Counted, not timed, so that the
#: same text always looks the same.
BUDGET: Final = 10_000
#: Cells that the tables of one text can have: lines times the bars of the longest one. The parser fills up short rows.
MAX_CELLS: Final = 30_000
_WORK: Final = "inline_rules"
#: What begins like this in running text becomes a link.
_SCHEMES: Final = ("http", "https")
#: Longer addresses stay text.
_LONGEST: Final = 2_000
_ADDRESS: Final = re.compile(rf"://(?:\[[\w:.]{{0,50}}\]|\w)[^\s<>\[\]\"'`|\x00-\x20\x7f]{{0,{_LONGEST}}}+")
#: What belongs to the sentence, not to the address, where it stands last.
_PUNCTUATION: Final = ".,:;!?*_~({…。、，！？"
_BRACKETS: Final = {")": "(", "}": "{"}


class TooMuchWork(Exception):
    """A text that is not parsed to its end. Show it as it is written."""


def install(parser: MarkdownIt) -> None:
    """Add the rules of this module to `parser`."""
    parser.inline.ruler.before("text", "count_work", _count_work)
    parser.inline.ruler.after("text", "address", _link_address)


def render(parser: MarkdownIt, text: str) -> str:
    """Return `text` as HTML. Raises `TooMuchWork` where it takes more than its budget."""
    if _cells(text) > MAX_CELLS:
        raise TooMuchWork
    env: MutableMapping[str, Any] = {_WORK: 0}
    return str(parser.render(text, env))


def _count_work(state: StateInline, _silent: bool) -> bool:
    state.env[_WORK] += 1
    if state.env[_WORK] > BUDGET:
        raise TooMuchWork
    return False


def _cells(text: str) -> int:
    if "|" not in text:
        return 0
    lines = text.split("\n")
    return len(lines) * max(line.count("|") for line in lines)


def _link_address(state: StateInline, silent: bool) -> bool:
    """Make a link of an address whose colon stands here. What is read beyond a link is not read again."""
    if state.linkLevel or not state.src.startswith("://", state.pos, state.posMax):
        return False
    scheme = _scheme_before(state)
    match = _ADDRESS.match(state.src, state.pos, state.posMax) if scheme else None
    if match is None or len(match.group()) > _LONGEST:
        return False
    rest = _without_punctuation(match.group())
    address = scheme + rest
    target = state.md.normalizeLink(address)
    if not state.md.validateLink(target):
        return False
    if not silent:
        state.pending = state.pending[: -len(scheme)]
        state.push("link_open", "a", 1).attrs = {"href": target}
        state.push("text", "", 0).content = state.md.normalizeLinkText(address)
        state.push("link_close", "a", -1)
    state.pos += len(rest)
    return True


def _scheme_before(state: StateInline) -> str:
    """Return the scheme that ends where the parser stands, as it is written; nothing where there is none, or where it
    is the end of a longer word."""
    before = state.src[max(0, state.pos - 1 - len("https")) : state.pos]
    for scheme in _SCHEMES:
        found = before[-len(scheme) :]
        if found.lower() != scheme:
            continue
        earlier = before[-len(scheme) - 1 : -len(scheme)]
        if not (earlier.isascii() and earlier.isalnum()) and earlier not in {".", "+", "-"}:
            return found
    return ""


def _without_punctuation(address: str) -> str:
    """Return `address` without the punctuation and the closing brackets of the sentence around it."""
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
