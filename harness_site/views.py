"""The two addresses that belong to no page."""

from django.contrib.auth.decorators import login_not_required
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET

from checkpoints.enums import Role
from harness_site.accounts.guard import MemberRequest, member


@require_GET
@member(Role.AUDITOR)
def home(request: MemberRequest) -> HttpResponse:
    return redirect("review" if request.membership.may(Role.APPROVER) else "sessions")


@require_GET
@login_not_required
def health(request: HttpRequest) -> JsonResponse:
    """200 with `{"status": "ok"}` while this process answers and reaches its database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return JsonResponse({"status": "ok"})
