"""Page of an invitation's link."""

from typing import Any, cast

from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.login import record_authentication
from django import forms
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from harness_site.accounts import audit_events, member_services
from harness_site.accounts.forms import HOW_TO_CHOOSE, style_form_fields
from harness_site.accounts.models import Invitation
from harness_site.accounts.permissions import WORKSPACE_KEY


class NewAccountForm(forms.Form):
    """Form with name and password of a new account."""

    username = forms.CharField(
        max_length=150,
        validators=[User.username_validator],
        help_text="With it you sign in, and under it your decisions are recorded.",
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false"}),
    )
    password = forms.CharField(
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        strip=False,
        help_text=HOW_TO_CHOOSE,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        style_form_fields(self, username="Name", password="Password")  # noqa: S106 - a label

    def clean_username(self) -> str:
        name = str(self.cleaned_data["username"])
        if User.objects.filter(username__iexact=name).exists():
            raise forms.ValidationError("Somebody has this name already.")
        return name

    def clean_password(self) -> str:
        password = str(self.cleaned_data["password"])
        validate_password(password, User(username=self.cleaned_data.get("username", "")))
        return password

    def saved(self) -> User:
        return User.objects.create_user(self.cleaned_data["username"], password=self.cleaned_data["password"])


@require_http_methods(["GET", "POST"])
@login_not_required
def show_invitation(request: HttpRequest, secret: str) -> HttpResponse:
    """Show and accept an invitation; users who are not signed in create an account first."""
    invitation = member_services.find_invitation(secret)
    if invitation is None or not invitation.open:
        return render(request, "accounts/invitation_closed.html", {"invitation": invitation}, status=404)
    form = None if request.user.is_authenticated else NewAccountForm(request.POST or None)
    if request.method == "POST" and (form is None or form.is_valid()):
        return _accept_and_redirect(request, invitation, form)
    status = 422 if request.method == "POST" else 200
    return render(request, "accounts/invitation.html", {"invitation": invitation, "form": form}, status=status)


def _accept_and_redirect(request: HttpRequest, invitation: Invitation, form: NewAccountForm | None) -> HttpResponse:
    try:
        with transaction.atomic():
            user = cast(User, request.user) if form is None else form.saved()
            member_services.accept_invitation(invitation, user, request=request)
    except member_services.InvitationClosed:
        invitation.refresh_from_db()
        return render(request, "accounts/invitation_closed.html", {"invitation": invitation}, status=404)
    if form is not None:
        record_authentication(request, user, "password")
        get_adapter().login(request, user)
        audit_events.record_login(request, user)
    request.session[WORKSPACE_KEY] = invitation.workspace_id
    return redirect("harness:home")
