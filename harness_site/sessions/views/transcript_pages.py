"""Transcript pages of one session."""

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET

from checkpoints.formats.parse_message_parts import Part
from checkpoints.models import Session
from checkpoints.sessions.display_status import DisplayStatus
from harness_site.accounts.permissions import MemberRequest
from harness_site.core.hidden_characters import replace_unencodable_characters
from harness_site.core.masked_formatting import parse_json_or_text
from harness_site.core.masking import masker
from harness_site.core.number_parameters import parse_number_parameter_or_none
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.search.query_terms import SearchQuery
from harness_site.sessions import clipboard_text, long_text_pagination, transcript_content_choices, transcript_search
from harness_site.sessions.long_text_pagination import TextPage
from harness_site.sessions.money_and_count_formatting import format_count
from harness_site.sessions.parse_message_number_or_time import MAX_INPUT_LENGTH
from harness_site.sessions.selectors import (
    conversation_window,
    find_words_errors_and_decisions,
    permission_modes,
    prompt_outline_and_version_summaries,
    transcript_message_queries,
    version_lookup,
)
from harness_site.sessions.selectors.conversation_window import (
    MAX_OPENED_TOGETHER,
    CallCard,
    Conversation,
    MessageEntry,
    TranscriptVersion,
)
from harness_site.sessions.selectors.find_words_errors_and_decisions import Landmark
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.selectors.transcript_message_queries import WINDOW
from harness_site.sessions.session_environment import read_session_environment
from harness_site.sessions.session_lookup_masking_and_404 import (
    PageNotFound,
    build_missing_version_error,
    get_session_head_and_mask_secrets_or_404,
    require_member_and_handle_page_not_found,
)
from harness_site.sessions.subagent_tree import subagent_tree
from harness_site.sessions.timeline.selectors import run_lanes, takeover_approval_verification_and_handover_events

#: Number of new messages that an open page appends before it asks for a reload.
_FOLLOWED = 500
#: What a jump did not find: a landmark, a time where messages have none, or a place that is none.
_REJECTED: Final = frozenset({"time", "place", "number", "early", "late"})
_NOT_FOUND: Final = frozenset({*Landmark, *_REJECTED})
#: Those whose sentence names the message from which the jump began.
_NAMED_BY_POSITION: Final = frozenset({*Landmark, "number"})


@require_GET
@require_member_and_handle_page_not_found
def show_transcript(request: MemberRequest, pk: int) -> HttpResponse:
    """Show the newest messages of a session, or those around a position.

    Query parameters: `before`, `after`, `at`, `since` and `until` are positions, `v` is the version, `find` searches
    the whole transcript. With `all`, everything from `after` to `until` is shown. `here` is the position of the reader,
    who stays there if nothing is found. `none` is what a jump did not find, and `where` the place that was typed for
    it. A session opens with its first prompt, or its first message if nobody wrote one, and its newest messages; while
    a process runs it, the view begins at its end.
    """
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    transcript = get_requested_transcript_version_or_404(request, head, head.stored)
    words, at = SearchQuery.parse(request.GET.get("find", "")), parse_number_parameter_or_none(request, "at")
    piece = _get_direction_to_extend_open_page(request)
    is_search = bool(words) and at is None and not piece
    hit = transcript_search.find_first_hit_position(transcript, words) if is_search else None
    if hit is None and is_search:
        hit = parse_number_parameter_or_none(request, "here")
    if hit is not None:
        query = urlencode({"v": transcript.version, "find": str(words), "at": hit})
        return redirect(f"{request.path}?{query}#m-{hit}")
    window = _load_requested_window(request, head, transcript)
    is_live = not any(request.GET.get(name) for name in ("v", "before", "after", "at")) and (is_search or not words)
    is_opening = is_live and "since" not in request.GET
    around = at if at is not None else 0 if is_opening else window.first
    outline = None if piece else prompt_outline_and_version_summaries.load_prompt_outline(transcript, around=around)
    first_position = outline.first.position if outline and outline.first else 0
    first_prompt = (
        conversation_window.load_prompt_if_before_window(head.stored, window, first_position) if is_opening else None
    )
    displayed = [first_prompt, window] if first_prompt else [window]
    masker.mask_values_until_response(
        masker.collect_secret_values(*chain(*map(_list_arguments_of_calls_in_window, displayed)))
    )
    events = takeover_approval_verification_and_handover_events.load_takeovers_approval_and_probe_requests(pk)
    missed = request.GET.get("none")
    if missed not in _NOT_FOUND or (at is None and missed in _NAMED_BY_POSITION):
        missed = None
    context = {
        "head": head,
        "tab": "transcript",
        "place": transcript,
        "conversation": window,
        "first_prompt": first_prompt,
        "between": parse_number_parameter_or_none(request, "until") if piece == "later" else None,
        "outline": outline,
        "reading": transcript_content_choices.read_reading_choices_from_cookie(request),
        "following": is_live,
        "opens_at_end": is_opening and not request.GET and head.row.display_status is DisplayStatus.RUNNING,
        "words": words,
        "found": transcript_search.find_nearest_transcript_hits(transcript, words, at)
        if words and at is not None
        else None,
        "at": at,
        "piece": piece,
        "may_have_errors": bool(piece) or _may_have_errors(head, displayed),
        **_get_error_and_decision_search_starts(window, first_prompt, at),
        "nothing_further": missed,
        "rejected_target": request.GET.get("where", "")[:MAX_INPUT_LENGTH] if missed in _REJECTED else "",
        "timeline": run_lanes.load_timeline_of_newest_runs(pk, events) if is_live and head.row.has_times else None,
        "takeovers": events.takeovers,
        **_build_version_context(request, head, transcript),
        **_build_subagent_and_permission_context(head, window),
    }
    return render(request, "sessions/transcript.html", context)


def _build_version_context(request: HttpRequest, head: SessionHead, transcript: TranscriptVersion) -> dict[str, Any]:
    """Build the variables for choosing a version; `older` and `newer` are the neighbours of the displayed one."""
    numbers = version_lookup.list_version_choices(head.row.pk, included=transcript.version)
    return {
        "as_of": bool(request.GET.get("v")) and not transcript.newest,
        "numbers": numbers,
        "older": max((version for version in numbers if version < transcript.version), default=None),
        "newer": min((version for version in numbers if version > transcript.version), default=None),
    }


def _build_subagent_and_permission_context(head: SessionHead, window: Conversation) -> dict[str, Any]:
    """Build the variables for the subagents of calls, and for what calls say only where it differs: the permission mode
    and the folder. The head of the page has the only mode, and the folder in which the session began.
    """
    facts = read_session_environment(head.stored)
    modes = facts.permission_modes
    return {
        "subagents": subagent_tree.load_subagent_session_pks_by_call(head.stored, (facts.subagents or {}).items()),
        "is_imported": facts.is_imported,
        "permissions_by_position": permission_modes.load_changed_permission_modes_by_position(window)
        if len(modes) > 1
        else {},
        "first_folder": mask_and_reveal_hidden(facts.folders[0]) if facts.folders else "",
    }


@require_GET
@require_member_and_handle_page_not_found
def show_message(request: MemberRequest, pk: int, position: int) -> HttpResponse:
    """Show one message completely.

    With `as`, return it as plain text for copying: the message, or one `call` of it, or the arguments of that call.
    """
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    session = head.stored
    transcript = get_requested_transcript_version_or_404(request, head, session)
    window = conversation_window.load_conversation_window(session, transcript, first=position, upto=position + 1)
    masker.mask_values_until_response(masker.collect_secret_values(*_list_arguments_of_calls_in_window(window)))
    entries = [
        item for item in window.items if isinstance(item, MessageEntry) and item.has_message_or_result_at(position)
    ]
    stored = load_verified_message_or_none(transcript, position)
    if not entries or stored is None:
        raise _build_missing_message_error(head, transcript, position)
    if part_name := request.GET.get("as"):
        cards = (part for part in entries[0].parts if isinstance(part, CallCard))
        card = next(
            (card for card in cards if replace_unencodable_characters(card.call.call_id) == request.GET.get("call")),
            None,
        )
        return clipboard_text.build_text_response_naming_hidden_characters(
            clipboard_text.mask_and_format_call_for_clipboard(part_name, card)
            if card
            else clipboard_text.mask_and_format_message_text(entries[0].parts)
        )
    words = SearchQuery.parse(request.GET.get("find", ""))
    address = f"{request.path}?v={transcript.version}"
    if (page := find_text_page_requested_or_with_words(request, entries[0].parts, stored.body, words)) is not None:
        up = f"{address}&{urlencode({'find': str(words)})}" if words else address
        return render_long_text_page(
            request,
            head,
            page,
            address,
            up=up,
            title=_("Message %(position)s") % {"position": format_count(position + 1)},
        )
    context = {
        "head": head,
        "tab": "transcript",
        "place": transcript,
        "entry": entries[0],
        "following_position": window.upto,
        "stored": stored,
        "address": address,
        "words": words,
    }
    return render(request, "sessions/message.html", context)


def find_text_page_requested_or_with_words(
    request: MemberRequest, parts: Sequence[Part | CallCard], stored: str, words: SearchQuery
) -> TextPage | None:
    """Return the page of a long text that a request names, or the one with the words that it searches for.

    None if the request names no text, or one that the message or call does not have any more.
    """
    if len(stored) <= long_text_pagination.MAX_UNPAGED_LENGTH and not any(isinstance(part, CallCard) for part in parts):
        return None
    texts = long_text_pagination.iterate_pageable_texts(parts)
    if key := request.GET.get("text", ""):
        stored_texts = (
            long_text_pagination.mask_secret_fields_and_format_json(parse_json_or_text(body)) for body in (stored,)
        )
        text = (
            next(stored_texts)
            if key == long_text_pagination.STORED
            else long_text_pagination.find_long_text_by_fingerprint(chain(texts, stored_texts), key)
        )
        return (
            None
            if text is None
            else long_text_pagination.build_masked_text_page(text, parse_number_parameter_or_none(request, "page") or 1)
        )
    return (
        long_text_pagination.find_later_text_page_with_any_word(texts, words.words)
        if words and not request.htmx
        else None
    )


def render_long_text_page(
    request: MemberRequest, head: SessionHead, page: TextPage, address: str, *, up: str, title: str
) -> HttpResponse:
    """Render a page of a long text. `address` is the URL of its message or call, and `up` that of the way back."""
    words = SearchQuery.parse(request.GET.get("find", ""))
    context = {"head": head, "tab": "", "page": page, "address": address, "up": up, "title": title, "words": words}
    return render(request, "sessions/text_page.html", context)


def _list_arguments_of_calls_in_window(window: Conversation) -> list[Any]:
    """Return the arguments of all calls in a window, including read-only calls, which have no log entry."""
    cards = [part for item in window.items if isinstance(item, MessageEntry) for part in item.parts]
    return [card.call.args for card in cards if isinstance(card, CallCard)]


def get_requested_transcript_version_or_404(
    request: HttpRequest, head: SessionHead, session: Session
) -> TranscriptVersion:
    """Return the version `v`, or the newest one. Raises `PageNotFound`."""
    text = request.GET.get("v", "")
    version = parse_number_parameter_or_none(request, "v")
    transcript = (
        conversation_window.find_transcript_version(session, version) if version is not None or not text else None
    )
    if transcript is None:
        raise build_missing_version_error(head, text[:20])
    return transcript


def _may_have_errors(head: SessionHead, displayed: Sequence[Conversation]) -> bool:
    """Return whether there may be errors to step to. Messages are searched only where some are not displayed."""
    window = displayed[-1]
    if any(part.has_error for part in displayed):
        return True
    is_whole = not window.has_earlier and not window.has_later
    return not is_whole and find_words_errors_and_decisions.may_have_errors(head.stored, window.place)


def _get_error_and_decision_search_starts(
    window: Conversation, first_prompt: Conversation | None, at: int | None
) -> dict[str, int]:
    """Return the positions behind and before which errors and decisions are searched, until the reader scrolls.

    Of a page that is not about one position, all messages count in both directions.
    """
    if at is not None:
        return {"search_after": at, "search_before": at}
    return {"search_after": first_prompt.first if first_prompt else window.first - 1, "search_before": window.upto}


def _get_direction_to_extend_open_page(request: MemberRequest) -> str:
    """Return which end of an open page requests more messages.

    The other end already has a link to them.
    """
    if not request.htmx:
        return ""
    return "earlier" if "before" in request.GET else "later" if "after" in request.GET else ""


def _load_requested_window(request: MemberRequest, head: SessionHead, transcript: TranscriptVersion) -> Conversation:
    before, after, at, since = (
        parse_number_parameter_or_none(request, name) for name in ("before", "after", "at", "since")
    )
    load = partial(
        conversation_window.load_conversation_window,
        head.stored,
        transcript,
        newest_run=head.runs,
        with_version_tokens=True,
    )
    if before is not None:
        return load(upto=min(before, transcript.length))
    if at is not None and at < transcript.length:
        return load(first=max(0, at - WINDOW // 2))
    if after is not None and after < transcript.length:
        until = parse_number_parameter_or_none(request, "until")
        if until is not None and "all" in request.GET and after < until <= after + MAX_OPENED_TOGETHER:
            window = load(first=after, upto=until)
            if window.first <= after:  # not if the messages are so large that only the newest of them are loaded
                return window
        return load(first=after, within=until if request.htmx else None)
    if since is not None and since < transcript.length:
        return load(first=since, upto=min(transcript.length, since + _FOLLOWED))
    return load()


def load_verified_message_or_none(
    transcript: TranscriptVersion, position: int
) -> transcript_message_queries.StoredMessage | None:
    """Load and verify a message of a version; None if the version has no such message."""
    if transcript.segment_id is None or position >= transcript.length:
        return None
    messages = transcript_message_queries.load_and_verify_newest_messages_within_size(
        transcript.segment_id, position, position + 1
    )
    return messages[0] if messages else None


def _build_missing_message_error(head: SessionHead, transcript: TranscriptVersion, position: int) -> PageNotFound:
    return PageNotFound(
        _("Version %(version)s has no message %(position)s.")
        % {"version": transcript.version, "position": format_count(position + 1)},
        ngettext("It has %(count)s message.", "It has %(count)s messages.", transcript.length)
        % {"count": format_count(transcript.length)},
        head,
    )
