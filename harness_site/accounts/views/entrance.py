"""Coming in and going out."""

from typing import Any
from urllib.parse import urlencode

from allauth.account.internal.flows.logout import logout
from allauth.account.views import LoginView
from allauth.mfa.webauthn.views import LoginWebAuthnView
from allauth.socialaccount.adapter import get_adapter as foreign_accounts
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.forms import Form
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from checkpoints.enums import AuditKind
from harness_site.accounts import trail


class SignIn(LoginView):  # type: ignore[misc]
    """Name and password, a passkey, or the OpenID Connect provider."""

    template_name = "accounts/login.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return {
            **context,
            "next": self.request.POST.get("next") or self.request.GET.get("next", ""),
            "providers": foreign_accounts().list_providers(self.request),
            "passkey_refused": "passkey" in self.request.GET,
        }


class PasskeySignIn(LoginWebAuthnView):  # type: ignore[misc]
    """Takes what a passkey has signed; asked by a script, tells what there is to sign."""

    def form_invalid(self, form: Form) -> HttpResponse:
        trail.sign_in_failed(self.request, name="", why="passkey")
        return HttpResponseRedirect(f"{reverse('login')}?{urlencode({'passkey': 'refused'})}")


sign_in = SignIn.as_view()
passkey_sign_in = PasskeySignIn.as_view()


@require_POST
@login_not_required
def sign_out(request: HttpRequest) -> HttpResponse:
    """Also leaves a sign-in that waits for its second factor."""
    if isinstance(request.user, User):
        trail.personal(request.user, AuditKind.SIGNED_OUT, request=request)
    logout(request)
    return redirect("login")


def too_many(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Status 429: more attempts than people make."""
    return render(request, "errors/429.html", status=429)
