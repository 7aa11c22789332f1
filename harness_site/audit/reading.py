"""Reading a session is an entry of the audit trail: one for each reader and session in a quarter of an hour.

So is being shown parts of it by a search, by a list of calls, or by the sentence that says what a call is about to do,
unless it is being read. What was searched for is not kept. Whatever shows it counts: also a form that is shown again
because it was refused, and a preview.

An open page that follows a session asks for its parts again and again. That is the same reading, for half a day; a part
that nobody has opened a page for is an entry too, so that no header makes reading invisible.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch

from checkpoints import clock
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models import AuditEvent
from harness_site.accounts import trail
from harness_site.accounts.guard import Excerpts
from harness_site.accounts.models import Membership

#: Pages that show what was said in the session that their address names.
SESSION_PAGES: Final = frozenset(
    {
        "session",
        "session-message",
        "session-image",
        "versions",
        "compare",
        "calls",
        "session-call",
        "session-fork",
        "session-timeline",
        "session-workflows",
        "session-peers",
        "plan",
        "session-audit",
    }
)
#: What shows nothing itself: exports are recorded as such, and a jump leads to a page.
OTHERS: Final = frozenset({"session-export", "session-jump"})
ONCE_IN: Final = timedelta(minutes=15)
FOLLOWED_FOR: Final = timedelta(hours=12)


class ReadingIsRecorded:
    """Every page that shows what agents and customers said passes here, so that none has to remember to tell."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        member: Membership | None = getattr(request, "membership", None)
        match = request.resolver_match
        if member is not None and match is not None and response.status_code != HTTPStatus.INTERNAL_SERVER_ERROR:
            shown: set[int] = getattr(request, "sessions_shown", set())
            if request.method == "GET" and response.status_code == HTTPStatus.OK:
                shown = shown.union(_sessions_of_address(request, match))
            for session in sorted(shown):
                _record(request, member, session)
            excerpts: Excerpts | None = getattr(request, "excerpts", None)
            if excerpts is not None and excerpts.sessions.difference(shown):
                _record_excerpts(request, member, Excerpts(excerpts.page, excerpts.sessions.difference(shown)))
        return response


def _sessions_of_address(request: HttpRequest, match: ResolverMatch) -> set[int]:
    if match.url_name not in SESSION_PAGES:
        return set()
    shown = {int(match.kwargs["pk"])}
    # Comparing shows a second session; the page was not answered unless it names one.
    if match.url_name == "compare" and (other := request.GET.get("with")):
        shown.add(int(other))
    return shown


def _record(request: HttpRequest, member: Membership, session: int) -> None:
    if not _viewed(session, member.user.get_username(), _since(request)):
        trail.record(member, AuditKind.VIEWED, request=request, session_pk=session)


def _record_excerpts(request: HttpRequest, member: Membership, excerpts: Excerpts) -> None:
    recent = _excerpted(sorted(excerpts.sessions), member.user.get_username(), _since(request))
    new = excerpts.sessions.difference(recent)
    trail.excerpted(member, sorted(new), request=request, page=excerpts.page)


def _since(request: HttpRequest) -> datetime:
    """What was recorded since then was the same reading."""
    return clock.now() - (FOLLOWED_FOR if request.headers.get("HX-Request") else ONCE_IN)


def _viewed(session: int, reader: str, since: datetime) -> QuerySet[AuditEvent, int]:
    return _by(reader, since).filter(kind=AuditKind.VIEWED, session=session).values_list("pk", flat=True)[:1]


def _excerpted(sessions: list[int], reader: str, since: datetime) -> QuerySet[AuditEvent, Any]:
    """The sessions of these that are being read, or were shown in parts."""
    found = _by(reader, since).filter(kind__in=[AuditKind.VIEWED, AuditKind.EXCERPTED], session__in=sessions)
    return found.values_list("session", flat=True)


def _by(reader: str, since: datetime) -> QuerySet[AuditEvent]:
    return AuditEvent.objects.filter(actor=reader, actor_kind=ActorKind.PERSON, created_at__gt=since)
