"""Pages behind links that the server prints: the first account, and a sign-in that works once."""

from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.login import perform_login, record_authentication
from allauth.account.internal.flows.logout import logout
from allauth.account.models import Login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods

from harness_site.accounts import first_admin, record_user_audit_events, sign_in_links
from harness_site.accounts.account_and_login_forms import FirstAccountForm


@require_http_methods(["GET", "POST"])
@login_not_required
def create_first_account(request: HttpRequest, token: str) -> HttpResponse:
    """Create the first account of an empty installation, make it an admin, and sign it in."""
    form = FirstAccountForm(request.POST if request.method == "POST" else None)
    try:
        first_admin.require_usable_setup_token(token)
        if request.method == "POST" and form.is_valid():
            return _create_first_admin_and_sign_in(request, token, form)
    except first_admin.SetupClosed:
        context = {"empty": first_admin.is_installation_without_accounts()}
        return render(request, "accounts/first_account_closed.html", context, status=404)
    status = 422 if request.method == "POST" else 200
    return render(request, "accounts/first_account.html", {"form": form}, status=status)


@require_GET
@login_not_required
def sign_in_by_link(request: HttpRequest, token: str) -> HttpResponse:
    """Sign in by a link of the command `sign_in_link`; accounts with a second factor are asked for it."""
    try:
        user = sign_in_links.redeem_sign_in_link(token)
    except sign_in_links.LinkRefused:
        return render(request, "accounts/sign_in_link_closed.html", status=404)
    if request.user.is_authenticated:
        logout(request)
    record_authentication(request, user, "link")
    response: HttpResponse = perform_login(request, Login(user=user, redirect_url=reverse("harness:home")))
    return response


def _create_first_admin_and_sign_in(request: HttpRequest, token: str, form: FirstAccountForm) -> HttpResponse:
    data = form.cleaned_data
    user: User = first_admin.create_first_admin(
        token, name=data["username"], email=data["email"], password=data["password"], request=request
    )
    record_authentication(request, user, "password")
    get_adapter().login(request, user)
    record_user_audit_events.record_login(request, user)
    return redirect("harness:home")
