"""Transcript pages of one session."""

import base64
import binascii
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from checkpoints.formats import content_blocks
from checkpoints.models import Session
from harness_site.accounts.permissions import MemberRequest
from harness_site.core.masking import masker
from harness_site.core.rendering.safe_text import replace_unencodable
from harness_site.search.query_terms import SearchQuery
from harness_site.sessions import clipboard_text, transcript_search
from harness_site.sessions.selectors import conversation, message_windows, version_list
from harness_site.sessions.selectors.conversation import CallCard, Conversation, Entry, Place
from harness_site.sessions.selectors.message_windows import WINDOW
from harness_site.sessions.selectors.session_rows import SessionHead
from harness_site.sessions.selectors.transcript_matches import Landmark
from harness_site.sessions.session_formatting import DATA_URL
from harness_site.sessions.session_lookup import (
    PageNotFound,
    build_missing_version_error,
    get_session_head_or_404,
    parse_number_parameter,
    serve_session_page,
)
from harness_site.sessions.timeline.selectors import run_events, run_lanes

#: Number of new messages that an open page appends before it asks for a reload.
_FOLLOWED = 500
_IMAGE_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, max-age=3600",
}


@require_GET
@serve_session_page
def show_transcript(request: MemberRequest, pk: int) -> HttpResponse:
    """Show the newest messages of a session, or those around a position.

    Query parameters: `before`, `after`, `at` and `since` are positions, `v` is the version, `find` searches the whole
    transcript.
    """
    head = get_session_head_or_404(request, pk)
    stored = head.stored
    place = get_requested_place(request, head, stored)
    words, at = SearchQuery.parse(request.GET.get("find", "")), parse_number_parameter(request, "at")
    hit = (
        transcript_search.find_first_hit(place, words)
        if words and at is None and not _get_requested_piece(request)
        else None
    )
    if hit is not None:
        query = urlencode({"v": place.version, "find": str(words), "at": hit})
        return redirect(f"{request.path}?{query}#m-{hit}")
    window = _load_requested_window(request, stored, place)
    masker.mask_values_until_response(masker.collect_secret_values(*_list_call_arguments(window)))
    numbers = version_list.list_version_numbers(pk, around=place.version)
    events = run_events.load_run_events(pk)
    is_live = not any(request.GET.get(name) for name in ("v", "before", "after", "at", "find"))
    context = {
        "head": head,
        "tab": "transcript",
        "place": place,
        "conversation": window,
        "following": is_live,
        "words": words,
        "found": transcript_search.find_transcript_hits(place, words, at) if words and at is not None else None,
        "at": at,
        "piece": _get_requested_piece(request),
        "spot": at if at is not None else window.first - 1 if "after" in request.GET else window.upto,
        "nothing_further": Landmark(landmark) if (landmark := request.GET.get("none")) in set(Landmark) else None,
        "as_of": bool(request.GET.get("v")) and not place.newest,
        "numbers": numbers,
        "older": max((version for version in numbers if version < place.version), default=None),
        "newer": min((version for version in numbers if version > place.version), default=None),
        "timeline": run_lanes.load_run_lanes(pk, events) if is_live else None,
        "takeovers": events.takeovers,
    }
    return render(request, "sessions/transcript.html", context)


@require_GET
@serve_session_page
def show_message(request: MemberRequest, pk: int, position: int) -> HttpResponse:
    """Show one message completely.

    With `as`, return it as plain text for copying: the message, or one `call` of it, or the arguments of that call.
    """
    head = get_session_head_or_404(request, pk)
    session = head.stored
    place = get_requested_place(request, head, session)
    window = conversation.load_conversation(session, place, first=position, upto=position + 1)
    masker.mask_values_until_response(masker.collect_secret_values(*_list_call_arguments(window)))
    entries = [item for item in window.items if isinstance(item, Entry) and _contains_position(item, position)]
    stored = _load_stored_message(place, position)
    if not entries or stored is None:
        raise _build_missing_message_error(head, place, position)
    if part_name := request.GET.get("as"):
        cards = (part for part in entries[0].parts if isinstance(part, CallCard))
        card = next((card for card in cards if replace_unencodable(card.call.call_id) == request.GET.get("call")), None)
        return clipboard_text.build_text_response(
            clipboard_text.get_call_part_text(part_name, card)
            if card
            else clipboard_text.format_message_text(entries[0].parts)
        )
    context = {
        "head": head,
        "tab": "transcript",
        "place": place,
        "entry": entries[0],
        "stored": stored,
        "words": SearchQuery.parse(request.GET.get("find", "")),
    }
    return render(request, "sessions/message.html", context)


@require_GET
@serve_session_page
def serve_message_image(request: MemberRequest, pk: int, position: int, index: int) -> HttpResponse:
    """Serve an image of a message with its own content type; anything else is refused."""
    head = get_session_head_or_404(request, pk)
    place = get_requested_place(request, head, head.stored)
    stored = _load_stored_message(place, position)
    images = list(content_blocks.iterate_images(content_blocks.read_message_parts(stored.body))) if stored else []
    match = DATA_URL.match(images[index - 1].url) if 0 < index <= len(images) else None
    if match is None:
        raise PageNotFound("There is no such image.", "The message shows what it holds instead.", head)
    try:
        content = base64.b64decode(match[2])
    except (ValueError, binascii.Error):
        raise PageNotFound("This image is damaged.", "The message shows its data as text.", head) from None
    return HttpResponse(content, content_type=match[1], headers=_IMAGE_HEADERS)


def _list_call_arguments(window: Conversation) -> list[Any]:
    """Return the arguments of all calls in a window, including read-only calls, which have no log entry."""
    cards = [part for item in window.items if isinstance(item, Entry) for part in item.parts]
    return [card.call.args for card in cards if isinstance(card, CallCard)]


def get_requested_place(request: HttpRequest, head: SessionHead, found: Session) -> Place:
    """Return the version `v`, or the newest one. Raises `PageNotFound`."""
    text = request.GET.get("v", "")
    version = parse_number_parameter(request, "v")
    place = conversation.find_version_place(found, version) if version is not None or not text else None
    if place is None:
        raise build_missing_version_error(head, text[:20])
    return place


def _get_requested_piece(request: MemberRequest) -> str:
    """Return which end of an open page requests more messages.

    The other end already has a link to them.
    """
    if not request.htmx:
        return ""
    return "earlier" if "before" in request.GET else "later" if "after" in request.GET else ""


def _load_requested_window(request: HttpRequest, session: Session, place: Place) -> Conversation:
    before, after, at, since = (parse_number_parameter(request, name) for name in ("before", "after", "at", "since"))
    if before is not None:
        return conversation.load_conversation(session, place, upto=min(before, place.length))
    if at is not None and at < place.length:
        return conversation.load_conversation(session, place, first=max(0, at - WINDOW // 2))
    if after is not None and after < place.length:
        return conversation.load_conversation(session, place, first=after)
    if since is not None and since < place.length:
        return conversation.load_conversation(session, place, first=since, upto=min(place.length, since + _FOLLOWED))
    return conversation.load_conversation(session, place)


def _contains_position(entry: Entry, position: int) -> bool:
    """Return whether a message, or a result displayed with its call, has this position."""
    results = {part.result_position for part in entry.parts if isinstance(part, CallCard)}
    return entry.position == position or position in results


def _load_stored_message(place: Place, position: int) -> message_windows.StoredMessage | None:
    if place.segment_id is None or position >= place.length:
        return None
    messages = message_windows.load_message_window(place.segment_id, position, position + 1)
    return messages[0] if messages else None


def _build_missing_message_error(head: SessionHead, place: Place, position: int) -> PageNotFound:
    return PageNotFound(
        f"Version {place.version} has no message {position}.",
        f"It has {place.length:,} messages, counted from 0.",
        head,
    )
