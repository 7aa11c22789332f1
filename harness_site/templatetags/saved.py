"""The row of saved views above a list."""

from typing import Any

from django import template
from django.db.models import QuerySet
from django.template import Context

from harness_site.accounts.models import Membership
from harness_site.saved.models import SavedView
from harness_site.saved.pages import normalised

register = template.Library()


def _views(workspace: int, page: str) -> QuerySet[SavedView]:
    return SavedView.objects.filter(workspace=workspace, page=page).order_by("name", "pk")


@register.inclusion_tag("saved/parts/views.html", takes_context=True)
def saved_views(context: Context, page: str) -> dict[str, Any]:
    """The views the team has kept of `page`, and a form that keeps the present one. One query."""
    request = context["request"]
    member: Membership = request.membership
    query = normalised(page, request.GET)
    views = list(_views(member.workspace_id, page))
    current = next((view for view in views if view.query == query), None)
    return {
        "page": page,
        "views": views,
        "current": current,
        "removable": current is not None and current.removable_by(member),
        "query": query,
        "address": request.path,
        "csrf_token": context.get("csrf_token"),
    }
