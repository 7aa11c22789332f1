"""Start page redirect, health probes, and the words that scripts show."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils import translation
from django.views.decorators.http import require_GET
from django.views.i18n import JavaScriptCatalog

from checkpoints.enums import Role
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.installation.database_readiness import (
    RETRY_SECONDS,
    StartupProblem,
    does_database_answer,
    mark_response_as_logged,
    probe,
)
from harness_site.installation.first_steps import find_oldest_session


@require_GET
@require_member_with_role(Role.AUDITOR)
def redirect_to_start_page_of_member(request: MemberRequest) -> HttpResponse:
    """Redirect to the page that this member needs first; an admin without any session gets the first steps."""
    membership = request.membership
    if membership.has_role(Role.ADMIN) and find_oldest_session(membership.workspace) is None:
        return redirect("harness_installation:first-steps")
    return redirect("harness_review:review" if membership.has_role(Role.APPROVER) else "harness_sessions:sessions")


@require_GET
@login_not_required
def report_health(request: HttpRequest) -> JsonResponse:
    """Return 200 if this process answers and reaches its database, else 503 as `report_readiness`."""
    return _build_health_response(None if does_database_answer() else StartupProblem.DATABASE)


@require_GET
@login_not_required
def report_liveness(request: HttpRequest) -> JsonResponse:
    """Return 200 if this process answers. A database that is away does not call for a restart of this process."""
    return JsonResponse({"status": "ok"})


@require_GET
@login_not_required
def report_readiness(request: HttpRequest) -> JsonResponse:
    """Return 200 if this process can serve pages, else 503 with `problem`, `detail` and a `hint` what to do."""
    return _build_health_response(probe.find_problem() if does_database_answer() else StartupProblem.DATABASE)


def _build_health_response(problem: StartupProblem | None) -> JsonResponse:
    if problem is None:
        return JsonResponse({"status": "ok"})
    with translation.override("en"):
        body = {"status": "unavailable", "problem": problem, "detail": problem.summary, "hint": problem.advice}
    headers = {"Retry-After": str(RETRY_SECONDS)}
    response = JsonResponse(body, status=503, headers=headers, json_dumps_params={"ensure_ascii": False})
    mark_response_as_logged(response)
    return response


#: Translations for scripts, in the language of the request. Public, because the scripts of the login page need them.
show_words = login_not_required(JavaScriptCatalog.as_view(packages=["harness_site"]))
