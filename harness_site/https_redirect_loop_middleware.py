"""Middleware that says what a proxy or this site lacks, where the redirect to HTTPS would lead to itself for ever."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import translation
from django.utils.translation import gettext_lazy as _

from harness_site.installation.database_readiness import mark_response_as_logged

logger = logging.getLogger(__name__)

_HEADER_MISSING: Final = _(
    "This site is served over HTTPS, and this request came without X-Forwarded-Proto, so the site cannot know whether "
    "it came over HTTPS. Let the proxy set that header on every request, and open the site through the proxy."
)
_HEADER_NOT_TRUSTED: Final = _(
    "This site is served over HTTPS by a proxy that sets X-Forwarded-Proto, but the site does not trust that header. "
    "Start the site with HARNESS_BEHIND_PROXY=1."
)


class HttpsRedirectLoopMiddleware:
    """Middleware before Django's `SecurityMiddleware`, whose redirect a browser would follow in a circle."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        self._is_logged = False

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if request.is_secure() or response.status_code != 301:
            return response
        proto = request.headers.get("X-Forwarded-Proto", "")
        if settings.BEHIND_PROXY:
            if proto:
                return response
            problem = _HEADER_MISSING
        elif proto == "https":
            problem = _HEADER_NOT_TRUSTED
        else:
            return response
        if not self._is_logged:
            self._is_logged = True
            with translation.override("en"):
                logger.error("%s", problem)
        with translation.override(translation.get_language_from_request(request)):
            refusal = HttpResponse(f"{problem}\n", status=500, content_type="text/plain; charset=utf-8")
        mark_response_as_logged(refusal)
        return refusal
