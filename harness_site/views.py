"""Start page redirect and health check."""

from django.contrib.auth.decorators import login_not_required
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET

from checkpoints.enums import Role
from harness_site.accounts.permissions import MemberRequest, require_member


@require_GET
@require_member(Role.AUDITOR)
def redirect_to_home_page(request: MemberRequest) -> HttpResponse:
    return redirect(
        "harness_review:review" if request.membership.has_role(Role.APPROVER) else "harness_sessions:sessions"
    )


@require_GET
@login_not_required
def check_health(request: HttpRequest) -> JsonResponse:
    """Return 200 with `{"status": "ok"}` if this process answers and reaches its database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return JsonResponse({"status": "ok"})
