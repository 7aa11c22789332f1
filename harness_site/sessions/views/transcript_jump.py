"""Jumps within a transcript: to a message number, a day, the next error or the next decision."""

from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET

from harness_site.accounts.permissions import MemberRequest
from harness_site.core import date_parameters
from harness_site.sessions.selectors import transcript_matches
from harness_site.sessions.selectors.conversation import Place
from harness_site.sessions.selectors.transcript_matches import Landmark, LandmarkSpot
from harness_site.sessions.session_lookup import get_session_head_or_404, parse_number_parameter, serve_session_page
from harness_site.sessions.views.transcript import get_requested_place


@require_GET
@serve_session_page
def jump_to_position(request: MemberRequest, pk: int) -> HttpResponse:
    """Redirect to the requested position.

    Query parameters: `to` is the kind of target, `at` the start position, `back` reverses the direction, `day` is a day
    in UTC.
    """
    head = get_session_head_or_404(request, pk)
    session = head.stored
    place = get_requested_place(request, head, session)
    target, at = request.GET.get("to", ""), parse_number_parameter(request, "at")
    if target == "day" and (day := date_parameters.parse_date(request.GET.get("day", ""))) is not None:
        first = transcript_matches.find_first_message_since(place, date_parameters.get_day_start(day))
        at = place.length if first is None else first
    position = max(0, min(at or 0, place.length - 1))
    if target not in set(Landmark):
        return redirect(_build_position_url(pk, place, position))
    back = "back" in request.GET
    spot = transcript_matches.find_next_landmark(
        session, place, Landmark(target), beyond=-1 if at is None else at, back=back
    )
    return redirect(
        _build_spot_url(pk, place, spot)
        if spot
        else _build_position_url(pk, place, position, none=target, back="back" * back)
    )


def _build_spot_url(pk: int, place: Place, spot: LandmarkSpot) -> str:
    if spot.position is None:
        return f"{reverse('harness_sessions:session', args=[pk])}#call-{spot.call_pk}"
    return _build_position_url(pk, place, spot.position)


def _build_position_url(pk: int, place: Place, position: int, **more: str) -> str:
    query = urlencode({"v": place.version, "at": position} | {name: value for name, value in more.items() if value})
    return f"{reverse('harness_sessions:session', args=[pk])}?{query}#m-{position}"
