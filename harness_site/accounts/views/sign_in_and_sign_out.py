"""Login and logout."""

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
from harness_site.accounts import first_admin, record_user_audit_events


class SignIn(LoginView):  # type: ignore[misc]
    """Login page with password, passkey, or the OpenID Connect provider."""

    template_name = "accounts/login.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return {
            **context,
            "next": self.request.POST.get("next") or self.request.GET.get("next", ""),
            "providers": foreign_accounts().list_providers(self.request),
            "is_empty": first_admin.is_installation_without_accounts(),
            "passkey_refused": "passkey" in self.request.GET,
            "not_saved": "not-saved" in self.request.GET,
            "signed_out": "signed-out" in self.request.GET,
        }


class PasskeySignIn(LoginWebAuthnView):  # type: ignore[misc]
    """Login by passkey: GET returns the challenge to a script, POST takes the signed response."""

    def form_invalid(self, form: Form) -> HttpResponse:
        record_user_audit_events.record_failed_login(self.request, name="", why="passkey")
        return HttpResponseRedirect(f"{reverse('harness_accounts:login')}?{urlencode({'passkey': 'refused'})}")


sign_in = SignIn.as_view()
passkey_sign_in = PasskeySignIn.as_view()


@require_POST
@login_not_required
def log_out(request: HttpRequest) -> HttpResponse:
    """Log out, also from a login that waits for its second factor."""
    if isinstance(request.user, User):
        record_user_audit_events.record_account_event(request.user, AuditKind.SIGNED_OUT, request=request)
    logout(request)
    return redirect(f"{reverse('harness_accounts:login')}?signed-out")


def show_too_many_attempts(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Render the 429 page for too many attempts."""
    return render(request, "errors/429.html", status=429)
