"""What a session did and was decided about: the log of its calls, its plan, its history."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from checkpoints.enums import CallStatus
from checkpoints.queries import calls as logged
from checkpoints.queries import history, trail, versions
from checkpoints.queries.blocks import Call
from checkpoints.queries.conversation import CallCard
from checkpoints.serde import parse_or_text
from harness_site.accounts.guard import MemberRequest
from harness_site.rendering.masking import hide_values, secret_values
from harness_site.rendering.saying import stored_value
from harness_site.search.words import Query
from harness_site.sessions import copying
from harness_site.sessions.call_log import asked_calls
from harness_site.sessions.lookup import Missing, headline, number, reader


@require_GET
@reader
def calls(request: MemberRequest, pk: int) -> HttpResponse:
    head = headline(request, pk)
    wanted = asked_calls(request.GET)
    page = logged.page(pk, wanted, before=number(request, "before"))
    context = {
        "head": head,
        "tab": "calls",
        "page": page,
        "wanted": wanted,
        "statuses": CallStatus.choices,
        "first_page": number(request, "before") is None,
    }
    return render(request, "sessions/calls.html", context)


@require_GET
@reader
def call(request: MemberRequest, pk: int, call_pk: int) -> HttpResponse:
    """One call with everything about it: every attempt, complete arguments and result; with `as`, to be copied."""
    head = headline(request, pk)
    found = logged.one(pk, call_pk) if call_pk < 2**63 else None
    if found is None:
        raise Missing("This session has no such call.", "The list of its tool calls shows those it has.", head)
    hide_values(secret_values(stored_value(found.args)))
    attempts = [record for record in logged.named(pk, [found.call_id]) if record.step == found.step]
    card = CallCard(Call(found.call_id, found.tool, parse_or_text(found.args)), None, None, (found,))
    if wanted := request.GET.get("as"):
        return copying.sent(copying.asked(wanted, card))
    context = {
        "head": head,
        "tab": "calls",
        "record": found,
        "attempts": attempts,
        "card": card,
        "words": Query.parse(request.GET.get("find", "")),
    }
    return render(request, "sessions/call.html", context)


@require_GET
@reader
def plan(request: MemberRequest, pk: int) -> HttpResponse:
    head = headline(request, pk)
    return render(request, "sessions/plan.html", {"head": head, "tab": "plan", "version": versions.newest(pk)})


@require_GET
@reader
def audit(request: MemberRequest, pk: int) -> HttpResponse:
    head = headline(request, pk)
    events, decisions = number(request, "event"), number(request, "decision")
    before = (events, decisions) if events is not None and decisions is not None else None
    page = history.page(pk, before=before)
    context = {
        "head": head,
        "tab": "history",
        "page": page,
        "before": before,
        "takers": history.takers(pk, page),
        "integrity": trail.integrity(request.membership.workspace_id),
    }
    return render(request, "sessions/history.html", context)
