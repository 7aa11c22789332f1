"""One session as a conversation."""

import base64
import binascii
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from checkpoints.models import Session
from checkpoints.queries import blocks, conversation, occasions, timeline, transcripts, versions
from checkpoints.queries.conversation import Conversation, Entry, Place
from checkpoints.queries.sessions import SessionHead
from checkpoints.queries.transcripts import WINDOW
from harness_site.accounts.guard import MemberRequest
from harness_site.rendering import lanes
from harness_site.rendering.saying import DATA_URL
from harness_site.sessions.lookup import Missing, headline, no_version, number, reader, row

#: An open page follows a session over so many messages before it asks for a reload.
_FOLLOWED = 5 * WINDOW
_IMAGE_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, max-age=3600",
}


@require_GET
@reader
def session(request: MemberRequest, pk: int) -> HttpResponse:
    """The newest messages, or those that `before`, `after`, `at` or `since` names by position; `v` is the version."""
    head = headline(request, pk)
    found = row(head)
    place = _place(request, head, found)
    shown = _window(request, found, place)
    numbers = versions.numbers(pk, around=place.version)
    remembered = occasions.read(pk)
    context = {
        "head": head,
        "tab": "transcript",
        "place": place,
        "conversation": shown,
        "following": not {"v", "before", "after", "at"} & request.GET.keys(),
        "as_of": "v" in request.GET and not place.newest,
        "numbers": numbers,
        "older": max((version for version in numbers if version < place.version), default=None),
        "newer": min((version for version in numbers if version > place.version), default=None),
        "drawing": lanes.draw(timeline.read(pk, remembered)) if place.newest else None,
        "takeovers": remembered.takeovers,
    }
    return render(request, "sessions/transcript.html", context)


@require_GET
@reader
def message(request: MemberRequest, pk: int, position: int) -> HttpResponse:
    """One message with everything in it."""
    head = headline(request, pk)
    found = row(head)
    place = _place(request, head, found)
    shown = conversation.read(found, place, first=position, upto=position + 1)
    entries = [item for item in shown.items if isinstance(item, Entry) and _holds(item, position)]
    stored = _stored(place, position)
    if not entries or stored is None:
        raise _no_message(head, place, position)
    context = {"head": head, "tab": "transcript", "place": place, "entry": entries[0], "stored": stored}
    return render(request, "sessions/message.html", context)


@require_GET
@reader
def image(request: MemberRequest, pk: int, position: int, index: int) -> HttpResponse:
    """An image out of a message: only what is one, as what it is."""
    head = headline(request, pk)
    place = _place(request, head, row(head))
    stored = _stored(place, position)
    found = list(blocks.images(blocks.read(stored.body))) if stored else []
    matched = DATA_URL.match(found[index - 1].url) if 0 < index <= len(found) else None
    if matched is None:
        raise Missing("There is no such image.", "The message shows what it holds instead.", head)
    try:
        content = base64.b64decode(matched[2])
    except (ValueError, binascii.Error):
        raise Missing("This image is damaged.", "The message shows its data as text.", head) from None
    return HttpResponse(content, content_type=matched[1], headers=_IMAGE_HEADERS)


def _place(request: HttpRequest, head: SessionHead, found: Session) -> Place:
    """The version `v`, or the newest. Raises `Missing`."""
    asked = request.GET.get("v", "")
    version = number(request, "v")
    place = conversation.place(found, version) if version is not None or not asked else None
    if place is None:
        raise no_version(head, asked[:20])
    return place


def _window(request: HttpRequest, found: Session, place: Place) -> Conversation:
    before, after, at, since = (number(request, name) for name in ("before", "after", "at", "since"))
    if before is not None:
        return conversation.read(found, place, upto=min(before, place.length))
    if at is not None and at < place.length:
        return conversation.read(found, place, first=max(0, at - WINDOW // 2))
    if after is not None and after < place.length:
        return conversation.read(found, place, first=after)
    if since is not None and since < place.length:
        return conversation.read(found, place, first=since, upto=min(place.length, since + _FOLLOWED))
    return conversation.read(found, place)


def _holds(entry: Entry, position: int) -> bool:
    """Whether a message, or a result that is shown with its call, stands at `position`."""
    results = {part.result_position for part in entry.parts if isinstance(part, conversation.CallCard)}
    return entry.position == position or position in results


def _stored(place: Place, position: int) -> transcripts.StoredMessage | None:
    if place.segment_id is None or position >= place.length:
        return None
    found = transcripts.window(place.segment_id, position, position + 1)
    return found[0] if found else None


def _no_message(head: SessionHead, place: Place, position: int) -> Missing:
    return Missing(
        f"Version {place.version} has no message {position}.",
        f"It has {place.length:,} messages, counted from 0.",
        head,
    )
