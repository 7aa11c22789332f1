"""Comments of people on a call."""

from django.db import transaction
from django.http import HttpRequest

from checkpoints.enums import AuditKind
from checkpoints.models import ToolCall
from harness_site.accounts.models import Membership
from harness_site.notifications.notices_between_members import create_mention_notice
from harness_site.review import claim_services
from harness_site.review.models import Comment
from harness_site.review.selectors.mentions_in_comments import find_mentioned_members


def add_comment_and_notify_mentioned(
    call: ToolCall, text: str, *, by: Membership, request: HttpRequest, receiver: Membership | None = None
) -> Comment:
    """Add a comment about a call, decided or not, and notify the members whom it mentions; return the comment.

    The `receiver` of a hand-over whose note it is gets the message about that instead.
    """
    with transaction.atomic():
        comment = Comment.objects.create(call=call, author=by.user.get_username(), text=text)
        mentioned = [member for member in find_mentioned_members(text, author=by) if member != receiver]
        if mentioned:
            create_mention_notice(call, by=by, mentioned=mentioned, text=text)
        claim_services.record_claim_event_and_notify_pages(AuditKind.COMMENTED, call, by, request, comment=comment.pk)
    return comment
