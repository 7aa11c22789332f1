"""Filters of the version comparison page."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import islice
from operator import itemgetter
from typing import Any
from urllib.parse import urlencode

from django import template
from django.template import Context
from django.utils.safestring import SafeString
from django.utils.translation import ngettext

from checkpoints.formats import parse_message_parts
from checkpoints.formats.parse_message_parts import CallPart, ResultPart
from harness_site.core.masking import masker
from harness_site.core.rendering import json_tree, markdown, mask_and_shorten_text
from harness_site.core.rendering.fast_format_html import build_html, join_html
from harness_site.core.rendering.json_tree import RenderedTree
from harness_site.core.rendering.terminal_sequences import remove_terminal_sequences
from harness_site.core.word_diff import DiffPiece
from harness_site.sessions import session_formatting
from harness_site.sessions.compare.compare_versions import EXPANDED_MESSAGES, Comparison
from harness_site.sessions.compare.compared_calls import ComparedCalls
from harness_site.sessions.compare.json_diff import FieldChange
from harness_site.sessions.compare.message_alignment import ComparedMessage, Fold
from harness_site.sessions.plan_steps import Plan
from harness_site.sessions.selectors.conversation_window import CallCard
from harness_site.sessions.timeline.list_timeline_items import mask_and_format_tool_name
from harness_site.sessions.tool_views import shell_commands, tool_view_registry
from harness_site.templatetags.harness_tags import render_time

register = template.Library()

#: Unchanged characters displayed on either side of a change.
_CONTEXT = 160
#: Longer objects and lists are indented, and have at most so many lines.
_LINE_LENGTH = 100
_INDENTED_LINES = 30


@register.filter
def format_messages_delta(found: Comparison) -> str:
    """Format the change of the number of messages: +4, or +4 −1 if some were removed."""
    added, removed = (
        (found.added_count, found.removed_count)
        if not found.rest_a + found.rest_b
        else _compute_net_added_and_removed(found)
    )
    return " ".join(session_formatting.format_signed_number(number) for number in (added, -removed) if number) or "0"


def _compute_net_added_and_removed(comparison: Comparison) -> tuple[int, int]:
    """Return the net numbers of added and of removed messages, for an incomplete comparison: one of them is 0."""
    difference = comparison.b.length - comparison.a.length
    return max(difference, 0), max(-difference, 0)


@register.simple_tag(takes_context=True)
def build_open_fold_url(context: Context, position: int) -> str:
    """Return the URL of this page with the unchanged messages from `position` expanded too."""
    comparison: Comparison = context["found"]
    query: list[tuple[str, object]] = [("a", comparison.a.version), ("b", comparison.b.version)]
    if context["two"]:
        query.append(("with", context["other"].row.pk))
    query += [("open", open_position) for open_position in [*context["opened"], position]]
    return f"?{urlencode(query)}#m-{position}"


@register.filter
def get_start_of_last_expandable_range(fold: Fold) -> int:
    """Return the start of the last range of a fold that can be expanded at once."""
    return fold.position + max(0, fold.count - EXPANDED_MESSAGES)


@register.filter
def format_dotted_path(path: tuple[str | int, ...]) -> str:
    """Format the path of a field: `order.items[2].price`."""
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return mask_and_shorten_text.mask_and_reveal_hidden(steps.removeprefix("."))


@register.simple_tag
def render_role_link_and_time(
    message: ComparedMessage, version: int, reading: str, calls: ComparedCalls | None = None
) -> SafeString:
    """Render the role of a message, with a link to it in the transcript of its version, and its time.

    `reading` is the URL of the transcript. A message with results names the tools that `calls` knows of them.
    """
    results = [part for part in message.parts if isinstance(part, ResultPart)] if calls is not None else []
    tools = dict.fromkeys(tool for result in results if calls and (tool := calls.find_tool_of_result(result)))
    return build_html(
        '<a href="{}?v={}&amp;at={}#m-{}">{}</a>{} · {}',
        reading,
        version,
        message.position,
        message.position,
        mask_and_shorten_text.mask_and_reveal_hidden(session_formatting.format_role_name(message.role)),
        join_html("", ' · <b class="mono">{}</b>', ((mask_and_format_tool_name(tool),) for tool in tools)),
        render_time(message.at),
    )


@register.simple_tag
def build_compared_call_context(calls: ComparedCalls, call: CallPart) -> dict[str, Any]:
    """Build the status and the arguments of a call, and its difference if it changes files, or its command.

    The result is not a part of it, except the exit code of a command: it is a line of its own.
    """
    compared_call = calls.build_compared_call(call)
    card = compared_call.card
    view = tool_view_registry.build_first_fitting_tool_view(CallCard(call, None, None, ()))
    state = session_formatting.get_call_card_shape_and_label(card) if compared_call.is_outcome_known else None
    if view is not None and view.kind == "command" and card.result is not None and state and state[0] == "ok":
        view_with_result = tool_view_registry.build_first_fitting_tool_view(card)
        state = (view_with_result and view_with_result.chip) or state
    return {
        "args": card.call.args,
        "view": view if view is not None and view.kind in {"diff", "command"} else None,
        "state": state,
        "reason": ""
        if card.newest_attempt is None
        else session_formatting.explain_imported_call_without_result(card.newest_attempt),
    }


@register.simple_tag
def format_field_value(change: FieldChange, side: str) -> str:
    """Format the old or the new value, indented if it is long, masked if any name in its path is secret."""
    value = change.old if side == "old" else change.new
    if any(
        field.hidden
        for step in change.path
        for field in masker.mask_field_names_and_list_all_fields({str(step): value})
    ):
        value = masker.MASK
    text = json_tree.mask_and_dump_json(value)
    if len(text) > _LINE_LENGTH and isinstance(value, dict | list):
        text = json_tree.mask_and_dump_json(value, indent=2)
    return mask_and_shorten_text.mask_and_reveal_hidden(
        session_formatting.mask_and_format_text_beginning(text, lines=_INDENTED_LINES)
    )


@register.filter
def get_cost_delta(found: Comparison) -> Decimal | None:
    return None if found.a.cost is None or found.b.cost is None else found.b.cost - found.a.cost


@register.filter
def format_tokens_delta(found: Comparison) -> str:
    if found.a.tokens is None or found.b.tokens is None:
        return "–"
    return session_formatting.format_signed_number(found.b.tokens - found.a.tokens)


@register.filter
def count_done_steps(plan: Plan | None) -> int:
    return plan.done_count if plan else 0


@register.filter
def have_differences(pieces: tuple[DiffPiece, ...]) -> bool:
    return any(piece.change != "same" for piece in pieces)


@register.filter
def mask_diff_pieces(pieces: tuple[DiffPiece, ...]) -> list[DiffPiece]:
    """Mask secrets in the pieces of a text.

    Secrets are searched in the joined text, as a change may have split one.
    """
    secret_spans: dict[str, Sequence[tuple[int, int]]] = {}
    for side in ("del", "ins"):
        secret_spans[side] = masker.find_secret_spans(
            "".join(piece.text for piece in pieces if piece.change in ("same", side))
        )
    if not any(secret_spans.values()):
        return list(pieces)
    masked_pieces, at = [], {"del": 0, "ins": 0}
    for piece in pieces:
        sides = ("del", "ins") if piece.change == "same" else (piece.change,)
        spans = [
            span
            for side in sides
            for span in _clip_and_shift_spans(secret_spans[side], at[side], at[side] + len(piece.text))
        ]
        masked_pieces.append(DiffPiece(piece.change, _replace_spans_with_mask(piece.text, spans)))
        for side in sides:
            at[side] += len(piece.text)
    return masked_pieces


def _clip_and_shift_spans(spans: Sequence[tuple[int, int]], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of ordered `spans` between two positions, relative to the first one."""
    for first, last in islice(spans, bisect_right(spans, start, key=itemgetter(1)), None):
        if first >= stop:
            return
        yield max(first, start) - start, min(last, stop) - start


def _replace_spans_with_mask(text: str, spans: list[tuple[int, int]]) -> str:
    """Replace each span of `text` by one mask."""
    parts: list[str] = []
    end: int | None = None
    for start, stop in sorted(spans):
        if end is None or start > end:
            parts += [text[end or 0 : start], masker.MASK]
        end = stop if end is None else max(end, stop)
    return "".join([*parts, text[end or 0 :]])


@register.filter
def fold_unchanged_middle(piece: DiffPiece) -> str:
    """Fold the middle of a long unchanged piece and name its length."""
    left_out = len(piece.text) - 2 * _CONTEXT
    if left_out < _CONTEXT:
        return mask_and_shorten_text.mask_and_reveal_hidden(piece.text)
    begin, end = piece.text[:_CONTEXT], piece.text[-_CONTEXT:]
    return mask_and_shorten_text.mask_and_reveal_hidden(
        ngettext(
            "%(begin)s … %(count)s unchanged character … %(end)s",
            "%(begin)s … %(count)s unchanged characters … %(end)s",
            left_out,
        )
        % {"begin": begin, "count": session_formatting.format_count(left_out), "end": end}
    )


@register.filter
def render_beginning_as_markdown(content: str) -> SafeString:
    return markdown.mask_and_render_markdown(session_formatting.mask_and_format_text_beginning(content))


@register.simple_tag
def render_json_excerpt_as_tree(value: Any) -> RenderedTree:
    """Build the beginning of a JSON value as a labelled list."""
    return json_tree.mask_and_render_json_tree(value, limit=json_tree.PREVIEW)


@register.simple_tag
def build_result_excerpt_context(result: ResultPart, calls: ComparedCalls) -> dict[str, Any]:
    """Build the beginning of a tool result: the output of a command, a JSON object or list as a labelled list, anything
    else as text."""
    text = parse_message_parts.parts_to_text((result,))
    code = None
    if tool_view_registry.is_shell_command_tool(calls.find_tool_of_result(result)):
        text, code = shell_commands.split_output_and_exit_code(text)
    value = session_formatting.parse_json_container(text) if code is None else None
    if value is not None:
        return {"tree": render_json_excerpt_as_tree(value)}
    return {
        "tree": None,
        "is_silent_command": code is not None and not text.strip(),
        "text": mask_and_shorten_text.mask_and_reveal_hidden(
            session_formatting.mask_and_format_text_beginning(remove_terminal_sequences(text))
        ),
    }
