"""Views that forms are sent to: they answer POST requests, and redirect others to the page with the form."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def require_post_or_redirect(page: str) -> Callable[[View[P]], View[P]]:
    """Let a view answer POST requests, and redirect GET requests to the page with its form.

    After such a view has answered with a page, its address is in the address bar: people open it again with Enter or
    with a restored tab.

    Args:
        page: URL name of the page with the form.

    Returns:
        A decorator for the view.
    """

    def wrap_view(view: View[P]) -> View[P]:
        @require_http_methods(["GET", "POST"])
        @wraps(view)
        def redirect_or_call_view(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            return view(request, *args, **kwargs) if request.method == "POST" else redirect(page)

        return redirect_or_call_view

    return wrap_view
