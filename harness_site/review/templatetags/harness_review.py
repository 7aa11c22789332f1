"""Tags about the calls that wait for a decision, for the frame of every page."""

from django import template
from django.templatetags.static import static

from harness_site.accounts.models import Membership
from harness_site.review.selectors.pending_calls import BoundedCount, count_pending_calls

register = template.Library()


@register.simple_tag
def count_waiting_calls(membership: Membership | None) -> BoundedCount | None:
    """Count the calls of the reader's workspace that need a decision; None for readers without a workspace."""
    return None if membership is None else count_pending_calls(membership.workspace)


@register.simple_tag
def favicon(waiting: BoundedCount | None) -> str:
    """Return the address of the tab's icon, which shows how many calls wait."""
    if not waiting:
        return static("icons/favicon.svg")
    return static(f"icons/favicon-{waiting.number if waiting.number < 10 else 'many'}.svg")
