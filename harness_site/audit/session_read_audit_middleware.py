"""Audit events for reading sessions: at most one per reader and session in 15 minutes.

Parts of a session shown by a search, a list of calls, or the sentence of a call are recorded as excerpts, unless the
session itself is being read. Search terms are not stored. Every response with content counts, also a refused form or a
preview.

An open page that follows a session requests its parts again and again; for twelve hours these count as the same
reading. Without a preceding page such a request is recorded, so that no header hides a reading.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from http import HTTPStatus
from typing import Any, Final

from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch

from checkpoints.db import clock
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models import AuditEvent
from harness_site.accounts import record_user_audit_events
from harness_site.accounts.models import Membership
from harness_site.accounts.permissions import ShownExcerpts
from harness_site.core.distinguish_site_from_project_requests import is_site_view

#: URL names of pages that show content of the session in their URL.
SESSION_PAGES: Final = frozenset(
    {
        "session",
        "session-message",
        "session-image",
        "session-audio",
        "versions",
        "compare",
        "calls",
        "session-call",
        "session-fork",
        "session-timeline",
        "session-files",
        "session-costs",
        "session-subagents",
        "session-workflows",
        "session-peers",
        "session-quarantine",
        "plan",
        "session-audit",
    }
)
ONCE_IN: Final = timedelta(minutes=15)
FOLLOWED_FOR: Final = timedelta(hours=12)


class ReadAuditMiddleware:
    """Middleware that records readings for all pages with session content, so that no view can forget it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        member: Membership | None = getattr(request, "membership", None)
        match = request.resolver_match
        if member is None or match is None or not is_site_view(match.func):
            return response
        if response.status_code != HTTPStatus.INTERNAL_SERVER_ERROR:
            session_pks: set[int] = getattr(request, "sessions_shown", set())
            if request.method == "GET" and response.status_code in {HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT}:
                session_pks = session_pks.union(_collect_session_pks_in_url(request, match))
            for session in sorted(session_pks):
                _record_view_unless_recent(request, member, session)
            excerpts: ShownExcerpts | None = getattr(request, "excerpts", None)
            if excerpts is not None and excerpts.sessions.difference(session_pks):
                _record_excerpts_not_shown_recently(
                    request, member, ShownExcerpts(excerpts.page, excerpts.sessions.difference(session_pks))
                )
        return response


def _collect_session_pks_in_url(request: HttpRequest, match: ResolverMatch) -> set[int]:
    if match.url_name not in SESSION_PAGES:
        return set()
    session_pks = {int(match.kwargs["pk"])}
    # The comparison shows a second session; the status is 200 only if its key is valid.
    if match.url_name == "compare" and (other_pk := request.GET.get("with")):
        session_pks.add(int(other_pk))
    return session_pks


def _record_view_unless_recent(request: HttpRequest, member: Membership, session: int) -> None:
    if not _query_recent_view(session, member.user.get_username(), _compute_repeated_view_cutoff(request)):
        record_user_audit_events.record_member_event(member, AuditKind.VIEWED, request=request, session_pk=session)


def _record_excerpts_not_shown_recently(request: HttpRequest, member: Membership, excerpts: ShownExcerpts) -> None:
    recent_sessions = _query_recently_shown_sessions(
        sorted(excerpts.sessions), member.user.get_username(), _compute_repeated_view_cutoff(request)
    )
    new_sessions = excerpts.sessions.difference(recent_sessions)
    record_user_audit_events.record_excerpts_shown(member, sorted(new_sessions), request=request, page=excerpts.page)


def _compute_repeated_view_cutoff(request: HttpRequest) -> datetime:
    """Return the time since which a recorded reading counts as the same one."""
    return clock.now() - (FOLLOWED_FOR if request.headers.get("HX-Request") else ONCE_IN)


def _query_recent_view(session: int, reader: str, since: datetime) -> QuerySet[AuditEvent, int]:
    return _select_views_of_persons().filter(session=session, actor=reader, created_at__gt=since)[:1]


@cache
def _select_views_of_persons() -> QuerySet[AuditEvent, int]:
    return AuditEvent.objects.filter(kind=AuditKind.VIEWED, actor_kind=ActorKind.PERSON).values_list("pk", flat=True)


def _query_recently_shown_sessions(sessions: list[int], reader: str, since: datetime) -> QuerySet[AuditEvent, Any]:
    """Select those of the sessions that are being read, or of which excerpts were recorded."""
    return _query_sessions_of_recorded_views().filter(session__pk__in=sessions, actor=reader, created_at__gt=since)


@cache
def _query_sessions_of_recorded_views() -> QuerySet[AuditEvent, Any]:
    readings = AuditEvent.objects.filter(kind__in=[AuditKind.VIEWED, AuditKind.EXCERPTED], actor_kind=ActorKind.PERSON)
    return readings.values_list("session", flat=True)
