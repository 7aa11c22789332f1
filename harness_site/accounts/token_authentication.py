"""Token authentication for API views: `@require_token(TokenRole.APPROVER)` sets `request.token`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Concatenate, Final, ParamSpec, TypeAlias, cast

from allauth.account.adapter import get_adapter
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from harness_site.accounts import api_tokens
from harness_site.accounts.models import ApiToken, TokenRole

P = ParamSpec("P")

#: Roles that a token's role includes.
COVERS: Final = {
    TokenRole.AGENT: frozenset({TokenRole.AGENT}),
    TokenRole.AUDITOR: frozenset({TokenRole.AUDITOR}),
    TokenRole.APPROVER: frozenset({TokenRole.AUDITOR, TokenRole.APPROVER}),
}


class TokenRequest(HttpRequest):
    """Request with a valid token; created only by `require_token`."""

    token: ApiToken


View: TypeAlias = Callable[Concatenate[HttpRequest, P], HttpResponse]
TokenView: TypeAlias = Callable[Concatenate[TokenRequest, P], HttpResponse]


def require_token(*roles: TokenRole) -> Callable[[TokenView[P]], View[P]]:
    """Restrict a view to tokens that include one of `roles`: 401 without a valid token, 403 for another role.

    Browsers never send the Authorization header by themselves and no cookie is read, so these views need no CSRF token.
    """

    def wrap_view(view: TokenView[P]) -> View[P]:
        @login_not_required
        @csrf_exempt
        @wraps(view)
        def check_token_and_call_view(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            try:
                token = api_tokens.authenticate_bearer_header_or_raise(
                    request.headers.get("Authorization", ""), find_address=partial(get_adapter().get_client_ip, request)
                )
            except api_tokens.TokenRefused:
                return _build_refusal_response(
                    401, "invalid_token", "Send a token that is valid: Authorization: Bearer …"
                )
            if not COVERS[TokenRole(token.role)] & set(roles):
                return _build_refusal_response(
                    403, "insufficient_scope", f"A token for {token.role}s does not cover this."
                )
            token_request = cast(TokenRequest, request)
            token_request.token = token
            return view(token_request, *args, **kwargs)

        return check_token_and_call_view

    return wrap_view


def _build_refusal_response(status: int, code: str, detail: str) -> HttpResponse:
    headers = {"WWW-Authenticate": f'Bearer error="{code}"'}
    return JsonResponse({"code": code, "detail": detail}, status=status, headers=headers)
