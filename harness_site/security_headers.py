"""Security headers: content security policy, caching, permissions."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from csp.constants import NONCE
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from harness_site import env
from harness_site.accounts.safe_redirect_targets import is_path_of_site

#: URL for reports of policy violations; a project that includes the site has no such page.
REPORTS: Final = "/development/policy/report/"
_KEY_LETTERS: Final = 32
_MAKE_KEY: Final = 'Make one: python -c "import secrets; print(secrets.token_urlsafe(48))"'
#: Random keys of 32 hexadecimal digits have fewer different letters in one case of a million.
_KEY_DIFFERENT_LETTERS: Final = 8


def build_content_security_policy(
    *, form_targets: Sequence[str] = (), report_violations: bool = False
) -> dict[str, list[Any]]:
    """Build a policy without inline code, eval and other hosts; scripts need the nonce of the response.

    With `report_violations`, browsers report violations (see `harness_site.development`).
    """
    return {
        "default-src": ["'self'"],
        "base-uri": ["'none'"],
        "connect-src": ["'self'"],
        "font-src": ["'self'"],
        "form-action": ["'self'", *form_targets],
        "frame-ancestors": ["'none'"],
        "img-src": ["'self'"],
        "media-src": ["'self'"],
        "object-src": ["'none'"],
        "script-src": [NONCE],
        "style-src": ["'self'"],
        **({"report-uri": [REPORTS]} if report_violations else {}),
    }


def read_or_create_secret_key(folder: Path, *, is_public: bool, is_checked: bool) -> str:
    """Read HARNESS_SECRET_KEY; a site that only this machine reaches gets a key of its own, kept in `folder`.

    Raises `ImproperlyConfigured` if a public site has none, or with `is_checked` one that can be guessed.
    """
    key = env.read_text_setting("HARNESS_SECRET_KEY")
    if not key and is_public:
        raise ImproperlyConfigured(
            "HARNESS_SECRET_KEY is not set. A site that others reach needs it: write it to a file, and name that file "
            f"in HARNESS_SECRET_KEY_FILE. {_MAKE_KEY}"
        )
    if key and is_checked:
        require_strong_secret_key(key)
    return key or env.load_or_create_secret(folder / "secret_key")


def require_strong_secret_key(key: str) -> None:
    """Refuse a key that can be guessed. Raises `ImproperlyConfigured`.

    Sessions, forms and encrypted fields depend on it, and a dictionary attack tries billions of keys a second.
    """
    if len(key) < _KEY_LETTERS or len(set(key)) < _KEY_DIFFERENT_LETTERS or key.startswith("django-insecure-"):
        raise ImproperlyConfigured(
            f"HARNESS_SECRET_KEY is too easy to guess: it takes {_KEY_LETTERS} characters or more, made at random. "
            f"{_MAKE_KEY}"
        )


class PrivateResponsesMiddleware:
    """Middleware that forbids caches to store pages with customer data, and pages to use devices."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if not is_path_of_site(request.path):
            return response
        response.setdefault("Cache-Control", "private, no-store")
        response.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        response.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
        return response


def provide_csp_nonce_to_templates(request: HttpRequest) -> dict[str, Any]:
    """Provide the nonce for scripts of this response to templates."""
    return {"csp_nonce": getattr(request, "csp_nonce", "")}
