"""What was sent to whom, and how that ended. For admins."""

from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from checkpoints.enums import Role
from harness_site.accounts.guard import MemberRequest, member
from harness_site.notifications import log as kept
from harness_site.notifications.models import DeliveryStatus


@require_GET
@member(Role.ADMIN)
def log(request: MemberRequest) -> HttpResponse:
    asked = request.GET.get("status", "")
    status = DeliveryStatus(asked) if asked in DeliveryStatus.values else None
    before = _key(request.GET.get("before", ""))
    context = {
        "log": kept.page(request.membership.workspace_id, status=status, before=before),
        "status": status,
        "statuses": DeliveryStatus.choices,
        "later": before is not None,
        "tab": "webhooks",
    }
    return render(request, "notifications/log.html", context)


@require_POST
@member(Role.ADMIN)
def again(request: MemberRequest, pk: UUID) -> HttpResponse:
    """Try a message that was given up once more, from the next round on."""
    if not kept.take_up(request.membership, pk, request=request):
        raise Http404("There is no such message.")
    return redirect("delivery-log")


def _key(text: str) -> UUID | None:
    if not text:
        return None
    try:
        return UUID(text)
    except ValueError as error:
        raise BadRequest("The place to go on from cannot be read.") from error
