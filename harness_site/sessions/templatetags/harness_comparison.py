"""Filters of the version comparison page."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from itertools import islice, takewhile, zip_longest
from operator import itemgetter
from typing import Any, TypeVar
from urllib.parse import urlencode

from django import template
from django.template import Context
from django.utils.html import escape
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from checkpoints.formats import parse_message_parts, shell_command_exit_codes
from checkpoints.formats.parse_message_parts import CallPart, ResultPart
from harness_site.core import formatting
from harness_site.core.call_arguments_html import mask_and_render_call_arguments
from harness_site.core.call_sentences import mask_and_format_tool_name
from harness_site.core.masking import masker
from harness_site.core.masking.masker import get_masked_text_beginning, mask_text
from harness_site.core.rendering import json_tree, markdown, safe_display_text, text_shortening
from harness_site.core.rendering.fast_format_html import build_html, join_html
from harness_site.core.rendering.json_tree import RenderedTree
from harness_site.core.rendering.terminal_sequence_removal import remove_terminal_sequences
from harness_site.core.word_diff import DiffPiece
from harness_site.sessions import (
    json_and_text_excerpts,
    message_role_labels,
    money_and_count_formatting,
    session_and_call_status_chips,
)
from harness_site.sessions.compare.bold_and_code_in_differences import ProseKind, ProseRun, split_pieces_at_marks
from harness_site.sessions.compare.call_pairs import CallPair
from harness_site.sessions.compare.calls_of_compared_messages import ComparedCalls
from harness_site.sessions.compare.compare_versions import EXPANDED_MESSAGES, Comparison
from harness_site.sessions.compare.json_diff import FieldChange
from harness_site.sessions.compare.message_alignment import ComparedMessage, Edited, Fold, Line, Moved
from harness_site.sessions.compare.message_part_differences import EditedPart, compare_parts
from harness_site.sessions.selectors.calls_between_versions import FirstCallsAndCount
from harness_site.sessions.selectors.conversation_window import CallCard
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.templatetags.harness_tools import list_result_parts_not_in_view
from harness_site.sessions.tool_views import tool_view_registry
from harness_site.templatetags.harness_tags import render_time

register = template.Library()
N = TypeVar("N", int, Decimal, timedelta)

#: Unchanged characters displayed on either side of a change.
_CONTEXT = 160
#: Longer objects and lists are indented, and have at most so many lines.
_LINE_LENGTH = 100
_INDENTED_LINES = 30
#: Largest number of characters and of lines of the prose of a message.
_PROSE = 1_600
_PROSE_LINES = 16
#: A text without a further line that is not folded.
_SHORT_LINE = 140
#: HTML of the characters of a text of Markdown.
_HTML_OF_PROSE = {
    ProseKind.PLAIN: "{}",
    ProseKind.STRONG: "<strong>{}</strong>",
    ProseKind.CODE: "<code>{}</code>",
    ProseKind.MARK: "",
}
#: Kinds of views that show something even if the result of the call is not known.
_KINDS_SHOWN_WITHOUT_RESULT = frozenset({"command", "diff", "notebook", "question", "subagent", "todo"})


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """A number on both sides, as `value` names it: `4 → 5`, or `5` if they are equal. `change` says what differs.

    Of a status, `chips` are the shapes and labels of both sides, or of one if they are equal.
    """

    label: str
    value: str
    change: str
    chips: tuple[tuple[str, str], ...] = ()


@register.simple_tag
def list_status_and_duration_figures(first: SessionHead, second: SessionHead) -> list[ComparedFigure]:
    """List what became of two sessions, whichever of their versions are compared."""
    chips = tuple(
        session_and_call_status_chips.get_session_status_shape_and_label(
            head.row.display_status,
            head.row.undecided,
            head.row.awaiting,
            head.row.questions,
            head.waiting,
            ended_without_result=head.row.ended_without_result,
        )
        for head in (first, second)
    )
    old, new = (
        head.row.duration if head.row.has_times and not head.is_never_resumed_fork else None for head in (first, second)
    )
    duration = _build_figure_of_two_amounts(
        gettext("Duration"), old, new, lambda span: formatting.format_duration(span.total_seconds()), two=True
    )
    if first.is_never_resumed_fork or second.is_never_resumed_fork:
        duration = replace(duration, change=gettext("the fork has not run yet"))
    note = gettext("the same") if chips[0] == chips[1] else gettext("of the sessions as they are now")
    return [
        ComparedFigure(gettext("Status"), "", note, chips=tuple(dict.fromkeys(chips))),
        duration,
    ]


@register.simple_tag
def list_compared_figures(
    comparison: Comparison, two: bool, first: SessionHead, second: SessionHead
) -> list[ComparedFigure]:
    """List the figures of a comparison, all in the same form; `two` if it is one of two sessions.

    Cost and tokens are totals of versions, so they say what a fork has copied of them, as its head does.
    """
    a, b = comparison.a, comparison.b
    copied_costs = first.row.copied_cost if a.cost else None, second.row.copied_cost if b.cost else None
    digits = money_and_count_formatting.count_common_decimal_places((a.cost, b.cost, *copied_costs))
    calls = _format_call_count(comparison.calls)
    return [
        ComparedFigure(
            gettext("Messages"),
            _format_old_and_new_amount(a.length, b.length),
            _format_messages_change(comparison, two),
        ),
        _build_figure_of_two_amounts(
            gettext("Plan steps done"), a.plan.done_count if a.plan else 0, b.plan.done_count if b.plan else 0, two=two
        )
        if a.plan or b.plan
        else ComparedFigure(gettext("Plan steps done"), "–", gettext("no plan")),
        ComparedFigure(
            gettext("Logged calls"),
            f"{_format_call_count(comparison.calls_a)} → {calls}",
            gettext("since they diverged") if comparison.shared else gettext("up to these versions"),
        )
        if two
        else ComparedFigure(gettext("Logged calls"), calls, gettext("between the two versions")),
        _say_what_was_copied(
            _build_figure_of_two_amounts(
                gettext("Cost"),
                a.cost,
                b.cost,
                lambda amount: money_and_count_formatting.format_money(amount, digits),
                two=two,
            ),
            *(money_and_count_formatting.format_money(cost, digits) if cost else "" for cost in copied_costs),
            two=two,
        ),
        _say_what_was_copied(
            _build_figure_of_two_amounts(gettext("Tokens"), a.tokens, b.tokens, two=two),
            *(
                money_and_count_formatting.format_count(copied) if version.tokens and copied else ""
                for version, copied in ((a, first.row.copied_tokens), (b, second.row.copied_tokens))
            ),
            two=two,
        ),
    ]


def _say_what_was_copied(figure: ComparedFigure, of_first: str, of_second: str, *, two: bool) -> ComparedFigure:
    """Add to a figure how much of both amounts forks have copied; empty for a side that has copied nothing."""
    if not of_first and not of_second:
        return figure
    if not two:
        sentence = gettext("%(amount)s of each copied from the original") % {"amount": of_second or of_first}
    elif of_first and of_second:
        sentence = gettext("copied from the originals: %(first)s of the first, %(second)s of the second") % {
            "first": of_first,
            "second": of_second,
        }
    elif of_first:
        sentence = gettext("%(amount)s of the first copied from the original") % {"amount": of_first}
    else:
        sentence = gettext("%(amount)s of the second copied from the original") % {"amount": of_second}
    return replace(figure, change=f"{figure.change} · {sentence}")


def _build_figure_of_two_amounts(
    label: str,
    old: N | None,
    new: N | None,
    format_amount: Callable[[Any], str] = money_and_count_formatting.format_count,
    *,
    two: bool,
) -> ComparedFigure:
    if old is None and new is None:
        return ComparedFigure(label, "–", gettext("not known"))
    if old is None or new is None:
        sides = ("–" if amount is None else format_amount(amount) for amount in (old, new))
        change = gettext("the first is not known") if old is None else gettext("the second is not known")
        return ComparedFigure(label, " → ".join(sides), change)
    sign = "+" if new > old else "−"
    change = _get_word_for_no_difference(two) if old == new else f"{sign}{format_amount(abs(new - old))}"
    return ComparedFigure(label, _format_old_and_new_amount(old, new, format_amount), change)


def _get_word_for_no_difference(two: bool) -> str:
    """Return what is said of equal values: between two versions nothing changed, two sessions have the same."""
    return gettext("the same") if two else gettext("unchanged")


def _format_old_and_new_amount(
    old: N, new: N, format_amount: Callable[[Any], str] = money_and_count_formatting.format_count
) -> str:
    return format_amount(new) if old == new else f"{format_amount(old)} → {format_amount(new)}"


def _format_call_count(calls: FirstCallsAndCount) -> str:
    return f"{money_and_count_formatting.format_count(calls.count)}{'+' if calls.uncounted else ''}"


def _format_messages_change(comparison: Comparison, two: bool) -> str:
    """Format what happened to the messages: +4 −1, 2 edited; of an incomplete comparison the change of their number.

    Those of `two` sessions are different, as nobody edited them.
    """
    added, removed = (
        (comparison.added_count, comparison.removed_count)
        if not comparison.rest_a + comparison.rest_b
        else _compute_net_added_and_removed_messages(comparison)
    )
    changes = [
        " ".join(money_and_count_formatting.format_signed_number(number) for number in (added, -removed) if number)
    ]
    for number, sentence in (
        (
            comparison.edited_count,
            ngettext("%(number)s different", "%(number)s different", comparison.edited_count)
            if two
            else ngettext("%(number)s edited", "%(number)s edited", comparison.edited_count),
        ),
        (comparison.moved_count, ngettext("%(number)s moved", "%(number)s moved", comparison.moved_count)),
    ):
        changes.append(sentence % {"number": money_and_count_formatting.format_count(number)} if number else "")
    return ", ".join(filter(None, changes)) or _get_word_for_no_difference(two)


def _compute_net_added_and_removed_messages(comparison: Comparison) -> tuple[int, int]:
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
def mask_and_format_dotted_path(path: tuple[str | int, ...]) -> str:
    """Format the path of a field: `order.items[2].price`."""
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return safe_display_text.mask_and_reveal_hidden(steps.removeprefix("."))


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
        '<a href="{}">{}</a>{} · {}',
        build_message_url(message, version, reading),
        safe_display_text.mask_and_reveal_hidden(message_role_labels.format_role_name(message.role)),
        join_html("", ' · <b class="mono">{}</b>', ((mask_and_format_tool_name(tool),) for tool in tools)),
        render_time(message.at),
    )


@register.simple_tag
def build_message_url(message: ComparedMessage, version: int, reading: str) -> str:
    """Return the URL of a message in the transcript of its version, whose URL is `reading`."""
    return f"{reading}?v={version}&at={message.position}#m-{message.position}"


@register.simple_tag
def build_compared_call_context(
    calls: ComparedCalls, call: CallPart, old_call: CallPart | None = None
) -> dict[str, Any]:
    """Build what the transcript shows of a call: what it did, its status and its result.

    A result that is a line of its own is not a part of it, except the exit code of a command. `old_call` is the same
    call on the first side; its status is named if it is another one.
    """
    compared_call = calls.build_compared_call(call)
    card = compared_call.card
    view = tool_view_registry.build_first_fitting_tool_view(
        card if compared_call.is_shown_with_result else CallCard(call, None, None, ())
    )
    state = (
        session_and_call_status_chips.get_call_card_shape_and_label(card) if compared_call.is_outcome_known else None
    )
    if view is not None and view.kind == "command" and card.result is not None and state and state[0] == "ok":
        view_with_result = tool_view_registry.build_first_fitting_tool_view(card)
        state = (view_with_result and view_with_result.chip) or state
    result = card.result if compared_call.is_shown_with_result else None
    if result is not None:
        parts = list_result_parts_not_in_view(card, view)
        result = replace(result, parts=parts) if parts else None
    if view is not None and view.content.get("is_only_answer_cut"):
        view = replace(view, content={**view.content, "is_only_answer_cut": False})  # one link shows everything
    return {
        "args": card.call.args,
        "record": card.newest_attempt,
        "view": view,
        "has_body": view is not None
        and view.has_template
        and (compared_call.is_shown_with_result or view.kind in _KINDS_SHOWN_WITHOUT_RESULT),
        "state": state,
        "old_state": None if old_call is None else _find_other_state_of_old_call(calls, old_call, state),
        "reason": ""
        if card.newest_attempt is None
        else session_and_call_status_chips.explain_imported_call_without_result(card.newest_attempt),
        "result": result,
    }


def _find_other_state_of_old_call(
    calls: ComparedCalls, old_call: CallPart, state: tuple[str, str] | None
) -> tuple[str, str] | None:
    """Return the chip shape and label of a call on the first side; None if they are unknown or those of the second."""
    old_state = build_compared_call_context(calls, old_call)["state"]
    return old_state if state is not None and old_state != state else None


@register.filter
def count_calls_that_ended_differently(pairs: Sequence[CallPair]) -> int:
    return sum(pair.ended_differently for pair in pairs)


@register.filter
def have_no_tool_in_common(pairs: Sequence[CallPair]) -> bool:
    """Return whether both of two sessions have listed calls, none of which has one of the same tool beside it."""
    has_calls = any(pair.first for pair in pairs) and any(pair.second for pair in pairs)
    return has_calls and not any(pair.first and pair.second for pair in pairs)


@register.filter
def list_positions_displayed_in_line(calls: ComparedCalls, line: Line) -> list[int]:
    return calls.list_positions_displayed_in_line(line)


@register.filter
def is_result_displayed_in_call(result: ResultPart, calls: ComparedCalls) -> bool:
    return calls.is_result_displayed_in_call(result)


@register.simple_tag(takes_context=True)
def compare_message_parts(context: Context, line: Edited | Moved) -> tuple[EditedPart, ...]:
    """Compare the parts of an edited message; empty if it has other kinds of parts than before."""
    return compare_parts(line.old.parts, line.new.parts, context["parts_budget"])


@register.filter
def are_all_same(parts: tuple[EditedPart, ...]) -> bool:
    return all(part.is_same for part in parts)


@register.filter
def is_short_line(text: str) -> bool:
    """Return whether a text needs no more than one line."""
    return len(text) <= _SHORT_LINE and "\n" not in text.strip()


@register.simple_tag
def mask_and_format_field_value(change: FieldChange, side: str) -> str:
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
    return safe_display_text.mask_and_reveal_hidden(
        json_and_text_excerpts.mask_and_format_text_beginning(text, lines=_INDENTED_LINES)
    )


@register.filter
def have_differences(pieces: tuple[DiffPiece, ...]) -> bool:
    return any(piece.change != "same" for piece in pieces)


@register.filter
def mask_diff_pieces(pieces: tuple[DiffPiece, ...]) -> list[DiffPiece]:
    """Mask secrets in the pieces of a text.

    Secrets are searched in the joined text, as a change may have split one. White space before both the old and the new
    words is unchanged.
    """
    pieces = tuple(_split_off_common_space(pieces))
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


def _split_off_common_space(pieces: tuple[DiffPiece, ...]) -> Iterator[DiffPiece]:
    """Yield the pieces, with the white space that a removed and an added piece begin with as a piece of its own."""
    space = ""
    for piece, following in zip_longest(pieces, pieces[1:]):
        if space:
            yield DiffPiece(piece.change, piece.text[len(space) :])
            space = ""
            continue
        if piece.change == "del" and following is not None and following.change == "ins":
            space = _get_common_space_before(piece.text, following.text)
        if space:
            yield DiffPiece("same", space)
        yield DiffPiece(piece.change, piece.text[len(space) :])


def _get_common_space_before(text: str, other: str) -> str:
    pairs = takewhile(lambda pair: pair[0] == pair[1] and pair[0].isspace(), zip(text, other, strict=False))
    return "".join(character for character, _ in pairs)


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
        return safe_display_text.mask_and_reveal_hidden(piece.text)
    begin, end = piece.text[:_CONTEXT], piece.text[-_CONTEXT:]
    return safe_display_text.mask_and_reveal_hidden(_get_fold_sentence(left_out) % {"begin": begin, "end": end})


def _get_fold_sentence(left_out: int) -> str:
    """Return the sentence of a piece whose middle is left out, with placeholders for its begin and its end."""
    sentence = ngettext(
        "%(begin)s … %(count)s unchanged character … %(end)s",
        "%(begin)s … %(count)s unchanged characters … %(end)s",
        left_out,
    )
    return sentence.replace("%(count)s", money_and_count_formatting.format_count(left_out))


@register.filter
def render_pieces_of_prose(pieces: tuple[DiffPiece, ...]) -> SafeString:
    """Render the differences of a text of Markdown with its bold words and its code, and without their marks."""
    return join_html(
        "", "{}", ((_render_piece_of_prose(*each),) for each in split_pieces_at_marks(mask_diff_pieces(pieces)))
    )


def _render_piece_of_prose(piece: DiffPiece, runs: Sequence[ProseRun]) -> SafeString:
    if piece.change != "same":
        return build_html(f"<{piece.change}>{{}}</{piece.change}>", _render_runs(runs))
    left_out = len(piece.text) - 2 * _CONTEXT
    if left_out < _CONTEXT:
        return _render_runs(runs)
    begin = _render_runs(_clip_runs(runs, 0, _CONTEXT))
    end = _render_runs(_clip_runs(runs, len(piece.text) - _CONTEXT, len(piece.text)))
    return SafeString(escape(_get_fold_sentence(left_out)) % {"begin": begin, "end": end})


def _render_runs(runs: Iterable[ProseRun]) -> SafeString:
    rows = ((run.kind, safe_display_text.mask_and_reveal_hidden(run.text)) for run in runs)
    return join_html("", "{}", ((build_html(_HTML_OF_PROSE[kind], text),) for kind, text in rows))


def _clip_runs(runs: Iterable[ProseRun], first: int, last: int) -> Iterator[ProseRun]:
    """Yield the parts of runs between two positions."""
    at = 0
    for kind, text in runs:
        if clipped := text[max(first - at, 0) : max(last - at, 0)]:
            yield ProseRun(kind, clipped)
        at += len(text)


@register.simple_tag
def render_beginning_as_markdown(content: str, address: str) -> SafeString:
    """Render the beginning of a text as Markdown, with a link to the whole one at `address` if it is longer."""
    beginning = text_shortening.cut_text_to_preview(content, _PROSE, _PROSE_LINES)
    if beginning.whole:
        return markdown.mask_and_render_markdown(mask_text(content))
    head = _remove_table_without_rows_at_end(beginning.text)
    masked = get_masked_text_beginning(content, len(head))
    return build_html(
        '{}<p class="fold"><a href="{}">{}</a> · {}</p>',
        markdown.mask_and_render_markdown(masked),
        address,
        gettext("Show all"),
        text_shortening.format_byte_size(beginning.size),
    )


def _remove_table_without_rows_at_end(text: str) -> str:
    """Remove the head of a table of which a cut has left no row: it would be displayed as it is written."""
    lines = text.split("\n")
    start = len(lines)
    while start and lines[start - 1].lstrip().startswith("|"):
        start -= 1
    return "\n".join(lines[:start]) if start > 0 and len(lines) - start in {1, 2} else text


@register.simple_tag
def render_beginning_of_call_arguments(args: Any) -> RenderedTree:
    """Build the beginning of the arguments of a call."""
    return mask_and_render_call_arguments(args, limit=json_tree.PREVIEW, fold=True)


@register.simple_tag
def build_result_excerpt_context(result: ResultPart, calls: ComparedCalls) -> dict[str, Any]:
    """Build the beginning of a tool result: the output of a command, a JSON object or list as a labelled list, anything
    else as text."""
    text = parse_message_parts.parts_to_text((result,))
    code = None
    if shell_command_exit_codes.is_shell_command_tool(calls.find_tool_of_result(result)):
        text, code = shell_command_exit_codes.split_output_and_exit_code(text)
    value = json_and_text_excerpts.parse_json_container(text) if code is None else None
    if value is not None:
        return {"tree": json_tree.mask_and_render_json_tree(value, limit=json_tree.PREVIEW)}
    return {
        "tree": None,
        "is_silent_command": code is not None and not text.strip(),
        "text": safe_display_text.mask_and_reveal_hidden(
            json_and_text_excerpts.mask_and_format_text_beginning(remove_terminal_sequences(text))
        ),
    }
