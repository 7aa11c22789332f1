"""Page of an invitation's link."""

from typing import cast

from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.login import record_authentication
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from harness_site.accounts import member_and_invitation_services, record_user_audit_events
from harness_site.accounts.account_and_login_forms import NewAccountForm
from harness_site.accounts.membership_queries import is_single_workspace_installation
from harness_site.accounts.models import Invitation
from harness_site.accounts.permissions import WORKSPACE_KEY


@require_http_methods(["GET", "POST"])
@login_not_required
def show_or_accept_invitation(request: HttpRequest, secret: str) -> HttpResponse:
    """Show and accept an invitation; users who are not signed in create an account first."""
    invitation = member_and_invitation_services.find_open_or_closed_invitation_by_secret(secret)
    if invitation is None or not invitation.is_open:
        return render(request, "accounts/invitation_closed.html", {"invitation": invitation}, status=404)
    form = None if request.user.is_authenticated else NewAccountForm(request.POST or None)
    if request.method == "POST" and (form is None or form.is_valid()):
        return _create_user_accept_invitation_and_sign_in(request, invitation, form)
    status = 422 if request.method == "POST" else 200
    context = {
        "invitation": invitation,
        "form": form,
        "is_single_workspace_installation": is_single_workspace_installation(),
    }
    return render(request, "accounts/invitation.html", context, status=status)


def _create_user_accept_invitation_and_sign_in(
    request: HttpRequest, invitation: Invitation, form: NewAccountForm | None
) -> HttpResponse:
    try:
        with transaction.atomic():
            user = cast(User, request.user) if form is None else _create_user_from_invitation(invitation, form)
            member_and_invitation_services.accept_invitation(invitation, user, request=request)
    except member_and_invitation_services.InvitationClosed:
        invitation.refresh_from_db()
        return render(request, "accounts/invitation_closed.html", {"invitation": invitation}, status=404)
    if form is not None:
        record_authentication(request, user, "password")
        get_adapter().login(request, user)
        record_user_audit_events.record_login(request, user)
    request.session[WORKSPACE_KEY] = invitation.workspace_id
    return redirect("harness:home")


def _create_user_from_invitation(invitation: Invitation, form: NewAccountForm) -> User:
    """Create the account of an invited person. Its address is confirmed if the link was sent there."""
    data = form.cleaned_data
    return User.objects.create_user(data["username"], email=invitation.email, password=data["password"])
