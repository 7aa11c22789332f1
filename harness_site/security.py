"""What browsers are told about these pages."""

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

LOCAL_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})

#: Nothing inline, nothing evaluated, nothing from another host.
CONTENT_POLICY: Final[dict[str, list[str]]] = {
    "default-src": ["'self'"],
    "base-uri": ["'none'"],
    "connect-src": ["'self'"],
    "font-src": ["'none'"],
    "form-action": ["'self'"],
    "frame-ancestors": ["'none'"],
    "img-src": ["'self'"],
    "object-src": ["'none'"],
    "script-src": ["'self'"],
    "style-src": ["'self'"],
}


class PrivateResponses:
    """Pages show what customers said: no cache keeps them, and they ask for no device."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.setdefault("Cache-Control", "private, no-store")
        response.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
        return response
