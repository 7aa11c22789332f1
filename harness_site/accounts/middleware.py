from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from harness_site.accounts.places import belongs_to_site


class SignInRequired(LoginRequiredMiddleware):
    """Every view of the site asks for a sign-in unless it says otherwise.

    Those of the project around it are left alone.

    A part of a page is answered with 401 instead of the sign-in form, so that a page whose sign-in has ended keeps
    what it shows and what was typed into it.
    """

    def process_view(
        self,
        request: HttpRequest,
        view_func: Callable[..., HttpResponseBase],
        view_args: tuple[Any, ...],
        view_kwargs: dict[Any, Any],
    ) -> HttpResponseBase | None:
        if not belongs_to_site(request.path):
            return None
        refused = super().process_view(request, view_func, view_args, view_kwargs)
        if refused is not None and request.headers.get("HX-Request"):
            return HttpResponse("You are signed out.", status=401, content_type="text/plain; charset=utf-8")
        return refused
