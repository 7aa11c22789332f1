"""What needs a person now, over all sessions; and beside it what was decided."""

from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from checkpoints.enums import Role
from checkpoints.models import Session
from checkpoints.queries import inbox
from checkpoints.queries.keyset import Cursor
from harness_site.accounts.guard import MemberRequest, member


@require_GET
@member(Role.AUDITOR)
def queue(request: MemberRequest) -> HttpResponse:
    filters = inbox.Filters(tool=request.GET.get("tool", ""), agent=request.GET.get("agent", ""))
    decided = request.GET.get("tab") == "decided"
    page = _decided(request, filters) if decided else _interrupted(request, filters)
    context = {
        **page,
        "decided": decided,
        "filters": filters,
        "page_size": inbox.PAGE,
        "found": inbox.count_interrupted(request.membership.workspace, filters),
    }
    return render(request, "review/queue.html", context)


@require_GET
@member(Role.AUDITOR)
def count(request: MemberRequest) -> HttpResponse:
    """The number beside `Review`, for pages that are open."""
    waiting = inbox.count_interrupted(request.membership.workspace)
    return render(request, "parts/waiting.html", {"waiting": waiting})


def _interrupted(request: MemberRequest, filters: inbox.Filters) -> dict[str, Any]:
    workspace = request.membership.workspace
    calls, following = inbox.interrupted(workspace, filters, after=_cursor(request.GET))
    first_time = not calls and not Session.objects.filter(workspace=workspace).exists()
    return {"calls": calls, "more": _link(request.GET, following), "first_time": first_time}


def _decided(request: MemberRequest, filters: inbox.Filters) -> dict[str, Any]:
    before = request.GET.get("after", "")
    if before and not before.isdecimal():
        raise BadRequest("The page to go on from is not a number.")
    decisions, following = inbox.decided(request.membership.workspace, filters, before=int(before) if before else None)
    return {"decisions": decisions, "more": _link(request.GET, following)}


def _cursor(asked: QueryDict) -> Cursor | None:
    token = asked.get("after", "")
    found = Cursor.parse(token)
    if token and found is None:
        raise BadRequest("The place to go on from cannot be read.")
    return found


def _link(asked: QueryDict, after: Cursor | int | None) -> str:
    """This page's address with another beginning; empty where nothing follows."""
    if after is None:
        return ""
    query = asked.copy()
    query["after"] = str(after)
    return f"?{query.urlencode()}"
