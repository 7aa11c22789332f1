"""Template tag for the row of saved views above a list."""

from functools import cache
from operator import attrgetter
from typing import Any

from django import template
from django.db.models import QuerySet
from django.http import QueryDict
from django.template import Context

from harness_site.accounts.models import Membership
from harness_site.saved_views.list_filter_normalization import normalize_filter_query
from harness_site.saved_views.models import SavedView, casefold_view_name
from harness_site.saved_views.refused_form_in_user_session import load_refused_form

register = template.Library()


@cache
def _select_views_of_page(page: str) -> QuerySet[SavedView]:
    return SavedView.objects.filter(page=page)


@register.inclusion_tag("saved/parts/views.html", takes_context=True, name="saved_views")
def build_saved_views_context(context: Context, page: str) -> dict[str, Any]:
    """Render the saved views of `page` and forms to save the current filters and to change a view. One query."""
    request = context["request"]
    member: Membership = request.membership
    query = normalize_filter_query(page, request.GET)
    views = sorted(_select_views_of_page(page).filter(workspace=member.workspace_id), key=attrgetter("folded_name"))
    current = next((view for view in views if view.query == query), None)
    changeable = [view for view in views if view.can_be_changed_by(member)]
    refused = load_refused_form(request, page, query)
    refused_name = None if refused is None else casefold_view_name(refused.name.strip())
    refused_view = None if refused is None else refused.view
    return {
        "page": page,
        "views": views,
        "current": current,
        "is_changeable": current in changeable,
        "changeable": changeable,
        "refused": refused,
        "same_name": next(
            (view for view in changeable if view.folded_name == refused_name and view.pk != refused_view), None
        ),
        "query": query,
        "is_filtered": any(name != "tab" for name in QueryDict(query)) and not context.get("filter_errors"),
        "address": request.path,
        "csrf_token": context.get("csrf_token"),
    }
