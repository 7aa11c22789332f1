"""The door for programs: `@bearer(TokenRole.APPROVER)` lets a token in and gives the view `request.token`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeAlias, cast

from allauth.account.adapter import get_adapter
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from harness_site.accounts import tokens
from harness_site.accounts.models import ApiToken, TokenRole

P = ParamSpec("P")

#: What a token of a role may do, in whose name it was made.
COVERS: Final = {
    TokenRole.AGENT: frozenset({TokenRole.AGENT}),
    TokenRole.AUDITOR: frozenset({TokenRole.AUDITOR}),
    TokenRole.APPROVER: frozenset({TokenRole.AUDITOR, TokenRole.APPROVER}),
}


class TokenRequest(HttpRequest):
    """A request with a token that holds; only `bearer` makes one."""

    token: ApiToken


View: TypeAlias = Callable[Concatenate[HttpRequest, P], HttpResponse]
TokenView: TypeAlias = Callable[Concatenate[TokenRequest, P], HttpResponse]


def bearer(*roles: TokenRole) -> Callable[[TokenView[P]], View[P]]:
    """Let only tokens in that cover one of `roles`: 401 without a good token, 403 with one that is for something else.

    A token comes in a header that browsers never send by themselves, so these views need no form token. They look
    at no cookie.
    """

    def decorate(view: TokenView[P]) -> View[P]:
        @login_not_required
        @csrf_exempt
        @wraps(view)
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            try:
                address = get_adapter().get_client_ip(request)
                token = tokens.authenticate(request.headers.get("Authorization", ""), address=address)
            except tokens.TokenRefused:
                return _refused(401, "invalid_token", "Send a token that is valid: Authorization: Bearer …")
            if not COVERS[TokenRole(token.role)] & set(roles):
                return _refused(403, "insufficient_scope", f"A token for {token.role}s does not cover this.")
            theirs = cast(TokenRequest, request)
            theirs.token = token
            return view(theirs, *args, **kwargs)

        return guarded

    return decorate


def _refused(status: int, code: str, detail: str) -> HttpResponse:
    headers = {"WWW-Authenticate": f'Bearer error="{code}"'}
    return JsonResponse({"code": code, "detail": detail}, status=status, headers=headers)
