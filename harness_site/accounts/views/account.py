"""One's own account: how one signs in, where one is signed in, which workspace one works in."""

from typing import Any, cast

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from checkpoints.enums import AuditKind
from harness_site.accounts import trail
from harness_site.accounts.guard import WORKSPACE_KEY, membership_for
from harness_site.accounts.models import Membership
from harness_site.accounts.places import inside
from harness_site.accounts.signing import end_sign_ins, sign_ins


@require_GET
def account(request: HttpRequest) -> HttpResponse:
    """For everybody who is signed in, also without a workspace."""
    user = cast(User, request.user)
    if not UserSession.objects.filter(session_key=request.session.session_key).exists():
        UserSession.objects.create_from_request(request)
    context = {
        "factors": _factors(user),
        "foreign": SocialAccount.objects.filter(user=user).order_by("pk"),
        "sign_ins": sign_ins(user),
        "this_sign_in": request.session.session_key,
        "memberships": Membership.objects.filter(user=user).select_related("workspace").order_by("pk"),
        "here": membership_for(request),
    }
    return render(request, "accounts/account.html", context)


@require_POST
def end_others(request: HttpRequest) -> HttpResponse:
    """End every other sign-in, or with `which` one of them."""
    user = cast(User, request.user)
    which = request.POST.get("which", "")
    if which:
        found = UserSession.objects.filter(user=user, pk=which).first() if which.isdecimal() else None
        if found is None:
            raise Http404("There is no such sign-in.")
        found.end()
        ended = 1
    else:
        ended = end_sign_ins(user, but=request.session.session_key)
    trail.personal(user, AuditKind.SIGN_INS_ENDED, request=request, ended=ended)
    return redirect("account")


@require_POST
def switch(request: HttpRequest) -> HttpResponse:
    """Work in another workspace from now on. One that is not theirs is not there."""
    user = cast(User, request.user)
    asked = request.POST.get("workspace", "").replace("\0", "")
    theirs = Membership.objects.filter(user=user, workspace__slug=asked).values_list("workspace_id", flat=True).first()
    if theirs is None:
        raise Http404("There is no such workspace.")
    request.session[WORKSPACE_KEY] = theirs
    return redirect(inside(request.POST.get("next", "")))


@require_GET
def enter(request: HttpRequest, workspace: str, place: str) -> HttpResponse:
    """A place in a workspace, for links in messages. It leads there; from another workspace it asks first."""
    memberships = Membership.objects.filter(user=cast(User, request.user)).select_related("workspace")
    theirs = memberships.filter(workspace__slug=workspace.replace("\0", "")).first()
    if theirs is None:
        raise Http404("There is no such workspace.")
    query = request.META["QUERY_STRING"]
    onward = inside(f"/{place}?{query}" if query else f"/{place}")
    if membership_for(request) == theirs:
        return redirect(onward)
    return render(request, "accounts/enter.html", {"workspace": theirs.workspace, "onward": onward})


def _factors(user: User) -> dict[str, Any]:
    found = list(Authenticator.objects.filter(user=user).order_by("pk"))
    by_type = {one.type: one for one in found}
    codes = by_type.get(Authenticator.Type.RECOVERY_CODES)
    return {
        "totp": by_type.get(Authenticator.Type.TOTP),
        "passkeys": [one for one in found if one.type == Authenticator.Type.WEBAUTHN],
        "codes_left": None if codes is None else len(codes.wrap().get_unused_codes()),
    }
