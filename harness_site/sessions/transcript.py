"""One session as a conversation."""

import base64
import binascii
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from checkpoints.models import Session
from checkpoints.queries import blocks, conversation, occasions, timeline, transcripts, versions
from checkpoints.queries.conversation import CallCard, Conversation, Entry, Place
from checkpoints.queries.passages import Landmark
from checkpoints.queries.sessions import SessionHead
from checkpoints.queries.transcripts import WINDOW
from harness_site.accounts.guard import MemberRequest
from harness_site.rendering import masking
from harness_site.rendering.safe_text import encodable
from harness_site.rendering.saying import DATA_URL
from harness_site.search.words import Query
from harness_site.sessions import copying, finding
from harness_site.sessions.lookup import Missing, headline, no_version, number, reader

#: An open page follows a session over so many messages before it asks for a reload.
_FOLLOWED = 500
_IMAGE_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, max-age=3600",
}


@require_GET
@reader
def session(request: MemberRequest, pk: int) -> HttpResponse:
    """The newest messages, or those that `before`, `after`, `at` or `since` names by position; `v` is the version, and
    `find` what is looked for in all of it."""
    head = headline(request, pk)
    stored = head.stored
    place = place_of(request, head, stored)
    words, at = Query.parse(request.GET.get("find", "")), number(request, "at")
    hit = finding.first(place, words) if words and at is None and not _piece(request) else None
    if hit is not None:
        query = urlencode({"v": place.version, "find": str(words), "at": hit})
        return redirect(f"{request.path}?{query}#m-{hit}")
    shown = _window(request, stored, place)
    masking.hide_values(masking.secret_values(*_arguments(shown)))
    numbers = versions.numbers(pk, around=place.version)
    remembered = occasions.read(pk)
    following = not any(request.GET.get(name) for name in ("v", "before", "after", "at", "find"))
    context = {
        "head": head,
        "tab": "transcript",
        "place": place,
        "conversation": shown,
        "following": following,
        "words": words,
        "found": finding.find(place, words, at) if words and at is not None else None,
        "at": at,
        "piece": _piece(request),
        "spot": at if at is not None else shown.first - 1 if "after" in request.GET else shown.upto,
        "nothing_further": Landmark(none) if (none := request.GET.get("none")) in set(Landmark) else None,
        "as_of": bool(request.GET.get("v")) and not place.newest,
        "numbers": numbers,
        "older": max((version for version in numbers if version < place.version), default=None),
        "newer": min((version for version in numbers if version > place.version), default=None),
        "timeline": timeline.read(pk, remembered) if following else None,
        "takeovers": remembered.takeovers,
    }
    return render(request, "sessions/transcript.html", context)


@require_GET
@reader
def message(request: MemberRequest, pk: int, position: int) -> HttpResponse:
    """One message with everything in it; with `as`, to be copied: the message, or a `call` of it, or its arguments."""
    head = headline(request, pk)
    found = head.stored
    place = place_of(request, head, found)
    shown = conversation.read(found, place, first=position, upto=position + 1)
    masking.hide_values(masking.secret_values(*_arguments(shown)))
    entries = [item for item in shown.items if isinstance(item, Entry) and _holds(item, position)]
    stored = _stored(place, position)
    if not entries or stored is None:
        raise _no_message(head, place, position)
    if wanted := request.GET.get("as"):
        named = (part for part in entries[0].parts if isinstance(part, CallCard))
        card = next((card for card in named if encodable(card.call.call_id) == request.GET.get("call")), None)
        return copying.sent(copying.asked(wanted, card) if card else copying.message(entries[0].parts))
    context = {
        "head": head,
        "tab": "transcript",
        "place": place,
        "entry": entries[0],
        "stored": stored,
        "words": Query.parse(request.GET.get("find", "")),
    }
    return render(request, "sessions/message.html", context)


@require_GET
@reader
def image(request: MemberRequest, pk: int, position: int, index: int) -> HttpResponse:
    """An image out of a message: only what is one, as what it is."""
    head = headline(request, pk)
    place = place_of(request, head, head.stored)
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


def _arguments(shown: Conversation) -> list[Any]:
    """What the calls of a window were asked for: those that only read are in no log."""
    cards = [part for item in shown.items if isinstance(item, Entry) for part in item.parts]
    return [card.call.args for card in cards if isinstance(card, CallCard)]


def place_of(request: HttpRequest, head: SessionHead, found: Session) -> Place:
    """The version `v`, or the newest. Raises `Missing`."""
    asked = request.GET.get("v", "")
    version = number(request, "v")
    place = conversation.place(found, version) if version is not None or not asked else None
    if place is None:
        raise no_version(head, asked[:20])
    return place


def _piece(request: MemberRequest) -> str:
    """Which end of an open page asks for more: the other one has a link already."""
    if not request.htmx:
        return ""
    return "earlier" if "before" in request.GET else "later" if "after" in request.GET else ""


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
    results = {part.result_position for part in entry.parts if isinstance(part, CallCard)}
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
