"""Security headers: content security policy, caching, permissions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from secrets import token_urlsafe
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.functional import SimpleLazyObject

from harness_site.core.distinguish_site_from_project_requests import is_site_request

#: URL for reports of policy violations; a project that includes the site has no such page.
REPORTS: Final = "/development/policy/report/"
#: Policy of responses that a browser shows as they are, such as an image that an agent has sent.
SANDBOX_POLICY: Final = "default-src 'none'; sandbox"
_HEADER: Final = "Content-Security-Policy"
#: Place of the nonce in a policy.
_NONCE: Final = "{nonce}"
_NONCE_ATTRIBUTE: Final = "_harness_csp_nonce"


def build_content_security_policy(
    *, form_targets: Sequence[str] = (), report_violations: bool = False
) -> dict[str, list[str]]:
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
        "script-src": [_NONCE],
        "style-src": ["'self'"],
        **({"report-uri": [REPORTS]} if report_violations else {}),
    }


class PrivateResponsesMiddleware:
    """Middleware that forbids caches to store pages with customer data, and pages to use devices."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if not is_site_request(request):
            return response
        response.setdefault("Cache-Control", "private, no-store")
        response.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        response.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
        return response


class ContentSecurityPolicyMiddleware:
    """Middleware that sends the policy of `SITE_CONTENT_SECURITY_POLICY` with the site's own pages.

    Pages of a project that includes the site keep what the project sends with them, with whatever middleware.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        is_page_of_django = settings.DEBUG and response.status_code in {
            HTTPStatus.NOT_FOUND,
            HTTPStatus.INTERNAL_SERVER_ERROR,
        }
        if not is_page_of_django and response.get(_HEADER) != SANDBOX_POLICY and is_site_request(request):
            directives = getattr(settings, "SITE_CONTENT_SECURITY_POLICY", None) or build_content_security_policy()
            response[_HEADER] = _format_policy(directives, getattr(request, _NONCE_ATTRIBUTE, None))
        return response


def provide_csp_nonce_to_templates(request: HttpRequest) -> dict[str, Any]:
    """Provide the nonce for scripts of this response to templates. A page that uses none allows no script."""
    return {"csp_nonce": SimpleLazyObject(partial(_get_or_make_nonce, request))}


def _get_or_make_nonce(request: HttpRequest) -> str:
    nonce: str | None = getattr(request, _NONCE_ATTRIBUTE, None)
    if nonce is None:
        nonce = token_urlsafe(16)
        setattr(request, _NONCE_ATTRIBUTE, nonce)
    return nonce


def _format_policy(directives: Mapping[str, Sequence[str]], nonce: str | None) -> str:
    return "; ".join(
        f"{name} {' '.join(_iterate_sources(sources, nonce))}".strip() for name, sources in directives.items()
    )


def _iterate_sources(sources: Sequence[str], nonce: str | None) -> Iterator[str]:
    for source in sources:
        if source != _NONCE:
            yield source
        elif nonce is not None:
            yield f"'nonce-{nonce}'"
