"""JSON values as labelled lists that fold, complete unless a limit is given, and then honest about it."""

import json
from dataclasses import dataclass
from typing import Any

from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from harness_site.rendering.masking import (
    MASK,
    fields_of,
    hidden_items,
    is_secret_number,
    masked_beginning,
    masked_value,
)
from harness_site.rendering.safe_text import escape_hidden
from harness_site.rendering.text import byte_size, fold, size, visible

#: Characters that a tree inside a conversation may hold.
PREVIEW = 6_000
#: A longer text or a longer list is folded, not cut.
_LONG = 600
_MANY = 12
#: Deeper values are written as JSON text.
_DEEP = 8
#: Values that a tree may hold; larger ones are written as JSON text as a whole.
MAX_NODES = 5_000
_NOTE = mark_safe('<p class="muted">Shown as JSON text: it has too many values for a list of them.</p>')
#: Values that are written one on a line.
MAX_INDENTED = 10_000


@dataclass(frozen=True, slots=True)
class Tree:
    """`whole` says that everything is in `html`; `size` is that of the value as JSON text, in bytes."""

    html: SafeString
    whole: bool
    size: int


def tree(value: Any, *, limit: int | None = PREVIEW, fold: bool = True) -> Tree:
    """A JSON value as HTML. With `limit`, what lies beyond so many characters is left out and said to be; without
    `fold`, everything stands open."""
    if limit is None and _more_nodes_than(value, MAX_NODES):
        text = json.dumps(masked_value(value), ensure_ascii=False)
        return Tree(format_html("{}{}", _NOTE, _plain(text)), True, byte_size(text))
    writer = _Writer(limit, fold)
    html = writer.value(value, 0)
    return Tree(html, writer.whole, byte_size(json.dumps(value, ensure_ascii=False)))


def dumped(value: Any, indent: int | None = None) -> str:
    """A JSON value as text, with its secrets masked, and what hides in it as JSON escapes: the value stays the same.

    It is on one line, whatever `indent` says, where the spaces before deep lines would make it many times as long.
    """
    value = masked_value(value)
    text = json.dumps(value, ensure_ascii=False)
    if indent is not None and not _more_nodes_than(value, MAX_INDENTED):
        text = json.dumps(value, ensure_ascii=False, indent=indent)
    return escape_hidden(text)


def _more_nodes_than(value: Any, most: int) -> bool:
    """Whether lists and objects hold more than `most` values altogether."""
    count, waiting = 0, [value]
    while waiting and count <= most:
        inner = waiting.pop()
        if isinstance(inner, dict | list):
            count += len(inner)
            waiting += inner.values() if isinstance(inner, dict) else inner
    return count > most


def _plain(text: str) -> SafeString:
    return format_html('<pre class="plain">{}</pre>', visible(text))


class _Writer:
    """Masks each value when it comes to it, so that what is left out is not looked through."""

    def __init__(self, limit: int | None, fold: bool) -> None:
        self.left = limit
        self.fold = fold
        self.whole = True

    def value(self, value: Any, depth: int) -> SafeString:
        if isinstance(value, dict | list) and value:
            return self._nested(value, depth)
        if isinstance(value, str):
            return self._text(value, '"')
        return self._text(MASK if is_secret_number(value) else dumped(value), "")

    def _nested(self, value: dict[str, Any] | list[Any], depth: int) -> SafeString:
        if depth >= _DEEP:
            return self._text(dumped(value), "")
        pairs = _pairs(value)
        rows: list[tuple[str, SafeString]] = []
        for name, inner, hidden in pairs:
            if self.left is not None and self.left <= 0:
                break
            self._spend(len(name) + 4)
            rows.append((visible(name), self._text(MASK, '"') if hidden else self.value(inner, depth + 1)))
        body = format_html_join("", '<dt><bdi>{}</bdi></dt><dd dir="auto">{}</dd>', rows)
        if len(rows) < len(pairs):
            self.whole = False
            missing = len(pairs) - len(rows)
            body += format_html('<dt>…</dt><dd class="cut">{} more</dd>', missing)
        listing = format_html('<dl class="kv">{}</dl>', body)
        if self.fold and depth and len(pairs) > _MANY:
            return format_html("<details><summary>{}</summary>{}</details>", _count(value), listing)
        return listing

    def _text(self, text: str, quote: str) -> SafeString:
        shown, missing = text, 0
        if self.left is not None and len(text) > max(self.left, _LONG):
            folded = fold(text, max(self.left, _LONG))
            shown, missing = folded.text, byte_size(text) - byte_size(folded.text)
        self._spend(len(shown))
        beginning = masked_beginning(text, len(shown)) if missing else shown
        quoted = f"{quote}{visible(beginning)}{quote if not missing else ''}"
        if missing:
            self.whole = False
            return format_html('{}<span class="cut">… {} more</span>', quoted, size(missing))
        if self.fold and len(text) > _LONG:
            head = visible(masked_beginning(text, len(fold(text, _LONG // 4).text)))
            summary = format_html('{}{}… <span class="cut">{}</span>', quote, head, size(byte_size(text)))
            return format_html('<details class="long"><summary>{}</summary>{}</details>', summary, quoted)
        return conditional_escape(quoted)

    def _spend(self, amount: int) -> None:
        if self.left is not None:
            self.left -= amount


def _pairs(value: dict[str, Any] | list[Any]) -> list[tuple[str, Any, bool]]:
    """The names as they are shown, the values, and whether these are secret."""
    if isinstance(value, dict):
        return [(field.name, field.value, field.hidden) for field in fields_of(value)]
    hidden = hidden_items(value)
    return [(str(place + 1), item, place in hidden) for place, item in enumerate(value)]


def _count(value: dict[str, Any] | list[Any]) -> SafeString:
    noun = "entries" if isinstance(value, dict) else "items"
    return mark_safe(f"{len(value)} {noun}")  # noqa: S308 - a number and a word of ours
