"""Images and recordings of messages, each with a URL of its own."""

import base64
import binascii
import re
from http import HTTPStatus
from typing import Final

from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from checkpoints.formats import parse_message_parts
from checkpoints.formats.parse_message_parts import AudioPart, ImagePart, Part
from harness_site.accounts.permissions import MemberRequest
from harness_site.security_headers import SANDBOX_POLICY
from harness_site.sessions.message_media_sources import DATA_URL, parse_audio_data_url
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.session_lookup_masking_and_404 import (
    PageNotFound,
    get_session_head_and_mask_secrets_or_404,
    require_member_and_handle_page_not_found,
)
from harness_site.sessions.views.transcript_pages import (
    get_requested_transcript_version_or_404,
    load_verified_message_or_none,
)

_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": SANDBOX_POLICY,
    "Cache-Control": "private, max-age=3600",
}
#: A request for one part of a recording; players of some browsers play nothing else.
_RANGE: Final = re.compile(r"bytes=(\d{1,15})-(\d{0,15})\Z", re.ASCII)


@require_GET
@require_member_and_handle_page_not_found
def serve_message_image(request: MemberRequest, pk: int, position: int, index: int) -> HttpResponse:
    """Serve an image of a message with its own content type; anything else is refused."""
    head, parts = _load_session_head_and_message_parts(request, pk, position)
    images = list(parse_message_parts.iterate_media(parts, ImagePart))
    match = DATA_URL.match(images[index - 1].url) if 0 < index <= len(images) else None
    if match is None:
        raise PageNotFound(_("There is no such image."), _("The message shows what it contains instead."), head)
    content = _decode_base64_or_none(match[2])
    if content is None:
        raise PageNotFound(_("This image is damaged."), _("The message shows its data as text."), head)
    return HttpResponse(content, content_type=match[1], headers=_HEADERS)


@require_GET
@require_member_and_handle_page_not_found
def serve_message_audio(request: MemberRequest, pk: int, position: int, index: int) -> HttpResponse:
    """Serve a recording of a message, or the part of it that a player asks for; anything else is refused."""
    head, parts = _load_session_head_and_message_parts(request, pk, position)
    recordings = list(parse_message_parts.iterate_media(parts, AudioPart))
    found = parse_audio_data_url(recordings[index - 1].url) if 0 < index <= len(recordings) else None
    if found is None:
        raise PageNotFound(_("There is no such recording."), _("The message shows what it contains instead."), head)
    content = _decode_base64_or_none(found[1])
    if content is None:
        raise PageNotFound(_("This recording is damaged."), _("The message shows its data as text."), head)
    return _build_full_or_ranged_response(request.headers.get("Range", ""), content, found[0])


def _load_session_head_and_message_parts(
    request: MemberRequest, pk: int, position: int
) -> tuple[SessionHead, tuple[Part, ...]]:
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    stored = load_verified_message_or_none(
        get_requested_transcript_version_or_404(request, head, head.stored), position
    )
    return head, parse_message_parts.parse_message_parts(stored.body) if stored else ()


def _decode_base64_or_none(data: str) -> bytes | None:
    try:
        return base64.b64decode(data)
    except (ValueError, binascii.Error):
        return None


def _build_full_or_ranged_response(requested: str, content: bytes, content_type: str) -> HttpResponse:
    """Build the response with the range of bytes that a `Range` header names; with all of them (200) if it names
    none."""
    headers = {**_HEADERS, "Accept-Ranges": "bytes"}
    match = _RANGE.match(requested)
    if match is None:
        return HttpResponse(content, content_type=content_type, headers=headers)
    first, size = int(match[1]), len(content)
    last = min(int(match[2]) if match[2] else size, size - 1)
    if first > last:
        headers["Content-Range"] = f"bytes */{size}"
        return HttpResponse(status=HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers=headers)
    headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    part = content[first : last + 1]
    return HttpResponse(part, status=HTTPStatus.PARTIAL_CONTENT, content_type=content_type, headers=headers)
