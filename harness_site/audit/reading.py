"""Reading a session is an entry of the audit trail: one for each reader and session in a quarter of an hour.

So is being shown parts of it by a search or a list of calls, unless it is being read. What was searched for is not
kept.

An open page that follows a session asks for its parts again and again. That is the same reading, for half a day; a part
that nobody has opened a page for is an entry too, so that no header makes reading invisible.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch

from checkpoints import clock
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models import AuditEvent, ToolCall
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
#: Pages about one call, by its key.
CALL_PAGES: Final = frozenset({"card"})
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
        if member is not None and match is not None and request.method == "GET" and response.status_code == 200:
            for session in _sessions_shown(request, match):
                _record(request, member, session)
            excerpts: Excerpts | None = getattr(request, "excerpts", None)
            if excerpts is not None and excerpts.sessions:
                _record_excerpts(request, member, excerpts)
        return response


def _sessions_shown(request: HttpRequest, match: ResolverMatch) -> list[int]:
    if match.url_name in SESSION_PAGES:
        shown = [int(match.kwargs["pk"])]
        # Comparing shows a second session; the page was not answered unless it names one.
        if match.url_name == "compare" and (other := request.GET.get("with")):
            shown.append(int(other))
        return list(dict.fromkeys(shown))
    if match.url_name in CALL_PAGES:
        return list(ToolCall.objects.filter(pk=match.kwargs["pk"]).values_list("session_id", flat=True))
    return []


def _record(request: HttpRequest, member: Membership, session: int) -> None:
    if not _recent(request, member, AuditKind.VIEWED).filter(session=session).exists():
        trail.record(member, AuditKind.VIEWED, request=request, session_pk=session)


def _record_excerpts(request: HttpRequest, member: Membership, excerpts: Excerpts) -> None:
    recent = _recent(request, member, AuditKind.VIEWED, AuditKind.EXCERPTED).filter(session__in=excerpts.sessions)
    new = excerpts.sessions.difference(recent.values_list("session", flat=True))
    trail.excerpted(member, sorted(new), request=request, page=excerpts.page)


def _recent(request: HttpRequest, member: Membership, *kinds: AuditKind) -> QuerySet[AuditEvent]:
    """What has been recorded of the same reading."""
    return AuditEvent.objects.filter(
        kind__in=kinds,
        actor=member.user.get_username(),
        actor_kind=ActorKind.PERSON,
        created_at__gt=clock.now() - (FOLLOWED_FOR if request.headers.get("HX-Request") else ONCE_IN),
    )
