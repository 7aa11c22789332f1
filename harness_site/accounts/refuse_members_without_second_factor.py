"""Refusal of a member who lacks a second factor that their workspace requires.

The page that sets one up is `harness_site/accounts/views/required_second_factor.py`.
"""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from harness_site.accounts.htmx_refusal_response import SET_UP_HEADER, build_refused_fragment
from harness_site.accounts.models import Membership


def refuse_until_second_factor_is_set_up(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Redirect to the page that sets up a second factor; answer an HTMX request with a sentence and its address.

    The page leads back to the address of a GET request, and says after a form that nothing of it was saved.
    """
    set_up = reverse("harness_accounts:required-factor")
    if request.headers.get("HX-Request"):
        sentence = _("The workspace %(workspace)s requires a second factor now.")
        response = build_refused_fragment(request, sentence % {"workspace": membership.workspace.name})
        response.headers[SET_UP_HEADER] = set_up
        return response
    query = {"next": request.get_full_path()} if request.method == "GET" else {"not-saved": ""}
    return redirect(f"{set_up}?{urlencode(query)}")
