"""Reports of content security policy violations, collected in memory."""

import json
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from checkpoints.db import clock

_MAX_REPORTS: Final = 100
_MAX_FIELD_LENGTH: Final = 500


@dataclass(frozen=True, slots=True)
class CspViolation:
    at: datetime
    page: str
    directive: str
    blocked: str
    place: str


_breaches: deque[CspViolation] = deque(maxlen=_MAX_REPORTS)


@require_POST
@csrf_exempt
@login_not_required
def receive_csp_report(request: HttpRequest) -> HttpResponse:
    """Store a report from a browser; answer 400 if it is malformed."""
    try:
        report = json.loads(request.body)["csp-report"]
        _breaches.append(_parse_csp_violation(report))
    except (ValueError, KeyError, TypeError, AttributeError):
        return HttpResponse(status=400)
    return HttpResponse(status=204)


@require_GET
@login_not_required
def list_csp_violations(request: HttpRequest) -> HttpResponse:
    return render(request, "csp_violation_reports/policy.html", {"breaches": list(reversed(_breaches))})


def _parse_csp_violation(report: dict[str, Any]) -> CspViolation:
    def read_field(name: str) -> str:
        return str(report.get(name, ""))[:_MAX_FIELD_LENGTH]

    position = f"{read_field('source-file')}:{read_field('line-number')}" if report.get("source-file") else ""
    return CspViolation(
        clock.now(),
        read_field("document-uri"),
        read_field("effective-directive"),
        read_field("blocked-uri"),
        position,
    )
