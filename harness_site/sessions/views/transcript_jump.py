"""Jumps within a transcript: to a message number, a time, a day, the next error or the next decision."""

from datetime import datetime, time, tzinfo
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET

from checkpoints.models import Session
from harness_site.accounts.permissions import MemberRequest
from harness_site.core import time_range_parameters
from harness_site.core.number_parameters import parse_number_parameter_or_none
from harness_site.sessions import parse_message_number_or_time
from harness_site.sessions.parse_message_number_or_time import JumpTarget
from harness_site.sessions.selectors import find_words_errors_and_decisions
from harness_site.sessions.selectors.conversation_window import TranscriptVersion
from harness_site.sessions.selectors.find_words_errors_and_decisions import Landmark, LandmarkSpot, MessageTime
from harness_site.sessions.session_lookup_masking_and_404 import (
    get_session_head_and_mask_secrets_or_404,
    require_member_and_handle_page_not_found,
)
from harness_site.sessions.views.transcript_pages import get_requested_transcript_version_or_404

#: Days with messages that are tried for a time of day without a day.
_MAX_DAYS = 100


@require_GET
@require_member_and_handle_page_not_found
def jump_to_position(request: MemberRequest, pk: int) -> HttpResponse:
    """Redirect to the requested position.

    Query parameters: `where` is a message number, a time of day, a day, or a day and a time, in the reader's time zone;
    `to` is the kind of landmark, `at` the start position, and `back` reverses the direction; with `to=day`, `day` is a
    day or a time in UTC, as in lists. `here` is the position of the reader, who stays there if `where` is no place.
    """
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    session = head.stored
    transcript = get_requested_transcript_version_or_404(request, head, session)
    target, at = request.GET.get("to", ""), parse_number_parameter_or_none(request, "at")
    if (where := request.GET.get("where")) is not None:
        typed = parse_message_number_or_time.parse_message_number_or_time(where)
        found = None if typed is None else _find_typed_position(session, transcript, typed)
        if found is None:
            return redirect(
                _build_place_not_found_url(request, pk, transcript, where, "place" if typed is None else "time")
            )
        position, miss = found
        if miss:
            typed_text = where[: parse_message_number_or_time.MAX_INPUT_LENGTH]
            return redirect(_build_position_url(pk, transcript, position, none=miss, where=typed_text))
        at = position
    elif target == "day" and (since := time_range_parameters.parse_range_start(request.GET.get("day", ""))) is not None:
        first = find_words_errors_and_decisions.find_first_message_since_time(transcript, since=since)
        at = transcript.length if first is None else first.position
    position = max(0, min(at or 0, transcript.length - 1))
    if target not in set(Landmark):
        return redirect(_build_position_url(pk, transcript, position))
    back = "back" in request.GET
    spot = find_words_errors_and_decisions.find_next_error_or_decision(
        session, transcript, Landmark(target), beyond=-1 if at is None else at, back=back
    )
    return redirect(
        _build_landmark_url(pk, transcript, spot)
        if spot
        else _build_position_url(pk, transcript, position, none=target, back="back" * back)
    )


def _find_typed_position(session: Session, transcript: TranscriptVersion, typed: JumpTarget) -> tuple[int, str] | None:
    """Find the first message at or after a typed place; the last message if there is none.

    The second value says what the transcript does not have: empty, `number`, or for a time `early` or `late`. None if
    the messages have no times.
    """
    if typed.number is not None:
        if 0 < transcript.length < typed.number:
            return transcript.length - 1, "number"
        return max(0, typed.number - 1), ""  # people count from 1
    if not session.has_times or not transcript.length:
        return None
    zone = timezone.get_current_timezone()
    if typed.day is None and typed.time is not None:
        found, is_early = _find_first_message_since_time_of_day(transcript, typed.time, zone)
    else:
        moment = parse_message_number_or_time.combine_day_and_time(typed.day or timezone.localdate(), typed.time, zone)
        found = find_words_errors_and_decisions.find_first_message_since_time(transcript, since=moment)
        is_early = (
            found is not None
            and found.position == 0
            and _is_typed_time_before_message(typed, moment, found.at.astimezone(zone))
        )
    if found is None:
        return transcript.length - 1, "late"
    return found.position, "early" if is_early else ""


def _is_typed_time_before_message(typed: JumpTarget, moment: datetime, message_at: datetime) -> bool:
    """Return whether a typed day, or a typed minute, is over when the first message comes."""
    if typed.time is None:
        return moment.date() < message_at.date()
    return moment < message_at.replace(second=0, microsecond=0)


def _find_first_message_since_time_of_day(
    transcript: TranscriptVersion, at: time, zone: tzinfo
) -> tuple[MessageTime | None, bool]:
    """Find the first message at or after a time of day, on the first day that has one.

    If no day has one, the first message if the transcript begins later than that time, else None. The second value is
    True for the former.
    """
    start = find_words_errors_and_decisions.find_first_message_since_time(transcript)
    if start is None:
        return None, False
    moment = parse_message_number_or_time.find_next_time_of_day(at, start.at, zone)
    for _ in range(_MAX_DAYS):
        found = find_words_errors_and_decisions.find_first_message_since_time(transcript, since=moment)
        if found is None:
            break
        day = found.at.astimezone(zone).date()
        if day == moment.date():
            return found, False
        moment = parse_message_number_or_time.combine_day_and_time(day, at, zone)
    is_early = at < start.at.astimezone(zone).time()
    return (start, True) if is_early else (None, False)


def _build_landmark_url(pk: int, transcript: TranscriptVersion, spot: LandmarkSpot) -> str:
    if spot.position is None:
        return f"{reverse('harness_sessions:session', args=[pk])}#call-{spot.call_pk}"
    return _build_position_url(pk, transcript, spot.position)


def _build_place_not_found_url(
    request: MemberRequest, pk: int, transcript: TranscriptVersion, where: str, none: str
) -> str:
    """Return the URL of where the reader is, with the typed place, which is none."""
    here, typed = (
        parse_number_parameter_or_none(request, "here"),
        where[: parse_message_number_or_time.MAX_INPUT_LENGTH],
    )
    if here is not None and here < transcript.length:
        return _build_position_url(pk, transcript, here, none=none, where=typed)
    query = ({"v": transcript.version} if request.GET.get("v") else {}) | {"none": none, "where": typed}
    return f"{reverse('harness_sessions:session', args=[pk])}?{urlencode(query)}"


def _build_position_url(pk: int, transcript: TranscriptVersion, position: int, **more: str) -> str:
    query = urlencode(
        {"v": transcript.version, "at": position} | {name: value for name, value in more.items() if value}
    )
    return f"{reverse('harness_sessions:session', args=[pk])}?{query}#m-{position}"
