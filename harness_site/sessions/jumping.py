"""From a place in a transcript to another one: a message by its number, the first of a day, the next error, the next
decision."""

from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET

from checkpoints.queries import passages
from checkpoints.queries.conversation import Place
from checkpoints.queries.passages import Landmark, Spot
from harness_site.accounts.guard import MemberRequest
from harness_site.sessions import days
from harness_site.sessions.lookup import headline, number, reader
from harness_site.sessions.transcript import place_of


@require_GET
@reader
def jump(request: MemberRequest, pk: int) -> HttpResponse:
    """`to` is what is looked for, `at` the position to start from, `back` the other direction, `day` the day in UTC."""
    head = headline(request, pk)
    session = head.stored
    place = place_of(request, head, session)
    wanted, at = request.GET.get("to", ""), number(request, "at")
    if wanted == "day" and (day := days.parsed(request.GET.get("day", ""))) is not None:
        first = passages.first_since(place, days.start(day))
        at = place.length if first is None else first
    here = max(0, min(at or 0, place.length - 1))
    if wanted not in set(Landmark):
        return redirect(_address(pk, place, here))
    back = "back" in request.GET
    found = passages.next_landmark(session, place, Landmark(wanted), beyond=-1 if at is None else at, back=back)
    return redirect(_found(pk, place, found) if found else _address(pk, place, here, none=wanted, back="back" * back))


def _found(pk: int, place: Place, spot: Spot) -> str:
    if spot.position is None:
        return f"{reverse('session', args=[pk])}#call-{spot.call_pk}"
    return _address(pk, place, spot.position)


def _address(pk: int, place: Place, position: int, **more: str) -> str:
    query = urlencode({"v": place.version, "at": position} | {name: value for name, value in more.items() if value})
    return f"{reverse('session', args=[pk])}?{query}#m-{position}"
