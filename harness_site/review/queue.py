"""What needs a person now, over all sessions; and beside it what was decided."""

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from checkpoints import clock
from checkpoints.enums import Role
from checkpoints.models import Session, ToolCall
from checkpoints.queries import inbox, outages, voices
from checkpoints.queries.order import Sort
from checkpoints.queries.outages import Outage
from harness_site.accounts import call_secrets
from harness_site.accounts.electorate import electorate_of
from harness_site.accounts.guard import MemberRequest, member
from harness_site.accounts.shown import note_excerpts
from harness_site.review import company
from harness_site.review.company import NOBODY
from harness_site.review.lost_runs import interrupt_lost_calls
from harness_site.review.sifting import CHOICES, STATUS_OF, TABS, sieve
from harness_site.review.verdict import verdict
from harness_site.review.waiting import Group, Waiting, group, waiting


@require_GET
@member(Role.AUDITOR)
def queue(request: MemberRequest) -> HttpResponse:
    interrupt_lost_calls(request.membership.workspace)
    wanted = sieve(request.GET)
    filters = wanted.filters(request.membership)
    interrupted, awaiting = (
        inbox.count(request.membership.workspace, filters, status=status) for status in STATUS_OF.values()
    )
    tab = _tab(request.GET.get("tab", ""), only_awaiting=bool(awaiting) and not interrupted)
    found = _decided(request, filters) if tab == "decided" else _waiting(request, tab, filters, wanted.sort)
    context = {
        **found,
        **CHOICES,
        "tab": tab,
        "wanted": wanted,
        "page_size": inbox.PAGE,
        "interrupted": interrupted,
        "awaiting": awaiting,
        "found": interrupted + awaiting,
        "here": request.GET.urlencode(),
    }
    shown = found.get("rows") or found.get("decisions", [])
    sessions = {row.session_pk for row in shown}
    note_excerpts(request, "review queue", sessions)
    context["secrets"] = call_secrets.of_sessions(sessions)
    return render(request, "review/queue.html", context)


@require_GET
@member(Role.AUDITOR)
def count(request: MemberRequest) -> HttpResponse:
    """The number beside `Review`, for pages that are open."""
    return render(request, "parts/waiting.html", {"waiting": inbox.count(request.membership.workspace)})


def _tab(asked: str, *, only_awaiting: bool) -> str:
    """The tab of the address; without one, the one with something in it."""
    if asked in TABS:
        return asked
    return "awaiting" if only_awaiting else "interrupted"


def _waiting(request: MemberRequest, tab: str, filters: inbox.Filters, sort: Sort) -> dict[str, Any]:
    workspace = request.membership.workspace
    after = _number(request.GET)
    calls, following = inbox.page(workspace, STATUS_OF[tab], filters, sort=sort, after=after)
    first_time = tab == "interrupted" and not calls and not Session.objects.filter(workspace=workspace).exists()
    more = _link(request.GET, following, tab=tab)
    found = outages.open_outages(workspace) if tab == "interrupted" else []
    groups = {outage: group(outage) for outage in found}
    return {
        "rows": _rows(request, calls, groups),
        "more": more,
        "first_time": first_time,
        "groups": list(groups.values()),
    }


def _decided(request: MemberRequest, filters: inbox.Filters) -> dict[str, Any]:
    decisions, following = inbox.decided(request.membership.workspace, filters, before=_number(request.GET))
    return {"decisions": [verdict(decision) for decision in decisions], "more": _link(request.GET, following)}


def _rows(request: MemberRequest, calls: Sequence[ToolCall], groups: dict[Outage, Group]) -> list[Waiting]:
    now = clock.now()
    together = outages.together(calls, list(groups))
    said = voices.of_calls(calls, electorate_of(request.membership.workspace))
    people = company.of_calls([call.pk for call in calls], request.membership)
    rows = []
    for call in calls:
        outage = together.get(call.pk)
        shared = None if outage is None else groups[outage]
        rows.append(waiting(call, said.get(call.pk, ()), people.get(call.pk, NOBODY), shared, now=now))
    return rows


def _number(asked: QueryDict) -> int | None:
    token = asked.get("after", "")
    if token and not (token.isdecimal() and len(token) <= 18):
        raise BadRequest("The page to go on from is not a number.")
    return int(token) if token else None


def _link(asked: QueryDict, after: int | None, **more: str) -> str:
    """This page's address with another beginning; empty where nothing follows."""
    if after is None:
        return ""
    query = asked.copy()
    for name, value in {"after": str(after), **more}.items():
        query[name] = value
    return f"?{query.urlencode()}"
