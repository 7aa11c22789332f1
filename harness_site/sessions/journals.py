"""What a session remembers beside its conversation: the steps of its workflows, and what it asked other agents."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from checkpoints.queries import peers as asking
from checkpoints.queries import workflows as journals
from checkpoints.queries.workflows import Place
from harness_site.accounts.guard import MemberRequest
from harness_site.sessions.lookup import Missing, headline, number, reader


@require_GET
@reader
def workflows(request: MemberRequest, pk: int) -> HttpResponse:
    head = headline(request, pk)
    after = Place.parse(request.GET.get("after", ""))
    page = journals.page(pk, after=after)
    return render(request, "sessions/workflows.html", {"head": head, "tab": "workflows", "page": page, "after": after})


@require_GET
@reader
def peers(request: MemberRequest, pk: int) -> HttpResponse:
    """With `join` (a key), the calls of that one behind the one with the key `after`."""
    head = headline(request, pk)
    wanted, before = number(request, "join"), number(request, "before")
    context = {"head": head, "tab": "peers", "before": before}
    if wanted is None:
        return render(request, "sessions/peers.html", context | {"page": asking.page(pk, before=before)})
    found = asking.join(pk, wanted, after=number(request, "after") or 0)
    if found is None:
        raise Missing("This session has no such join.", "Its page of peers shows those it has.", head)
    return render(request, "sessions/join.html", context | {"join": found, "after": number(request, "after")})
