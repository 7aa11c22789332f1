"""Log of deliveries, for admins."""

from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from checkpoints.enums import Role
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.notifications import delivery_log_and_retry
from harness_site.notifications.models import DeliveryStatus


@require_GET
@require_member_with_role(Role.ADMIN)
def show_delivery_log(request: MemberRequest) -> HttpResponse:
    status_value = request.GET.get("status", "")
    status = DeliveryStatus(status_value) if status_value in DeliveryStatus.values else None
    before_id = _parse_optional_page_start_id(request.GET.get("before", ""))
    context = {
        "log": delivery_log_and_retry.load_delivery_log_page(
            request.membership.workspace_id, status=status, before=before_id
        ),
        "status": status,
        "statuses": DeliveryStatus.choices,
        "later": before_id is not None,
        "tab": "webhooks",
    }
    return render(request, "notifications/log.html", context)


@require_POST
@require_member_with_role(Role.ADMIN)
def requeue_delivery(request: MemberRequest, pk: UUID) -> HttpResponse:
    """Queue a delivery again that was given up."""
    if not delivery_log_and_retry.requeue_given_up_delivery(request.membership, pk, request=request):
        raise Http404(_("There is no such message."))
    messages.success(request, _("The message is sent again. The log shows whether it was delivered."))
    return redirect("harness_notifications:delivery-log")


def _parse_optional_page_start_id(text: str) -> UUID | None:
    if not text:
        return None
    try:
        return UUID(text)
    except ValueError as error:
        raise BadRequest(_("The position in the address cannot be read.")) from error
