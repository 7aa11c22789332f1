"""Requests with a token go to their views directly, without the middleware of pages and its user session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, ResolverMatch, resolve
from django.utils import timezone, translation

#: Attribute of the views to which this middleware goes directly.
_ATTRIBUTE: Final = "authenticates_tokens"
#: Content security policy of answers that no browser has to show.
_POLICY: Final = "default-src 'none'; frame-ancestors 'none'"


def mark_view_as_token_authenticated(view: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a view that authenticates tokens itself and reads no cookie. It raises no exception."""
    setattr(view, _ATTRIBUTE, True)
    return view


class TokenRequestMiddleware:
    """Middleware that passes a request with a bearer token to its view directly, without the middleware of pages.

    User sessions, languages, forms and the policies of pages concern browsers, which never send such a header by
    themselves.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.META.get("HTTP_AUTHORIZATION"):
            return self.get_response(request)
        # The thread has the language and the time zone of its last page; below `i18n_patterns` the path names one.
        language_before = translation.get_language()
        language = translation.get_language_from_path(request.path_info) or settings.LANGUAGE_CODE
        translation.activate(language)
        try:
            match: ResolverMatch | None = resolve(request.path_info)
        except Resolver404:
            match = None
        if match is None or not hasattr(match.func, _ATTRIBUTE):
            # Perhaps a page of a project that includes the site, and that has no `LocaleMiddleware`.
            translation.activate(language_before or settings.LANGUAGE_CODE)
            return self.get_response(request)
        request.get_host()  # raises `DisallowedHost`
        request.resolver_match = match
        if language != settings.LANGUAGE_CODE:
            translation.activate(settings.LANGUAGE_CODE)
        timezone.deactivate()
        response: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
        response.setdefault("Content-Security-Policy", _POLICY)
        response.setdefault("X-Frame-Options", "DENY")
        if isinstance(response, HttpResponse):
            response.setdefault("Content-Length", str(len(response.content)))
        return response
