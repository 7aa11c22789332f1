"""The audit trail of the workspace: reading it, verifying it, taking it away."""

from datetime import date
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from checkpoints import clock, integrity
from checkpoints.enums import AuditKind, Role
from checkpoints.queries import trail
from checkpoints.queries.trail import Subject, TrailFilter
from harness_site.accounts import trail as recording
from harness_site.accounts.guard import MemberRequest, member
from harness_site.attachments import CSV, attachment
from harness_site.audit import table
from harness_site.rendering.references import resolve

#: Nobody types more.
_LONGEST = 255


@require_GET
@member(Role.AUDITOR)
def audit(request: MemberRequest) -> HttpResponse:
    workspace = request.membership.workspace_id
    wanted = _wanted(request.GET)
    before = request.GET.get("before", "")
    page = trail.page(workspace, wanted, before=int(before) if _number(before) else None)
    context = {
        "page": page,
        "wanted": wanted,
        "subjects": Subject.choices,
        "integrity": trail.integrity(workspace),
        "here": _query(request),
        "following": _query(request, before=str(page.before)) if page.before else "",
        "later": _number(before),
    }
    return render(request, "audit/trail.html", context)


@require_POST
@member(Role.AUDITOR)
def verify(request: MemberRequest) -> HttpResponse:
    """Checks every entry. The outcome stands on the page; that somebody checked is an entry of its own."""
    verdict = integrity.verify(request.membership.workspace_id)
    details: dict[str, Any] = {"checked": verdict.checked, "flaws": len(verdict.flaws)}
    recording.record(request.membership, AuditKind.AUDIT_VERIFIED, request=request, **details)
    return redirect("audit")


@require_GET
@member(Role.AUDITOR)
def export(request: MemberRequest) -> HttpResponseBase:
    """CSV of everything that matches, sent while it is read."""
    wanted = _wanted(request.GET)
    recording.record(request.membership, AuditKind.EXPORTED, request=request, what="audit trail", **_told(wanted))
    name = f"audit-{request.membership.workspace.slug}-{clock.now():%Y-%m-%d}.csv"
    return attachment(table.lines(trail.every(request.membership.workspace_id, wanted)), CSV, name)


def _wanted(asked: QueryDict) -> TrailFilter:
    subject = asked.get("subject", "")
    return TrailFilter(
        subject=Subject(subject) if subject in Subject.values else None,
        actor=resolve(asked.get("actor", "").strip())[:_LONGEST],
        session=resolve(asked.get("session", "").strip())[:_LONGEST],
        first=_day(asked.get("first", "")),
        last=_day(asked.get("last", "")),
    )


def _told(wanted: TrailFilter) -> dict[str, Any]:
    """The filter, for the entry that tells of an export."""
    parts = {
        "subject": wanted.subject or "",
        "actor": wanted.actor,
        "session": wanted.session,
        "first": wanted.first.isoformat() if wanted.first else "",
        "last": wanted.last.isoformat() if wanted.last else "",
    }
    return {name: str(value) for name, value in parts.items() if value}


def _day(text: str) -> date | None:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    # One day more has to exist.
    return found if found < date.max else None


def _number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def _query(request: HttpRequest, **changed: str) -> str:
    query = request.GET.copy()
    query.pop("before", None)
    for name, value in changed.items():
        query[name] = value
    return f"?{query.urlencode()}" if query else ""
