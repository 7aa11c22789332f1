"""What browsers report about the content policy: collected in this process, shown on a page."""

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

from checkpoints import clock

_KEPT: Final = 100
_LONGEST: Final = 500


@dataclass(frozen=True, slots=True)
class Breach:
    at: datetime
    page: str
    directive: str
    blocked: str
    place: str


_breaches: deque[Breach] = deque(maxlen=_KEPT)


@require_POST
@csrf_exempt
@login_not_required
def report(request: HttpRequest) -> HttpResponse:
    """Takes a report as browsers send it. One that cannot be read is dropped."""
    try:
        found = json.loads(request.body)["csp-report"]
        _breaches.append(_breach(found))
    except (ValueError, KeyError, TypeError, AttributeError):
        return HttpResponse(status=400)
    return HttpResponse(status=204)


@require_GET
@login_not_required
def breaches(request: HttpRequest) -> HttpResponse:
    return render(request, "development/policy.html", {"breaches": list(reversed(_breaches))})


def _breach(found: dict[str, Any]) -> Breach:
    def said(name: str) -> str:
        return str(found.get(name, ""))[:_LONGEST]

    place = f"{said('source-file')}:{said('line-number')}" if found.get("source-file") else ""
    return Breach(clock.now(), said("document-uri"), said("effective-directive"), said("blocked-uri"), place)
