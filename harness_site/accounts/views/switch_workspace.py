"""Views that switch to another workspace of the user, and that open a link into one."""

from typing import cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from harness_site.accounts.models import Membership
from harness_site.accounts.permissions import WORKSPACE_KEY, find_request_membership
from harness_site.accounts.safe_redirect_targets import get_safe_redirect_path


@require_POST
def switch_workspace(request: HttpRequest) -> HttpResponse:
    """Switch to another workspace of the user; raise 404 for any other."""
    user = cast(User, request.user)
    slug = request.POST.get("workspace", "").replace("\0", "")
    memberships = Membership.objects.filter(user=user, workspace__slug=slug).select_related("workspace")
    membership = memberships.first()
    if membership is None:
        raise Http404(_("There is no such workspace."))
    request.session[WORKSPACE_KEY] = membership.workspace_id
    messages.success(request, _("You are now in the workspace %(name)s.") % {"name": membership.workspace.name})
    return redirect(get_safe_redirect_path(request.POST.get("next", "")))


@require_GET
def open_link_or_ask_to_switch_workspace(request: HttpRequest, workspace: str, place: str) -> HttpResponse:
    """Open a link from a message in its workspace; ask before switching to another workspace."""
    memberships = Membership.objects.filter(user=cast(User, request.user)).select_related("workspace")
    membership = memberships.filter(workspace__slug=workspace.replace("\0", "")).first()
    if membership is None:
        raise Http404(_("There is no such workspace."))
    query = request.META["QUERY_STRING"]
    target = get_safe_redirect_path(f"/{place}?{query}" if query else f"/{place}")
    if find_request_membership(request) == membership:
        return redirect(target)
    return render(request, "accounts/enter.html", {"workspace": membership.workspace, "onward": target})
