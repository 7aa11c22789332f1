"""Tags of the session pages: safe HTML of messages, calls, plans and history."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django import template
from django.template import Context
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from checkpoints.enums import ActorKind, AuditKind, InterruptReason, RunStatus, SessionStatus
from checkpoints.exceptions import InvalidInput
from checkpoints.formats import to_canonical_json
from checkpoints.models import ToolCall
from checkpoints.models.translated_enum_choices import translate_label
from checkpoints.sessions.display_status import DisplayStatus
from checkpoints.sessions.session_list_filters_and_sorting import Sort
from harness_site.audit import event_sentences, format_event_details_and_actors
from harness_site.core import (
    formatting,
    masked_formatting,
    risk_effect_and_idempotency_texts,
    status_and_decision_labels,
    unknown_outcome_reasons,
)
from harness_site.core.call_sentences import remove_sentence_from_question_args
from harness_site.core.folded_verify_hook_answers import fold_repeated_hook_answers
from harness_site.core.hidden_characters import replace_unencodable_characters
from harness_site.core.masked_json_value_differences import ValueDifference, list_value_differences
from harness_site.core.masking.replace_digests_by_fingerprints import replace_file_digests_by_keyed_fingerprints
from harness_site.core.rendering import (
    ansi_colors,
    json_tree,
    markdown,
    safe_display_text,
    syntax_highlighting,
    text_shortening,
)
from harness_site.core.rendering.fast_format_html import build_html, join_html
from harness_site.core.rendering.terminal_sequence_removal import remove_terminal_sequences
from harness_site.core.similar_known_names import NearNames
from harness_site.sessions import (
    call_list_cells_html,
    json_and_text_excerpts,
    long_text_pagination,
    message_media_sources,
    money_and_count_formatting,
    previewed_text_and_json_html,
    session_and_call_status_chips,
)
from harness_site.sessions.altered_record_names import mask_and_format_record_name
from harness_site.sessions.plan_steps_and_changes import PlanStep, StepState
from harness_site.sessions.prompt_outline_html import render_prompt_links
from harness_site.sessions.search_hit_html import render_search_hits
from harness_site.sessions.selectors.call_records import CallRecord
from harness_site.sessions.selectors.conversation_window import (
    MAX_OPENED_TOGETHER,
    CallCard,
    Conversation,
    Handover,
    count_messages_opened_at_once,
)
from harness_site.sessions.selectors.message_origin_versions_and_runs import RunFacts
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.selectors.session_history import CALL_ENDED, ArgumentEdit, HistoryItem
from harness_site.sessions.selectors.session_rows import SessionRow
from harness_site.sessions.selectors.waits_for_other_agents import PeerWaitSummary
from harness_site.sessions.selectors.workflow_steps import StepRow
from harness_site.sessions.session_list_query_parameters import KNOWN_MODELS, list_search_order_choices
from harness_site.sessions.session_row_html import render_session_rows
from harness_site.sessions.sortable_heading import render_sortable_heading
from harness_site.sessions.timeline.selectors.takeover_approval_verification_and_handover_events import Takeover
from harness_site.templatetags.harness_tags import build_filter_url

register = template.Library()

_STEP_STATES = {
    StepState.TODO: gettext_lazy("to do"),
    StepState.DOING: gettext_lazy("in progress"),
    StepState.DONE: gettext_lazy("done"),
    StepState.BLOCKED: gettext_lazy("blocked"),
    StepState.FAILED: gettext_lazy("failed"),
    StepState.SKIPPED: gettext_lazy("skipped"),
}
#: Kind of a history entry → details that its template displays itself.
_SAID_IN_LINE = {
    AuditKind.TAKEOVER.value: frozenset({"last_seen", "why", "taken_by", "host", "pid"}),
    AuditKind.CALL_INTERRUPTED.value: frozenset({"reason", "error_type", "step", "attempt"}),
    AuditKind.SESSION_QUARANTINED.value: frozenset({"rows", "table", "row"}),
    AuditKind.SESSION_FINISHED.value: frozenset({"status"}),
    AuditKind.SESSION_FORKED.value: frozenset({"origin", "forked", "other", "version"}),
    # The key of a comment says nothing to a reader.
    AuditKind.COMMENTED.value: frozenset({"comment"}),
    AuditKind.HANDED_OVER.value: frozenset({"comment"}),
}

register.simple_tag(previewed_text_and_json_html.render_foldable_message_text)
register.inclusion_tag("sessions/parts/json_tree.html", name="render_json_tree_or_link")(
    previewed_text_and_json_html.build_json_tree_context
)
register.inclusion_tag("sessions/parts/json_tree.html", name="render_call_arguments_or_link")(
    previewed_text_and_json_html.build_call_arguments_context
)
register.inclusion_tag("sessions/parts/tool_result.html", name="render_tool_result")(
    previewed_text_and_json_html.build_tool_result_context
)
register.simple_tag(markdown.mask_and_render_markdown)
register.simple_tag(render_prompt_links)
register.simple_tag(fold_repeated_hook_answers)
register.simple_tag(render_session_rows)
register.simple_tag(render_search_hits)
register.simple_tag(render_sortable_heading)
for _render_cell in (
    call_list_cells_html.render_call_summary_cell,
    call_list_cells_html.render_session_cell,
    call_list_cells_html.render_call_status_chip,
    call_list_cells_html.render_call_time_run_and_repeats,
    call_list_cells_html.render_logged_at_cell,
    call_list_cells_html.render_call_duration_cell,
):
    register.simple_tag(_render_cell)
register.filter("visible", safe_display_text.mask_and_reveal_hidden)
register.filter("size", text_shortening.format_byte_size)
register.filter("safe_link", safe_display_text.mask_safe_link_or_return_empty)
register.filter("count", money_and_count_formatting.format_count)
register.filter("signed", money_and_count_formatting.format_signed_number)
register.filter("format_exit_code", session_and_call_status_chips.format_exit_code)
register.filter("get_call_record_status_chip", session_and_call_status_chips.get_call_record_shape_and_label)
register.filter(session_and_call_status_chips.explain_imported_call_without_result)
register.simple_tag(session_and_call_status_chips.get_call_card_shape_and_label)
register.filter("image_source", message_media_sources.build_image_source)
register.filter("audio_source", message_media_sources.build_audio_source)
register.filter("money", money_and_count_formatting.format_money)
register.filter("rounded_money", money_and_count_formatting.render_rounded_money)
register.filter("copied_cost", money_and_count_formatting.format_copied_cost)
register.filter("copied_tokens", money_and_count_formatting.format_copied_tokens)
register.filter("money_delta", money_and_count_formatting.format_money_delta)
register.filter("exact", formatting.format_utc_time)
register.filter("portion", money_and_count_formatting.format_count_with_share)
register.filter("json_value", masked_formatting.parse_json_or_text)


@register.filter
def format_time_taken(span: timedelta | None) -> str:
    return "" if span is None else formatting.format_duration(span.total_seconds())


@register.simple_tag(name="page_address", takes_context=True)
def build_address_in_browser(context: Context) -> str:
    """Return the absolute URL of the page in the browser, also for a request that updates a part of the page."""
    request = context["request"]
    return str(request.build_absolute_uri(request.htmx.current_url_abs_path))


@register.simple_tag
def render_session_status(row: SessionRow, waiting: PeerWaitSummary | None = None) -> SafeString:
    """Render the status of a session as a chip with colour, shape and label."""
    shape, words = session_and_call_status_chips.get_session_status_shape_and_label(
        row.display_status,
        row.undecided,
        row.awaiting,
        row.questions,
        waiting,
        ended_without_result=row.ended_without_result,
    )
    return build_html('<span class="chip {}">{}</span>', shape, words)


@register.simple_tag
def render_version_options(numbers: Sequence[int], selected: int | None = None) -> SafeString:
    """Render the options of a list of versions. `selected` is added to `numbers` if it is missing there.

    A template takes several times as long, and a list has up to 200 versions.
    """
    listed = numbers if selected is None or selected in numbers else (*numbers, selected)
    mark = SafeString(" selected")
    rows = ((number, mark if number == selected else "", number) for number in listed)
    return join_html("", '<option value="{}"{}>{}</option>', rows)


@register.simple_tag
def list_session_status_choices() -> list[tuple[str, str]]:
    broader = {
        DisplayStatus.STALLED: _("Orphaned: the last run was lost"),
        DisplayStatus.IDLE: _("Idle: the last run ended in order"),
        DisplayStatus.PAUSED: _("Paused for other agents"),
        DisplayStatus.CANCELLED: _("Cancelled or ended without a result"),
    }
    return [
        (display_status.value, broader.get(display_status, str(display_status.label)))
        for display_status in DisplayStatus
    ]


@register.simple_tag
def list_session_sort_choices() -> list[tuple[str, str]]:
    return [(sort.value, str(sort.label)) for sort in Sort]


@register.simple_tag(takes_context=True)
def build_near_name_url(context: Context, near: NearNames, name: str) -> str:
    """Return the URL of the list with a known name in place of one that nothing has."""
    return build_filter_url(
        context["request"].GET, **{near.typed_in or near.parameter: "", near.parameter: name, "rows": ""}
    )


@register.simple_tag
def list_search_sort_choices() -> list[tuple[str, str]]:
    return list_search_order_choices()


@register.simple_tag
def list_number_of_models_filter_choices() -> list[tuple[str, str]]:
    return [(value, str(label)) for value, label in KNOWN_MODELS.items()]


@register.simple_tag
def render_already_masked_terminal_text(masked: str) -> SafeString:
    """Render a masked text with the colours of its terminal codes."""
    return ansi_colors.render_ansi_as_html(masked)


@register.simple_tag
def mask_and_render_code(source: str, language: str) -> SafeString:
    return syntax_highlighting.mask_and_highlight_code(source, language)


@register.simple_tag
def render_own_code_without_masking(source: str, language: str) -> SafeString:
    """Render a program that this site gives to its readers."""
    return syntax_highlighting.highlight_code_without_masking(source, language)


@register.filter
def format_code_continuing_session(session_id: str) -> str:
    """Format the line of a program that continues a session."""
    return f"with cp.session({json.dumps(session_id, ensure_ascii=False)}, registry=registry) as session:"


@register.inclusion_tag("sessions/parts/stored_json.html", name="render_stored_json_or_link")
def build_stored_json_or_link_context(stored: str, more_url: str) -> dict[str, Any]:
    """Render stored JSON as text, or a link to its pages if it is long."""
    if len(stored) <= long_text_pagination.MAX_UNPAGED_LENGTH:
        return {"html": mask_and_render_indented_json(masked_formatting.parse_json_or_text(stored))}
    query = urlencode({"text": long_text_pagination.STORED})
    return {
        "url": f"{more_url}{'&' if '?' in more_url else '?'}{query}",
        "size": text_shortening.get_byte_size(stored),
    }


@register.simple_tag
def build_text_pagination_url(
    more_url: str, page: long_text_pagination.TextPage, number: int, words: object = ""
) -> str:
    """Return the URL of another page of a text, on the page of its message or call."""
    query = {"text": page.key, "page": number} | ({"find": str(words)} if words else {})
    return f"{more_url}{'&' if '?' in more_url else '?'}{urlencode(query)}"


@register.simple_tag
def get_call_copy_url_prefix(card: CallCard, address: str) -> str:
    """Return the URL prefix of the plain text of a call, to be completed with the value of `as`.

    `address` is the URL of the call, or of its message if the call is not logged.
    """
    if card.newest_attempt is not None:
        return f"{address}?as="
    return f"{address}&{urlencode({'call': replace_unencodable_characters(card.call.call_id)})}&as="


@register.simple_tag(takes_context=True)
def build_transcript_message_url(context: Context, position: int) -> str:
    """Return the URL of another message of the displayed version; of an export, its place in the same file."""
    if context.get("offline"):
        return f"#m-{position}"
    return f"{context['session_url']}?v={context['version_text']}&at={position}#m-{position}"


@register.filter
def get_arguments_not_in_sentence(card: CallCard) -> Any:
    """Return the arguments of a call without what its sentence shows: the text of a framework's question."""
    record = card.newest_attempt
    if record is None or not record.is_question:
        return card.call.args
    return remove_sentence_from_question_args(card.call.args, record.sentence)


@register.filter
def has_any_arguments(args: Any) -> bool:
    return args not in (None, {}, [], "")


@register.filter
def has_person_changed_arguments(card: CallCard) -> bool:
    """Return whether a person changed the arguments that the model asked for."""
    try:
        return card.newest_attempt is not None and card.newest_attempt.args != to_canonical_json(card.call.args)
    except InvalidInput:  # the requested arguments cannot be canonicalized
        return False


@register.filter
def list_argument_differences(card: CallCard) -> tuple[ValueDifference, ...]:
    """List what people changed about the arguments that the model asked for."""
    record = card.newest_attempt
    if record is None:
        return ()
    return list_value_differences(
        card.call.args, masked_formatting.parse_json_or_text(record.args_json_in_caller_order)
    )


@register.filter
def list_edit_differences(edit: ArgumentEdit) -> tuple[ValueDifference, ...]:
    """List what a person changed about the arguments of a call."""
    return list_value_differences(
        masked_formatting.parse_json_or_text(edit.before),
        masked_formatting.parse_json_or_text(edit.after),
    )


@register.filter
def parse_original_arguments(stored: Any) -> Any:
    """Parse the stored JSON of the arguments before an edit."""
    return masked_formatting.parse_json_or_text(stored) if isinstance(stored, str) else stored


@register.filter
def mask_and_render_indented_json(value: Any) -> SafeString:
    """Render a complete JSON value, indented and highlighted."""
    return syntax_highlighting.mask_and_highlight_code(json_tree.mask_and_dump_json(value, indent=2), "json")


@register.filter
def is_handover_of_lost_run(handover: Handover) -> bool:
    """Return whether any of the runs that ended here was lost."""
    return any(run.status == RunStatus.LOST for run in handover.ended)


@register.filter
def find_takeover_that_ended_run(takeovers: Mapping[int, Takeover], number: int) -> Takeover | None:
    """Return the takeover that ended run `number` while it was alive; None if there was none."""
    return takeovers.get(number) if takeovers else None


@register.filter
def find_successor_run_of_actor(takers: Mapping[str, RunFacts] | None, actor: str) -> RunFacts | None:
    """Return the run that took over from the run that `actor` names."""
    return takers.get(actor) if takers else None


@register.filter
def add_and_round(number: float, more: float) -> float:
    return round(number + more, 1)


@register.filter
def count_messages_after_window(window: Conversation) -> int:
    """Return the number of messages after a window."""
    return window.place.length - window.upto


@register.simple_tag
def count_messages_folded_beside_windows(window: Conversation, first_prompt: Conversation | None) -> int:
    """Return the number of messages of a version that neither a window nor the one with the first prompt has."""
    windows = [window] if first_prompt is None else [window, first_prompt]
    return window.place.length - sum(each.upto - each.first for each in windows)


@register.filter
def count_messages_between_window_and_position(window: Conversation, position: int) -> int:
    """Return the number of messages after a window and before a position."""
    return position - window.upto


register.filter(count_messages_opened_at_once)


@register.filter
def may_be_opened_together(number: int) -> bool:
    """Return whether so many folded messages can be opened by one request."""
    return number <= MAX_OPENED_TOGETHER


@register.filter
def is_text(value: Any) -> bool:
    return isinstance(value, str)


@register.filter
def mask_and_format_evidence_json(stored: str) -> str:
    """Format evidence as JSON text."""
    return json_tree.mask_and_dump_json(
        replace_file_digests_by_keyed_fingerprints(masked_formatting.parse_json_or_text(stored))
    )


@register.filter
def mask_and_format_call_outcome(record: CallRecord | None) -> str:
    """Format the beginning of the result or of the error of a call; empty without one.

    The text of an error names the tool, which stands beside it, and usually the type of the error.
    """
    if record is None or (record.result is None and not record.error_type):
        return ""
    text = record.error_message if record.result is None else record.result
    if not record.error_type:
        return mask_and_format_text_excerpt(text)
    text = text.removeprefix(f"{record.tool} raised ")
    is_type_named = not text or text.startswith(record.error_type)
    return mask_and_format_text_excerpt(
        (text or record.error_type) if is_type_named else f"{record.error_type}: {text}"
    )


@register.filter
def count_workflow_steps_by_status(steps: Sequence[StepRow]) -> list[tuple[tuple[str, str], int]]:
    """Count the steps of a workflow by their status chips, in the order of the first step with each."""
    return list(Counter(_get_step_shape_and_label(step) for step in steps).items())


def _get_step_shape_and_label(step: StepRow) -> tuple[str, str]:
    if step.newest_attempt is not None:
        return session_and_call_status_chips.get_call_record_shape_and_label(step.newest_attempt)
    if step.elsewhere is not None:
        return status_and_decision_labels.get_status_shape_and_label(step.elsewhere.status)
    return "off", _("Not started")


@register.filter
def mask_and_format_text_excerpt(content: str) -> str:
    """Format the beginning of a text with the size of the rest, which is one link away."""
    plain = remove_terminal_sequences(content)
    beginning = safe_display_text.strip_markdown_marks(json_and_text_excerpts.mask_and_format_text_beginning(plain))
    return safe_display_text.mask_and_reveal_hidden(beginning)


register.filter("mask_and_format_detail_name", format_event_details_and_actors.mask_and_format_detail_name)
register.filter("format_event_detail", format_event_details_and_actors.mask_and_format_detail_value)
register.filter("format_actor", format_event_details_and_actors.mask_and_format_actor)


@register.filter
def list_details_not_said_in_line(row: HistoryItem) -> list[tuple[str, str]]:
    """Return the words for the details of a history entry, without those that its line already says."""
    named = frozenset({"tool"}) if row.call_pk is not None else frozenset()
    return format_event_details_and_actors.list_shown_detail_names_and_values(
        row.details, _SAID_IN_LINE.get(row.kind, frozenset()) | named
    )


@register.simple_tag
def build_fork_sentence(row: HistoryItem, head: SessionHead, offline: Any = None) -> SafeString | str:
    """Build the sentence of a history entry about a fork; empty for another entry."""
    if row.kind != AuditKind.SESSION_FORKED:
        return ""
    session = head.row
    sentence = event_sentences.build_fork_sentence(
        row.details, row.actor, row.actor_kind, session.pk, session.session_id, linked=not offline
    )
    return sentence or ""


@register.simple_tag
def render_origin_of_copied_call(record: CallRecord, head: SessionHead, step_shift: int | None) -> SafeString:
    """Render from where a fork has copied a call, with a link to the version of the original if that is known."""
    version = 0 if step_shift is None else record.step + step_shift
    if head.forked_from is None or head.origin_id is None:
        return build_html("{}", _("copied from the original"))
    origin = safe_display_text.mask_and_reveal_hidden(head.origin_id)
    address = reverse("harness_sessions:session", args=[head.forked_from])
    return build_html(
        '<a href="{}{}" title="{}">{}</a>',
        address,
        f"?v={version}" if version > 0 else "",
        origin,
        _("copied from v%(number)s") % {"number": version} if version > 0 else _("copied from the original"),
    )


@register.filter
def mask_and_format_json_inline(value: Any) -> str:
    """Format a JSON value on one line: `order 17, to ann`."""
    return mask_and_format_text_excerpt(json_and_text_excerpts.mask_fields_and_format_value_as_inline_text(value))


@register.filter
def mask_and_format_agent_answer(value: Any) -> str:
    """Format the answer of another agent on one line: a text as it is, an object as `price 40, to ann`."""
    return mask_and_format_text_excerpt(value) if isinstance(value, str) else mask_and_format_json_inline(value)


@register.filter
def get_plan_step_symbol(step: PlanStep) -> str:
    return {
        StepState.DONE: "✓",
        StepState.DOING: "◐",
        StepState.BLOCKED: "‖",
        StepState.FAILED: "✗",
        StepState.SKIPPED: "–",
    }.get(step.state or StepState.TODO, "○")


@register.filter
def format_plan_step_state(step: PlanStep) -> str:
    """Return the state of a step in the reader's language, or the plan's own word for one that is unknown."""
    return str(_STEP_STATES[step.state]) if step.state else safe_display_text.mask_and_reveal_hidden(step.word)


@register.filter
def get_plan_step_css_kind(step: PlanStep) -> str:
    return step.state.name.lower() if step.state else "todo"


@register.filter
def format_interruption_reason(reason: str) -> str:
    return str(translate_label(InterruptReason(reason))) if reason in InterruptReason.values else reason


@register.filter
def describe_interruption(row: HistoryItem) -> str:
    """Explain why the outcome of the call of a history entry became unknown; empty for another entry."""
    reason, error_type = (str(row.details.get(name) or "") for name in ("reason", "error_type"))
    if row.kind != AuditKind.CALL_INTERRUPTED or not reason:
        return ""
    return unknown_outcome_reasons.describe_interruption(reason, error_type)


@register.filter
def describe_altered_rows(row: HistoryItem) -> str:
    """Say which rows were found altered by the quarantine that a history entry is about."""
    record = mask_and_format_record_name(str(row.details.get("table")), str(row.details.get("row")))
    rows = row.details.get("rows")
    others = rows - 1 if isinstance(rows, int) else 0
    if others < 1:
        return _("%(record)s is not as Harness wrote it.") % {"record": record}
    return ngettext(
        "%(record)s and %(count)s other row are not as Harness wrote them.",
        "%(record)s and %(count)s other rows are not as Harness wrote them.",
        others,
    ) % {"record": record, "count": money_and_count_formatting.format_count(others)}


@register.filter
def get_history_item_css_class(row: HistoryItem) -> str:
    """Return the style class of a history entry: action of a person, success or failure."""
    if row.actor_kind == ActorKind.PERSON:
        return "person"
    if row.kind == AuditKind.SESSION_FINISHED:
        kinds = {str(SessionStatus.CANCELLED): "", str(SessionStatus.FAILED): "bad"}
        return kinds.get(str(row.details.get("status")), "ok")
    if row.kind == CALL_ENDED and row.call is not None:
        return session_and_call_status_chips.get_call_record_shape_and_label(row.call)[0]
    return {
        AuditKind.RUN_LOST: "bad",
        AuditKind.TAKEOVER: "bad",
        AuditKind.CALL_INTERRUPTED: "bad",
        AuditKind.SESSION_QUARANTINED: "bad",
    }.get(AuditKind(row.kind) if row.kind in AuditKind.values else AuditKind.DECIDED, "")


@register.filter("side_effect_names")
def format_side_effects(call: ToolCall) -> str:
    """Return the labels of the side effects of a call, separated by commas."""
    return risk_effect_and_idempotency_texts.format_side_effects(call.side_effects.split(","))


@register.filter("described_side_effects")
def describe_side_effects(call: ToolCall | CallRecord) -> str:
    """Describe what a call does to the world outside its session."""
    effects = call.side_effects.split(",") if isinstance(call, ToolCall) else call.side_effects
    return risk_effect_and_idempotency_texts.describe_side_effects(effects)


@register.filter("times")
def format_number_of_times(number: int) -> str:
    if number in {1, 2}:
        return _("once") if number == 1 else _("twice")
    return ngettext("%(count)s time", "%(count)s times", number) % {
        "count": money_and_count_formatting.format_count(number)
    }


@register.filter("gap")
def format_time_between_runs(before: RunFacts, after: RunFacts) -> str:
    """Format the time during which no run owned the session; empty if only the takeover revealed that the run was
    lost."""
    seconds = (after.started_at - (before.ended_at or before.seen_at)).total_seconds()
    return formatting.format_duration(seconds) if seconds >= 1 else ""
