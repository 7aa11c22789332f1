"""Comments of people on a call."""

from django.db import transaction
from django.http import HttpRequest

from checkpoints.enums import AuditKind
from checkpoints.models import ToolCall
from harness_site.accounts.models import Membership
from harness_site.review import claim_services
from harness_site.review.models import Comment


def add_comment(call: ToolCall, text: str, *, by: Membership, request: HttpRequest) -> None:
    """Add a comment about a call, decided or not."""
    with transaction.atomic():
        Comment.objects.create(call=call, author=by.user.get_username(), text=text)
        claim_services.record_claim_event_and_notify_pages(AuditKind.COMMENTED, call, by, request)
