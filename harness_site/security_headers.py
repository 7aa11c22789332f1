"""Security headers: content security policy, caching, permissions."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from csp.constants import NONCE
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from harness_site.accounts.safe_redirect_targets import is_path_below_site_prefix

#: URL for reports of policy violations; a project that includes the site has no such page.
REPORTS: Final = "/development/policy/report/"


def build_content_security_policy(
    *, form_targets: Sequence[str] = (), report_violations: bool = False
) -> dict[str, list[Any]]:
    """Build a policy without inline code, eval and other hosts; scripts need the nonce of the response.

    With `report_violations`, browsers report violations (see `harness_site.csp_violation_reports`).
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


class PrivateResponsesMiddleware:
    """Middleware that forbids caches to store pages with customer data, and pages to use devices."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if not is_path_below_site_prefix(request.path):
            return response
        response.setdefault("Cache-Control", "private, no-store")
        response.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        response.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
        return response


def provide_csp_nonce_to_templates(request: HttpRequest) -> dict[str, Any]:
    """Provide the nonce for scripts of this response to templates."""
    return {"csp_nonce": getattr(request, "csp_nonce", "")}
