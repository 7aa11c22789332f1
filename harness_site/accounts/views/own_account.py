"""A user's own account: factors, user sessions, choice of workspace."""

from typing import Any, cast

from allauth.account.internal.flows.password_change import finalize_password_change
from allauth.account.views import password_change
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from checkpoints.enums import AuditKind
from harness_site.accounts import record_user_audit_events
from harness_site.accounts.account_and_login_forms import SetPasswordForm
from harness_site.accounts.membership_queries import may_user_decide_in_a_workspace
from harness_site.accounts.models import Membership
from harness_site.accounts.permissions import find_request_membership
from harness_site.accounts.recent_login import has_recent_link_login
from harness_site.accounts.second_factor_holders_and_requirements import (
    is_last_required_factor,
    list_memberships_that_require_factor,
)
from harness_site.accounts.user_sessions import delete_expired_and_list_user_sessions, end_user_sessions


@require_GET
def show_account(request: HttpRequest) -> HttpResponse:
    """Show the account of any signed-in user, also of one without a workspace."""
    user = cast(User, request.user)
    if not UserSession.objects.filter(session_key=request.session.session_key).exists():
        UserSession.objects.create_from_request(request)
    factors = _build_factors_context(user)
    context = {
        "factors": factors,
        "only_factor_required_by": _find_workspaces_that_require_only_factor(user, factors),
        "foreign": SocialAccount.objects.filter(user=user).order_by("pk"),
        "sign_ins": delete_expired_and_list_user_sessions(user, request.session.session_key),
        "this_sign_in": request.session.session_key,
        "memberships": Membership.objects.filter(user=user).select_related("workspace").order_by("pk"),
        "here": find_request_membership(request),
        "can_decide": may_user_decide_in_a_workspace(user),
    }
    return render(request, "accounts/account.html", context)


@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def change_password(request: HttpRequest) -> HttpResponse:
    """Show the form for a new password, and save it.

    Shortly after a login by a link the current password is not asked for: the link is for people who have forgotten it.
    """
    user = cast(User, request.user)
    if not user.has_usable_password() or not has_recent_link_login(request):
        response: HttpResponse = password_change(request)
        return response
    form = SetPasswordForm(user=user, data=request.POST if request.method == "POST" else None)
    if not form.is_valid():
        return render(request, "account/password_change.html", {"form": form, "by_link": True})
    form.save()
    finalize_password_change(request, user)
    return redirect("harness_accounts:account")


@require_POST
def end_one_or_all_other_sessions(request: HttpRequest) -> HttpResponse:
    """End every other session of the user, or only the one given as `which`."""
    user = cast(User, request.user)
    session_pk = request.POST.get("which", "")
    if session_pk:
        session = UserSession.objects.filter(user=user, pk=session_pk).first() if session_pk.isdecimal() else None
        if session is None:
            raise Http404(_("There is no such sign-in."))
        session.end()
        ended_count = 1
        sentence = _("You are signed out there.")
    else:
        ended_count = end_user_sessions(user, except_session_key=request.session.session_key)
        sentence = _("You are signed out everywhere else.")
    record_user_audit_events.record_account_event(user, AuditKind.SIGN_INS_ENDED, request=request, ended=ended_count)
    messages.success(request, sentence)
    return redirect("harness_accounts:account")


def _find_workspaces_that_require_only_factor(user: User, factors: dict[str, Any]) -> str:
    """Return the names of the workspaces that keep the user from removing the only factor; empty if they may."""
    only = [factor for factor in (factors["totp"], *factors["passkeys"]) if factor is not None]
    if len(only) != 1 or not is_last_required_factor(only[0]):
        return ""
    return ", ".join(member.workspace.name for member in list_memberships_that_require_factor(user))


def _build_factors_context(user: User) -> dict[str, Any]:
    authenticators = list(Authenticator.objects.filter(user=user).order_by("pk"))
    by_type = {authenticator.type: authenticator for authenticator in authenticators}
    codes = by_type.get(Authenticator.Type.RECOVERY_CODES)
    return {
        "totp": by_type.get(Authenticator.Type.TOTP),
        "passkeys": [
            authenticator for authenticator in authenticators if authenticator.type == Authenticator.Type.WEBAUTHN
        ],
        "codes_left": None if codes is None else len(codes.wrap().get_unused_codes()),
    }
