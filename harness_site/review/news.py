"""What began to wait for a person since a moment: for notifications of pages that are open."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Final

from django.core.exceptions import BadRequest
from django.http import HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_GET

from checkpoints.enums import CallStatus, Role
from checkpoints.models import ToolCall
from checkpoints.queries import inbox, outages
from checkpoints.queries.outages import Outage
from harness_site import wording
from harness_site.accounts import call_secrets
from harness_site.accounts.guard import MemberRequest, member
from harness_site.accounts.shown import note_excerpts
from harness_site.rendering.masking import hiding_values
from harness_site.rendering.references import reference
from harness_site.rendering.text import visible
from harness_site.review.outage import address_of
from harness_site.templatetags.harness import sentence
from harness_site.time_parameters import parse_moment

#: What is told has committed so much later than its time says; a page knows by its tag what it has told.
_OVERLAP: Final = timedelta(seconds=5)
#: More at once are told as a number.
MOST: Final = 5


@dataclass(frozen=True, slots=True)
class News:
    """One notification. Another of the same `tag` takes its place."""

    tag: str
    title: str
    body: str
    url: str


@require_GET
@member(Role.AUDITOR)
def news(request: MemberRequest) -> HttpResponse:
    since = parse_moment(request.GET.get("since", ""))
    if since is None:
        raise BadRequest("The moment to tell news since cannot be read.")
    begun = inbox.begun(request.membership.workspace, since - _OVERLAP)
    note_excerpts(request, "news", {call.session_id for call in begun})
    found = list(dict.fromkeys(_told(begun, outages.open_outages(request.membership.workspace) if begun else [])))
    more = len(found) - MOST
    if more > 0:
        found = [*found[:MOST], News("more", f"{more} more wait for a person", "", reverse("review"))]
    return JsonResponse({"news": [asdict(one) for one in found]})


def _told(calls: Sequence[ToolCall], found: list[Outage]) -> Iterable[News]:
    together = outages.together(calls, found)
    secrets = call_secrets.of_sessions({call.session_id for call in calls})
    for call in calls:
        outage = together.get(call.pk)
        if outage is not None:
            tag = f"outage {reference(outage.tool)} {wording.iso(outage.first)}"
            title = f"Calls of {visible(outage.tool)} were lost in one outage"
            yield News(tag, title, "Nobody knows what became of them.", address_of(outage))
        else:
            asks = "May this happen?" if call.status == CallStatus.AWAITING_APPROVAL else "Did this happen?"
            with hiding_values(secrets.get(call.session_id, ())):
                said = sentence(call)
            yield News(f"call {call.pk}", asks, said, reverse("card", args=[call.pk]))
