"""The tool calls of all sessions of the workspace, and how each tool does."""

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from checkpoints.enums import CallStatus
from checkpoints.queries import call_log
from checkpoints.queries.call_log import LogFilter
from checkpoints.queries.calls import CallFilter
from checkpoints.queries.keyset import Cursor
from harness_site.accounts import call_secrets
from harness_site.accounts.guard import MemberRequest
from harness_site.accounts.shown import note_excerpts
from harness_site.rendering.references import resolve
from harness_site.sessions.days import Days
from harness_site.sessions.lookup import reader

_LONGEST = 255


@require_GET
@reader
def log(request: MemberRequest) -> HttpResponse:
    workspace = request.membership.workspace_id
    wanted = _wanted(request.GET)
    after = Cursor.parse(request.GET.get("after", ""))
    page = call_log.page(workspace, wanted, after=after)
    note_excerpts(request, "tool calls", (row.session_pk for row in page.rows))
    context = {
        "page": page,
        "secrets": call_secrets.of_sessions({row.session_pk for row in page.rows}),
        "rates": call_log.rates(workspace, wanted) if after is None else None,
        "wanted": wanted,
        "statuses": CallStatus.choices,
        "following": _query(request, after=str(page.after)) if page.after else "",
        "later": after is not None,
        "newest": _query(request),
        "looked_at": call_log.LOOKED_AT,
    }
    return render(request, "sessions/log.html", context)


def asked_calls(asked: QueryDict) -> CallFilter:
    """The filter of calls that an address names, on this page and on that of one session."""
    status = asked.get("status", "")
    return CallFilter(
        status=CallStatus(status) if status in CallStatus.values else None,
        tool=resolve(asked.get("tool", ""))[:_LONGEST],
        key=resolve(asked.get("key", "").strip())[:_LONGEST],
    )


def _wanted(asked: QueryDict) -> LogFilter:
    days, agent = Days.of(asked), resolve(asked.get("agent", "").strip())[:_LONGEST]
    return LogFilter(calls=asked_calls(asked), agent=agent, first=days.first, last=days.last)


def _query(request: HttpRequest, **changed: str) -> str:
    query = request.GET.copy()
    query.pop("after", None)
    for name, value in changed.items():
        query[name] = value
    for name in [name for name, value in query.items() if not value]:
        del query[name]
    return f"{request.path}?{query.urlencode()}" if query else request.path
