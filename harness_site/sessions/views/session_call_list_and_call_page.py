"""Pages of the tool calls of one session."""

from collections.abc import Iterable, Sequence

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from checkpoints.formats.parse_message_parts import CallPart, parts_to_text
from checkpoints.models.run import FORK_RUN_NUMBER
from harness_site.accounts.permissions import MemberRequest
from harness_site.core.masked_formatting import parse_json_or_text
from harness_site.core.masking.masker import collect_secret_values, mask_values_until_response
from harness_site.core.number_parameters import parse_number_parameter_or_none
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord, filter_out_unreadable_records
from harness_site.search.query_terms import SearchQuery
from harness_site.sessions import clipboard_text
from harness_site.sessions.call_row_display import (
    build_session_call_lines,
    format_run_of_call,
)
from harness_site.sessions.selectors import call_records, conversation_window, find_words_errors_and_decisions
from harness_site.sessions.selectors.call_records import CallPage, CallRecord
from harness_site.sessions.selectors.conversation_window import CallCard, MessageEntry
from harness_site.sessions.selectors.find_words_errors_and_decisions import CallSpot
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.selectors.stored_results_given_again import (
    find_message_that_asked_again,
    load_uses_of_stored_result,
)
from harness_site.sessions.session_and_call_status_chips import list_call_status_choices
from harness_site.sessions.session_lookup_masking_and_404 import (
    PageNotFound,
    get_session_head_and_mask_secrets_or_404,
    require_member_and_handle_page_not_found,
)
from harness_site.sessions.timeline.selectors.call_handovers_between_people import HandOver, filter_handovers_of_attempt
from harness_site.sessions.timeline.selectors.takeover_approval_verification_and_handover_events import (
    load_handovers_of_call,
)
from harness_site.sessions.views.call_log_page_and_export import (
    build_session_export_url_with_filters,
    parse_call_filter,
)
from harness_site.sessions.views.transcript_pages import find_text_page_requested_or_with_words, render_long_text_page


@require_GET
@require_member_and_handle_page_not_found
def list_session_calls(request: MemberRequest, pk: int) -> HttpResponse:
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    filters = parse_call_filter(request.GET)
    before = parse_number_parameter_or_none(request, "before")
    original_before = parse_number_parameter_or_none(request, "original_before") if head.may_have_copied_calls else None
    # Each of the two lists of a fork has pages of its own; the first page has the beginning of both.
    own = (
        CallPage()
        if original_before
        else call_records.load_session_call_page(
            pk, filters, before=before, may_have_copied_calls=head.may_have_copied_calls
        )
    )
    after_fork = (
        call_records.load_page_of_calls_copied_after_fork(pk, filters, before=original_before)
        if head.may_have_copied_calls and before is None
        else CallPage()
    )
    records = (*own.rows, *after_fork.rows)
    original_runs = call_records.load_run_numbers_of_originals(head.stored, filter_out_unreadable_records(records))
    lines = build_session_call_lines(pk, records, original_runs, head.origin_id, has_times=head.row.has_times)
    context = {
        "head": head,
        "tab": "calls",
        "page": own,
        "rows": lines[: len(own.rows)],
        "page_after_fork": after_fork,
        "rows_after_fork": lines[len(own.rows) :],
        "calls_after_fork": call_records.count_calls_copied_after_fork(pk, filters) if after_fork.rows else 0,
        "tools": call_records.list_tool_names(pk),
        "step_shift": _load_step_shift_of_copied_calls(head, records),
        "wanted": filters,
        "statuses": list_call_status_choices(),
        "exported": build_session_export_url_with_filters(
            request, head.row.session_id, has_copied_calls=head.may_have_copied_calls
        ),
        "first_page": before is None and original_before is None,
    }
    return render(request, "sessions/calls.html", context)


@require_GET
@require_member_and_handle_page_not_found
def show_call(request: MemberRequest, pk: int, call_pk: int) -> HttpResponse:
    """Show a call with all its attempts, arguments and results; with `as`, return it as plain text for copying."""
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    call = call_records.load_call_record(pk, call_pk) if call_pk < 2**63 else None
    if call is None:
        raise PageNotFound(
            _("This session has no such call."),
            _("The list of its tool calls shows those it has."),
            head,
            offers_calls=True,
        )
    asked_args = parse_json_or_text(call.args_json_before_edits)
    mask_values_until_response(collect_secret_values([asked_args, parse_json_or_text(call.args)]))
    attempts = [
        record
        for record in call_records.load_calls_with_ids_and_open_or_since_step(pk, [call.call_id])
        if record.step == call.step
    ]
    spot = find_words_errors_and_decisions.find_message_of_call(head.stored, call.call_id, call.step)
    saved = _load_saved_result_if_log_has_none(head, call, spot)
    card = CallCard(
        CallPart(call.call_id, call.tool, asked_args),
        None if saved is None else saved.result,
        None,
        (call,),
    )
    if part_name := request.GET.get("as"):
        return clipboard_text.build_text_response_naming_hidden_characters(
            clipboard_text.mask_and_format_call_for_clipboard(part_name, card)
        )
    words = SearchQuery.parse(request.GET.get("find", ""))
    texts = (card, *card.result_parts)
    if (page := find_text_page_requested_or_with_words(request, texts, call.args, words)) is not None:
        return render_long_text_page(
            request, head, page, request.path, up=request.path, title=_("Call of %(tool)s") % {"tool": call.tool}
        )
    context = {
        "head": head,
        "tab": "calls",
        "record": call,
        "run_name": _format_run_name(head, call),
        "attempts": attempts,
        "handovers": _load_handovers_of_attempt(pk, call, attempts),
        "neighbours": call_records.find_previous_and_next_call(pk, call.pk),
        "spot": spot,
        "asked_again": find_message_that_asked_again(head.stored, call) if spot is None and call.step >= 0 else None,
        "uses": [] if spot is None else load_uses_of_stored_result(head.stored, call, spot.position),
        "saved_result_position": None if saved is None else saved.result_position,
        "step_shift": _load_step_shift_of_copied_calls(head, [call]),
        "card": card,
        "words": words,
    }
    return render(request, "sessions/call.html", context)


def _load_handovers_of_attempt(session_pk: int, call: CallRecord, attempts: Iterable[CallRecord]) -> Sequence[HandOver]:
    """Load who handed the call over to whom while it waited for a person; no query for a call that did not."""
    if not (call.is_undecided or call.rulings):
        return []
    return filter_handovers_of_attempt(
        load_handovers_of_call(session_pk, call.call_id, call.step),
        attempt=call.attempt,
        issued_at=call.issued_at,
        next_issued_at=next((each.issued_at for each in attempts if each.attempt == call.attempt + 1), None),
    )


def _load_saved_result_if_log_has_none(head: SessionHead, call: CallRecord, spot: CallSpot | None) -> CallCard | None:
    """Load the call as the transcript has it, if the log has no text of its result and the transcript has one."""
    if spot is None or call.answered_version is None or (call.result or "").strip():
        return None
    version = max(spot.shown_version, call.answered_version)
    at = conversation_window.find_transcript_version(head.stored, version)
    if at is None:
        return None
    window = conversation_window.load_conversation_window(head.stored, at, first=spot.position, upto=spot.position + 1)
    parts = (part for item in window.items if isinstance(item, MessageEntry) for part in item.parts)
    for part in parts:
        if isinstance(part, CallCard) and part.newest_attempt is not None and part.newest_attempt.pk == call.pk:
            return part if part.result is not None and parts_to_text(part.result.parts).strip() else None
    return None


def _format_run_name(head: SessionHead, call: CallRecord) -> str:
    original_runs = call_records.load_run_numbers_of_originals(head.stored, [call])
    is_run = not call.is_copied and call.run_number > FORK_RUN_NUMBER
    return str(call.run_number) if is_run else format_run_of_call(call, original_runs, head.origin_id)


def _load_step_shift_of_copied_calls(head: SessionHead, records: Iterable[CallRecord | UnreadableRecord]) -> int | None:
    has_copies = any(isinstance(record, CallRecord) and record.step < 0 for record in records)
    return call_records.load_step_shift_of_copied_calls(head.stored) if has_copies else None
