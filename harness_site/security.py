"""What browsers are told about these pages."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from csp.constants import NONCE
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from harness_site.accounts.places import belongs_to_site

#: Where browsers send reports of breaches: of the site by itself, a project around it has no such page.
REPORTS: Final = "/development/policy/report/"
_KEY_LETTERS: Final = 32
#: Random keys of 32 hexadecimal digits have fewer than this in one of a million.
_KEY_DIFFERENT_LETTERS: Final = 8
LOCAL_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})


def content_policy(*, form_targets: Sequence[str] = (), reports: bool = False) -> dict[str, list[Any]]:
    """Nothing inline, nothing evaluated, nothing from another host; scripts only where a page names them itself.

    With `reports`, browsers tell of breaches (see `harness_site.development`).
    """
    return {
        "default-src": ["'self'"],
        "base-uri": ["'none'"],
        "connect-src": ["'self'"],
        "font-src": ["'none'"],
        "form-action": ["'self'", *form_targets],
        "frame-ancestors": ["'none'"],
        "img-src": ["'self'"],
        "object-src": ["'none'"],
        "script-src": [NONCE],
        "style-src": ["'self'"],
        **({"report-uri": [REPORTS]} if reports else {}),
    }


def check_secret_key(key: str) -> None:
    """Refuse a key that somebody could guess. Raises `ImproperlyConfigured`.

    Sessions, forms and what is stored encrypted rest on it; a list of words and a graphics card try billions a second.
    """
    if len(key) < _KEY_LETTERS or len(set(key)) < _KEY_DIFFERENT_LETTERS or key.startswith("django-insecure-"):
        raise ImproperlyConfigured(
            f"HARNESS_SECRET_KEY is too easy to guess: it takes {_KEY_LETTERS} letters or more, made at random. "
            'Make one: python -c "import secrets; print(secrets.token_urlsafe(48))"'
        )


def guessed_address(allowed_hosts: Sequence[str], *, https: bool) -> str:
    """Where a site is reached that has not been told: under its first name."""
    named = [host for host in allowed_hosts if host not in LOCAL_HOSTS and "*" not in host and not host.startswith(".")]
    return f"{'https' if https else 'http'}://{named[0] if named else '127.0.0.1:8000'}"


class PrivateResponses:
    """Pages show what customers said: no cache keeps them, and they ask for no device."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if not belongs_to_site(request.path):
            return response
        response.setdefault("Cache-Control", "private, no-store")
        response.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        response.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
        return response


def nonce(request: HttpRequest) -> dict[str, Any]:
    """For templates: the word of this response that lets its own scripts run."""
    return {"csp_nonce": getattr(request, "csp_nonce", "")}
