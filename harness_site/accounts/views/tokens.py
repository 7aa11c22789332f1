"""API tokens of the workspace. For admins."""

from datetime import timedelta
from typing import Any, Final

from allauth.account.adapter import get_adapter
from django import forms
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from checkpoints.enums import ActorKind, Role
from harness_site.accounts import tokens as api_tokens
from harness_site.accounts.again import shown_lately
from harness_site.accounts.forms import dressed
from harness_site.accounts.guard import MemberRequest, member
from harness_site.accounts.models import ApiToken, TokenRole

#: Days → how the page says it.
LIFETIMES: Final = (("30", "30 days"), ("90", "90 days"), ("365", "A year"), ("", "Until it is revoked"))


class TokenForm(forms.Form):
    name = forms.CharField(max_length=100, label="Name")
    role = forms.ChoiceField(choices=TokenRole.choices, label="For")
    days = forms.ChoiceField(choices=LIFETIMES, required=False, initial="90", label="Valid for")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        dressed(self)

    def lifetime(self) -> timedelta | None:
        days = self.cleaned_data["days"]
        return timedelta(days=int(days)) if days else None


@require_GET
@member(Role.ADMIN)
def tokens(request: MemberRequest) -> HttpResponse:
    return _show(request)


@require_POST
@member(Role.ADMIN)
@shown_lately
def create(request: MemberRequest) -> HttpResponse:
    """The answer is the one page that shows the token."""
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _show(request, form=form, status=422)
    name, role = form.cleaned_data["name"], TokenRole(form.cleaned_data["role"])
    try:
        token, secret = api_tokens.create(
            request.membership.workspace, name=name, role=role, lifetime=form.lifetime(), by=_maker(request)
        )
    except api_tokens.TokenNameTaken as error:
        form.add_error("name", str(error))
        return _show(request, form=form, status=422)
    return _show(request, made=token, secret=secret)


@require_POST
@member(Role.ADMIN)
def revoke(request: MemberRequest, pk: int) -> HttpResponse:
    key = pk if pk < 2**63 else 0
    api_tokens.revoke(get_object_or_404(ApiToken, pk=key, workspace=request.membership.workspace), by=_maker(request))
    return redirect("tokens")


def _maker(request: MemberRequest) -> api_tokens.Maker:
    name = request.membership.user.get_username()
    return api_tokens.Maker(ActorKind.PERSON, name, get_adapter().get_client_ip(request))


def _show(request: MemberRequest, *, form: TokenForm | None = None, status: int = 200, **more: Any) -> HttpResponse:
    context = {
        "tokens": ApiToken.objects.filter(workspace=request.membership.workspace).order_by("-pk"),
        "form": form or TokenForm(),
        "tab": "tokens",
        **more,
    }
    return render(request, "settings/tokens.html", context, status=status)
