"""JSON values as foldable labelled lists, complete unless a limit is given, in which case the omission is named."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from django.utils.formats import number_format
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext, ngettext, pgettext

from harness_site.core.hidden_characters import escape_hidden_in_json
from harness_site.core.masking.masker import (
    MASK,
    MaskedField,
    find_list_item_indexes_secret_to_reader,
    get_masked_text_beginning,
    is_secret_number,
    mask_field_names_and_list_all_fields,
    mask_json_value,
    mask_text,
)
from harness_site.core.rendering import markdown
from harness_site.core.rendering.fast_format_html import build_html, join_html
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.rendering.text_shortening import cut_text_to_preview, format_byte_size, get_byte_size

#: Maximum characters of a tree in a conversation.
PREVIEW = 6_000
#: Longer texts and lists are folded.
_FOLD_TEXT_LENGTH = 600
_FOLD_LIST_LENGTH = 12
#: Values with more lines show the first ones where nothing is folded, with a control for the others.
_CLAMP_LINES = 40
#: Characters of a line of a text, about.
_LINE_LENGTH = 75
#: Classes of the columns of a long list, by the number of characters of its longest value.
_COLUMN_WIDTHS = ((8, "narrow"), (28, "wide"))
#: Maximum numbers of characters of a value and of a row of a table for a list of objects.
_WIDEST_CELL: Final = 40
_WIDEST_ROW: Final = 64
#: Maximum number of characters of a row of a table that has room beside the names of two objects around it.
_WIDEST_NARROW_ROW: Final = 27
#: Values nested deeper are written as JSON text.
MAX_TREE_DEPTH = 8
#: Maximum number of values in a tree; larger values are written as JSON text.
MAX_NODES = 5_000
_NOTE = mark_safe('<p class="muted">Shown as JSON text: it has too many values for a list of them.</p>')
#: What begins a heading, an item of a list or a quotation of Markdown, and what marks words in a line of it.
_MARKDOWN_MARKS = (
    re.compile(r"(?:\A|\n[ \t]*\n)#{1,6} \S[^\n]*(?:\n[ \t]*\n|\Z)"),
    re.compile(r"(?:\A|\n[ \t]*\n)(?:[-*+]|1[.)]) +\S"),
    re.compile(r"(?:\A|\n[ \t]*\n)> \S"),
    re.compile(r"\*\*\w[^*\n]*\*\*"),
    re.compile(r"\[[^\]\n]+\]\(https?://[^)\s]+\)"),
)
#: Number of these marks that a text in Markdown has at least: one alone may be a comment of a program.
_LEAST_MARKDOWN_MARKS = 2
#: Maximum number of values for indentation.
MAX_INDENTED = 10_000
_WHITE_SPACE: Final = re.compile(r"(\s+)")
#: A short text in which a browser would end a line after a hyphen: `LED-E14-4W` in a narrow column is one code.
_SHORT_HYPHENATED_WORD: Final = re.compile(r"(?=\S{1,24}\Z)\S*-\S*")
#: Texts that programs use for amounts, which people read as numbers.
_AMOUNT = re.compile(r"-?[0-9]+\.[0-9]+")
#: Texts that are blank or look like a number, a word of JSON, an object, a list, or a text in quotes.
_AMBIGUOUS_TEXT = re.compile(
    r"""\s*+(?:
        [+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?
        | true | false | null | none
        | \{\s*+(?:".*)?\}
        | \[\s*+(?:(?:["\[{\d-]|true|false|null).*)?\]
        | ".*"
    )?\s*""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class RenderedTree:
    """A rendered value. `whole` is True if nothing is omitted; `size` is that of the JSON text in bytes."""

    html: SafeString
    whole: bool
    size: int


def mask_and_render_json_tree(
    value: Any,
    *,
    limit: int | None = PREVIEW,
    fold: bool = True,
    for_people: bool | None = None,
    format_field: Callable[[str, Any], Any] | None = None,
) -> RenderedTree:
    """Render a JSON value as HTML.

    Args:
        value: The value.
        limit: Number of characters beyond which content is omitted with a note, as it is beyond `MAX_NODES` values.
            None for all of it.
        fold: Whether long texts and lists are folded. Otherwise, of those of more than 40 lines the beginning is in
            sight until the reader shows all of it.
        for_people: Whether values are written for people, not as JSON: texts without quotes, short lists of objects as
            tables, and texts in Markdown formatted, with a control for their source. None for the opposite of `fold`.
        format_field: Function that returns what is displayed of a field of an object, from its name and its value. It
            is called for fields that are displayed only, and not for secret ones.
    """
    if limit is None and _has_more_nodes_than(value, MAX_NODES):
        text = json.dumps(mask_json_value(value), ensure_ascii=False)
        html = (
            _mask_and_render_preformatted_text(text)
            if fold
            else _render_clamped_text(_mask_and_render_preformatted_text(text), len(text))
        )
        return RenderedTree(build_html("{}{}", _NOTE, html), True, get_byte_size(text))
    writer = _Writer(limit, fold, not fold if for_people is None else for_people, format_field)
    html = writer.render_value(value, 0)
    return RenderedTree(html, writer.whole, get_byte_size(json.dumps(value, ensure_ascii=False)))


def mask_and_dump_json(value: Any, indent: int | None = None) -> str:
    """Serialize a JSON value with secrets masked and hidden characters escaped, so that it parses to the same value.

    Large values are written on one line regardless of `indent`, as indentation would multiply their length.
    """
    return dump_json_for_display(mask_json_value(value), indent)


def dump_json_for_display(value: Any, indent: int | None = None) -> str:
    """Serialize a JSON value whose secrets are masked already, with hidden characters escaped."""
    if indent is not None and _has_more_nodes_than(value, MAX_INDENTED):
        indent = None
    return escape_hidden_in_json(json.dumps(value, ensure_ascii=False, indent=indent))


def quote_ambiguous_text_except_amount(text: str) -> str:
    """Format a text as a value of a tree or a line: an amount such as `40.00` as it is, others as
    `quote_ambiguous_text` does."""
    return text if _AMOUNT.fullmatch(text) else quote_ambiguous_text(text)


def quote_ambiguous_text(text: str) -> str:
    """Put a text in quotes if it is blank or looks like another JSON value.

    So the text `"17"` differs from the number 17, `"true"` from true, and a quoted text from one that contains quotes.
    """
    return f'"{text}"' if _AMBIGUOUS_TEXT.fullmatch(text) else text


def _has_more_nodes_than(value: Any, limit: int) -> bool:
    """Return whether nested lists and objects hold more than `limit` values."""
    count, pending = 0, [value]
    while pending and count <= limit:
        inner = pending.pop()
        if isinstance(inner, dict | list):
            count += len(inner)
            pending += inner.values() if isinstance(inner, dict) else inner
    return count > limit


def _mask_and_render_preformatted_text(text: str) -> SafeString:
    return build_html('<pre class="plain">{}</pre>', mask_and_reveal_hidden(text))


class _Writer:
    """Writer of a tree. Values are masked one by one, so that omitted ones take no time."""

    def __init__(
        self, limit: int | None, fold: bool, for_people: bool, format_field: Callable[[str, Any], Any] | None
    ) -> None:
        self.left = limit
        self.fold = fold
        self.for_people = for_people
        self.format_field = format_field
        self.nodes = MAX_NODES
        self.whole = True
        #: True while values are rendered of which only the beginning is in sight.
        self.is_clamping = False

    def render_value(self, value: Any, depth: int) -> SafeString:
        if isinstance(value, dict | list) and value:
            return self._render_nested_value(value, depth)
        if self.for_people and not is_secret_number(value):
            return self._render_value_for_people(value)
        if isinstance(value, str):
            return self._render_text_value(quote_ambiguous_text_except_amount(value))
        return self._render_text_value(MASK if is_secret_number(value) else mask_and_dump_json(value))

    def _render_value_for_people(self, value: Any) -> SafeString:
        """Render a value as sentences say it: “yes” for true, “–” for null, and a text without quotes."""
        if isinstance(value, str):
            if self._has_room_formatted(value) and _is_markdown(value):
                self._subtract_from_size_budget(len(value))
                return _render_markdown_with_source(value, is_long=_has_too_many_lines(value))
            return self._render_text_value(value if value.strip() else _describe_blank_text(value))
        if value is None:
            return SafeString("–")
        if isinstance(value, bool):
            return conditional_escape(gettext("yes") if value else gettext("no"))
        if isinstance(value, dict | list):
            return build_html("({})", gettext("none"))
        return self._render_text_value(mask_and_dump_json(value))

    def _has_room_formatted(self, text: str) -> bool:
        """Return whether a text may be formatted: one that is cut or folded may end within a mark."""
        is_folded = self.fold and len(text) > _FOLD_TEXT_LENGTH
        return not self.is_clamping and not is_folded and (self.left is None or len(text) <= self.left)

    def _render_nested_value(self, value: dict[str, Any] | list[Any], depth: int) -> SafeString:
        if depth >= MAX_TREE_DEPTH:
            return self._render_text_value(mask_and_dump_json(value))
        is_clamped = not self.fold and not self.is_clamping and _is_long_enough_to_clamp(value, depth)
        self.is_clamping = self.is_clamping or is_clamped
        listing = (
            self._render_table(value, depth)
            if self.for_people and self._has_budget_for_table(value) and _can_be_table(value)
            else self._render_list(value, depth)
        )
        if is_clamped:
            self.is_clamping = False
            count = _count_leaves(value)
            show_all = ngettext("Show all %(number)s value", "Show all %(number)s values", count)
            return _render_clamped(listing, show_all, count, gettext("Show fewer values"))
        return listing

    def _has_budget_for_table(self, value: dict[str, Any] | list[Any]) -> bool:
        """Return whether nothing of a value is omitted or folded, which a table has no place for."""
        if self.fold and len(value) > _FOLD_LIST_LENGTH:
            return False
        return self.left is None or _is_shorter_than(value, self.left)

    def _render_table(self, items: list[dict[str, Any]], depth: int) -> SafeString:
        """Render a list of objects with a row for each, which is lines of names and values where it has no room."""
        rows = [{field.key: field for field in mask_field_names_and_list_all_fields(item)} for item in items]
        names = {key: mask_and_reveal_hidden(field.name) for row in reversed(rows) for key, field in row.items()}
        keys = list(dict.fromkeys(key for row in rows for key in row))
        heads = join_html("", '<th scope="col"><bdi>{}</bdi></th>', ((names[key],) for key in keys))
        body = join_html(
            "",
            '<tr><th scope="row">{}</th>{}</tr>',
            (
                (number, join_html("", "{}", ((self._render_cell(names[key], row.get(key), depth),) for key in keys)))
                for number, row in enumerate(rows, 1)
            ),
        )
        return build_html(
            '<div class="rows-of-objects{}"><table><thead><tr><td></td>{}</tr></thead><tbody>{}</tbody></table></div>',
            SafeString(" narrow") if sum(_list_column_widths(items)) <= _WIDEST_NARROW_ROW else "",
            heads,
            body,
        )

    def _render_cell(self, name: str, field: MaskedField | None, depth: int) -> SafeString:
        if field is None:
            return SafeString("<td></td>")
        value = (
            self._render_text_value(MASK)
            if field.hidden
            else self.render_value(self._format_visible_field(field.key, field.value), depth + 2)
        )
        is_code = not field.hidden and isinstance(field.value, str) and _SHORT_HYPHENATED_WORD.fullmatch(field.value)
        css_class = SafeString(' class="unbroken"' if is_code else "")
        return build_html('<td{} data-name="{}" dir="auto">{}</td>', css_class, name, value)

    def _format_visible_field(self, key: Any, value: Any) -> Any:
        """Return what is displayed of a field; one whose value is a secret keeps it, so that it is masked."""
        if self.format_field is None or not isinstance(key, str):
            return value
        formatted = self.format_field(key, value)
        is_secret = formatted is not value and (
            is_secret_number(value) or (isinstance(value, str) and mask_text(value) != value)
        )
        return value if is_secret else formatted

    def _render_list(self, value: dict[str, Any] | list[Any], depth: int) -> SafeString:
        pairs = _list_keyed_values_with_secrecy(value)
        rows: list[tuple[str, SafeString]] = []
        for key, name, inner, is_secret in pairs:
            if self.left is not None and (self.left <= 0 or self.nodes <= 0):
                break
            self.nodes -= 1
            self._subtract_from_size_budget(len(name) + 4)
            rows.append(
                (
                    mask_and_reveal_hidden(name),
                    self._render_text_value(MASK)
                    if is_secret
                    else self.render_value(self._format_visible_field(key, inner), depth + 1),
                )
            )
        columns = "" if self.fold or isinstance(value, dict) else _choose_css_classes_of_multi_column_list(value)
        row_html = '<dt><bdi>{}</bdi></dt><dd dir="auto">{}</dd>'
        body = join_html("", f"<div>{row_html}</div>" if columns else row_html, rows)
        if len(rows) < len(pairs):
            self.whole = False
            missing = len(pairs) - len(rows)
            body += build_html('<dt>…</dt><dd class="omission">{} more</dd>', missing)
        listing = build_html('<dl class="kv{}">{}</dl>', columns, body)
        if self.fold and depth and len(pairs) > _FOLD_LIST_LENGTH:
            return build_html("<details><summary>{}</summary>{}</details>", _render_item_count(value), listing)
        return listing

    def _render_text_value(self, text: str) -> SafeString:
        visible_part, missing = text, 0
        if self.left is not None and len(text) > max(self.left, _FOLD_TEXT_LENGTH):
            beginning_of_text = cut_text_to_preview(text, max(self.left, _FOLD_TEXT_LENGTH))
            visible_part, missing = beginning_of_text.text, get_byte_size(text) - get_byte_size(beginning_of_text.text)
        self._subtract_from_size_budget(len(visible_part))
        beginning = get_masked_text_beginning(text, len(visible_part)) if missing else visible_part
        masked = mask_and_reveal_hidden(beginning)
        if missing:
            self.whole = False
            return build_html('{}<span class="omission">… {} more</span>', masked, format_byte_size(missing))
        if self.fold and len(text) > _FOLD_TEXT_LENGTH:
            head = mask_and_reveal_hidden(
                get_masked_text_beginning(text, len(cut_text_to_preview(text, _FOLD_TEXT_LENGTH // 4).text))
            )
            summary = build_html('{}… <span class="omission">{}</span>', head, format_byte_size(get_byte_size(text)))
            return build_html('<details class="long"><summary>{}</summary>{}</details>', summary, masked)
        if not self.fold and _has_too_many_lines(text):
            return _render_clamped_text(masked, len(text))
        return _keep_hyphenated_words_on_one_line(masked)

    def _subtract_from_size_budget(self, amount: int) -> None:
        if self.left is not None:
            self.left -= amount


def _keep_hyphenated_words_on_one_line(text: str) -> SafeString:
    """Render a text in which no line ends at a hyphen within a word: `-d` of a shell command stays one option."""
    words = _WHITE_SPACE.split(text)
    if len(words) == 1 or "-" not in text:
        return conditional_escape(text)
    whole = '<span class="whole-word">{}</span>'
    return join_html("", "{}", ((build_html(whole, word) if "-" in word else word,) for word in words))


def _is_long_enough_to_clamp(value: dict[str, Any] | list[Any], depth: int) -> bool:
    """Return whether only the beginning of a value is in sight. The names of all arguments of a call always are."""
    return (depth > 0 or isinstance(value, list)) and _count_leaves(value) > _CLAMP_LINES


def has_clamped_value(value: Any, depth: int = 0) -> bool:
    """Return whether only the beginning of some value is in sight where nothing is folded."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return _is_long_enough_to_clamp(value, depth) or (
            depth < MAX_TREE_DEPTH and any(has_clamped_value(each, depth + 1) for each in inner)
        )
    return isinstance(value, str) and _has_too_many_lines(value)


def _has_too_many_lines(text: str) -> bool:
    return sum(max(1, -(-len(line) // _LINE_LENGTH)) for line in text.strip().split("\n")) > _CLAMP_LINES


def _is_markdown(text: str) -> bool:
    """Return whether a text of several lines has marks of Markdown that a program or a list of values has not."""
    is_short = len(text) <= markdown.LIMIT and "\n" in text
    return is_short and sum(bool(mark.search(text)) for mark in _MARKDOWN_MARKS) >= _LEAST_MARKDOWN_MARKS


def _describe_blank_text(text: str) -> str:
    return f'"{text}"' if text else pgettext("value of an argument", "(empty)")


def _render_markdown_with_source(text: str, *, is_long: bool) -> SafeString:
    """Render a text in Markdown as it is read, with a control that shows what the tool gets instead."""
    formatted = build_html('<div class="prose">{}</div>', markdown.mask_and_render_markdown(text))
    return build_html(
        '<div class="formatted-text"><details><summary><span class="closed">{}</span><span class="opened">{}</span>'
        "</summary>{}</details>{}</div>",
        gettext("Show the source"),
        gettext("Show the formatted text"),
        build_html('<div class="source">{}</div>', mask_and_reveal_hidden(text)),
        _render_clamped_text(formatted, len(text)) if is_long else formatted,
    )


def _is_shorter_than(value: Any, limit: int) -> bool:
    """Return whether the JSON text of a value has fewer characters than `limit`, without writing a long one."""
    return not _has_more_nodes_than(value, limit) and len(json.dumps(value, ensure_ascii=False)) < limit


def _can_be_table(value: Any) -> TypeGuard[list[dict[str, Any]]]:
    """Return whether a value is a list of objects with short values, each of which has room as a row."""
    if not isinstance(value, list) or not all(isinstance(item, dict) and item for item in value):
        return False
    if find_list_item_indexes_secret_to_reader(value):
        return False
    values = [inner for item in value for inner in item.values()]
    if any(isinstance(inner, dict | list) or (isinstance(inner, str) and "\n" in inner) for inner in values):
        return False
    widths = _list_column_widths(value)
    return max(widths) <= _WIDEST_CELL and sum(widths) <= _WIDEST_ROW


def _list_column_widths(items: list[dict[str, Any]]) -> list[int]:
    """List the maximum numbers of characters in the columns of a table."""
    widths: dict[str, int] = {}
    for item in items:
        for name, inner in item.items():
            length = len(inner) if isinstance(inner, str) else len(json.dumps(inner))
            widths[name] = max(widths.get(name, len(name)), length)
    return list(widths.values())


def _choose_css_classes_of_multi_column_list(items: list[Any]) -> str:
    """Return the CSS classes of a long list of short values, which stand side by side; empty for other lists."""
    if len(items) <= _FOLD_LIST_LENGTH or any(isinstance(item, dict | list) for item in items):
        return ""
    longest = max(len(item) if isinstance(item, str) else len(json.dumps(item)) for item in items)
    return next((f" columns {width}" for limit, width in _COLUMN_WIDTHS if longest <= limit), "")


def _count_leaves(value: Any) -> int:
    """Return the number of values that are neither lists nor objects with content."""
    count, pending = 0, [value]
    while pending:
        inner = pending.pop()
        if isinstance(inner, dict | list) and inner:
            pending += inner.values() if isinstance(inner, dict) else inner
        else:
            count += 1
    return count


def _render_clamped_text(masked: str, length: int) -> SafeString:
    show_all = ngettext("Show all %(number)s character", "Show all %(number)s characters", length)
    return _render_clamped(masked, show_all, length, gettext("Show fewer lines"))


def _render_clamped(content: str, show_all: str, number: int, show_fewer: str) -> SafeString:
    """Render content that the style sheet cuts after its first lines while the control is closed.

    The content is complete in the page, so that a search, a screen reader and a printer get all of it.
    """
    return build_html(
        '<div class="clamped"><div>{}</div>'
        '<details><summary><span class="closed">{}</span><span class="opened">{}</span></summary></details></div>',
        content,
        show_all % {"number": number_format(number, use_l10n=True, force_grouping=True)},
        show_fewer,
    )


def _list_keyed_values_with_secrecy(value: dict[str, Any] | list[Any]) -> list[tuple[Any, str, Any, bool]]:
    """List the keys, which are None for the items of a list, the displayed names, the values, and whether they are
    secret."""
    if isinstance(value, dict):
        return [
            (field.key, field.name, field.value, field.hidden) for field in mask_field_names_and_list_all_fields(value)
        ]
    secret_places = find_list_item_indexes_secret_to_reader(value)
    return [(None, str(place + 1), item, place in secret_places) for place, item in enumerate(value)]


def _render_item_count(value: dict[str, Any] | list[Any]) -> SafeString:
    noun = "entries" if isinstance(value, dict) else "items"
    return mark_safe(f"{len(value)} {noun}")  # noqa: S308 - a number and a word of ours
