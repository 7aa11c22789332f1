"""Middleware that answers every request with status 503 and what to run, until the database has its tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils import translation

from checkpoints.exceptions import MigrationsMissing, StorageError, StorageUnavailable
from harness_site.api.problem_details import build_problem_response
from harness_site.core.cached_urls import list_language_paths_of_page
from harness_site.core.distinguish_site_from_project_requests import is_site_request
from harness_site.installation.database_readiness import (
    RETRY_SECONDS,
    StartupProblem,
    mark_response_as_logged,
    probe,
)

#: The page has styles and no scripts.
_POLICY: Final = "default-src 'none'; style-src 'self'; font-src 'self'; img-src 'self'; frame-ancestors 'none'"
_API_ERRORS: Final[dict[StartupProblem, type[StorageError]]] = {
    StartupProblem.DATABASE: StorageUnavailable,
    StartupProblem.MIGRATIONS: MigrationsMissing,
}


class UnmigratedDatabaseMiddleware:
    """Middleware before all others that use the database. It costs nothing once the tables are complete."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if probe.are_tables_known_complete or _is_served_without_tables(request):
            return self.get_response(request)
        problem = probe.find_problem()
        return self.get_response(request) if problem is None else _build_unavailable_response(request, problem)


def _is_served_without_tables(request: HttpRequest) -> bool:
    """Return whether a request is a health probe, or belongs to the project that includes the site."""
    return not is_site_request(request) or request.path.startswith(list_language_paths_of_page("harness:health"))


def _build_unavailable_response(request: HttpRequest, problem: StartupProblem) -> HttpResponse:
    if "text/html" in request.headers.get("Accept", "") and not request.headers.get("Authorization"):
        response = _render_unavailable_page(request, problem)
    else:
        with translation.override("en"):
            response = build_problem_response(_API_ERRORS[problem](problem.summary, may_have_happened=False), 503)
    response["Retry-After"] = str(RETRY_SECONDS)
    mark_response_as_logged(response)
    return response


def _render_unavailable_page(request: HttpRequest, problem: StartupProblem) -> HttpResponse:
    with translation.override(translation.get_language_from_request(request)):
        # Rendered without the request, because user sessions are in the database.
        context = {"problem": problem, "seconds": RETRY_SECONDS if request.method == "GET" else 0}
        response = HttpResponse(render_to_string("errors/503.html", context), status=503)
    response["Content-Security-Policy"] = _POLICY
    response["X-Frame-Options"] = "DENY"
    return response
