"""Refuse a request of a page that was rendered for another user, in another workspace or with another role.

A browser has one session cookie for all of its tabs, so after a sign-in in one tab the requests of the other tabs are
those of the new user. Each request of an open page therefore names the reader of that page.
"""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from harness_site.accounts.htmx_refusal_response import HEADER, STATUS, build_refused_fragment
from harness_site.accounts.models import Membership
from harness_site.accounts.permissions import find_request_membership

#: Field of forms that the browser sends, which names the reader of their page.
FIELD: Final = "page_reader"


def format_reader_key(membership: Membership) -> str:
    """Return what a page names as its reader: user, workspace and role."""
    return f"{membership.user_id}-{membership.workspace_id}-{membership.role}"


def refuse_page_of_other_reader(request: HttpRequest) -> HttpResponse | None:
    """Return the refusal (412) of a request from a page that was rendered for another reader; None for all others.

    An HTMX request gets the sentence only, so that the page keeps its content and what was typed into it.
    """
    sentence = _describe_other_reader(request)
    if not sentence:
        return None
    if request.headers.get("HX-Request"):
        return build_refused_fragment(request, sentence)
    return render(request, "errors/412_other_reader.html", {"other_reader": sentence}, status=STATUS)


def _describe_other_reader(request: HttpRequest) -> str:
    """Say who reads now, if the page that sends `request` was rendered for another reader; otherwise an empty text.

    A request that names no reader is none of an open page. One that is signed out, or whose user is no member any more,
    is refused elsewhere.
    """
    if not request.user.is_authenticated:
        return ""
    key = request.headers.get(HEADER) or (request.POST.get(FIELD, "") if request.method == "POST" else "")
    if not key:
        return ""
    user, _separator, place = key.partition("-")
    if user != str(request.user.pk):
        return _("You are now signed in as %(name)s.") % {"name": request.user.get_username()}
    membership = find_request_membership(request)
    if membership is None or key == format_reader_key(membership):
        return ""
    if place.partition("-")[0] != str(membership.workspace_id):
        return _("You are now in the workspace %(workspace)s.") % {"workspace": membership.workspace.name}
    return _("You now have another role: %(role)s.") % {"role": membership.get_role_display()}
