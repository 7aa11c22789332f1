"""API tokens of the workspace, for admins."""

from datetime import timedelta
from typing import Any, Final

from allauth.account.adapter import get_adapter
from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_POST

from checkpoints.enums import ActorKind, Role
from harness_site.accounts import api_tokens
from harness_site.accounts.account_and_login_forms import set_field_labels_styles_and_errors
from harness_site.accounts.models import ApiToken, TokenRole
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.accounts.reauthentication import require_recent_login
from harness_site.accounts.secrets_shown_once import pop_secret_for_page, store_secret_for_next_page
from harness_site.core.post_only_views import require_post_or_redirect

#: Key in the user session of a token that the tokens page shows once.
_SHOWN_ONCE_KEY: Final = "new_token"
#: Days → label.
LIFETIMES: Final = (("30", _("30 days")), ("90", _("90 days")), ("365", _("1 year")), ("", _("Until it is revoked")))


class TokenForm(forms.Form):
    name = forms.CharField(max_length=100, label=_("Name"))
    role = forms.ChoiceField(choices=TokenRole.choices, label=_("Role"))
    days = forms.ChoiceField(choices=LIFETIMES, required=False, initial="90", label=_("Valid for"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_field_labels_styles_and_errors(self)

    def get_lifetime(self) -> timedelta | None:
        days = self.cleaned_data["days"]
        return timedelta(days=int(days)) if days else None


@require_GET
@require_member_with_role(Role.ADMIN)
def list_tokens(request: MemberRequest) -> HttpResponse:
    """List the tokens; show the secret of a token that was just created, once."""
    return _render_tokens_page(request, new_token=pop_secret_for_page(request, _SHOWN_ONCE_KEY))


@require_post_or_redirect("harness_settings:tokens")
@require_member_with_role(Role.ADMIN)
def create_token(request: MemberRequest) -> HttpResponseBase:
    """Create a token. The next page shows its secret, once."""
    form = TokenForm(request.POST)
    if form.is_valid():
        name = form.cleaned_data["name"]
        if api_tokens.is_token_name_taken(request.membership.workspace, name):
            form.add_error("name", str(api_tokens.TokenNameTaken(name)))
    if not form.is_valid():
        return _render_tokens_page(request, form=form, status=422)
    return _create_token_from_form(request, form)


@require_recent_login
def _create_token_from_form(request: MemberRequest, form: TokenForm) -> HttpResponse:
    name, role = form.cleaned_data["name"], TokenRole(form.cleaned_data["role"])
    try:
        _token, secret = api_tokens.create_token_with_secret(
            request.membership.workspace,
            name=name,
            role=role,
            lifetime=form.get_lifetime(),
            by=_build_token_issuer(request),
        )
    except api_tokens.TokenNameTaken as error:
        form.add_error("name", str(error))
        return _render_tokens_page(request, form=form, status=422)
    store_secret_for_next_page(request, _SHOWN_ONCE_KEY, {"name": name, "secret": secret})
    return redirect("harness_settings:tokens")


@require_POST
@require_member_with_role(Role.ADMIN)
def revoke_token(request: MemberRequest, pk: int) -> HttpResponse:
    key = pk if pk < 2**63 else 0
    token = get_object_or_404(ApiToken, pk=key, workspace=request.membership.workspace)
    api_tokens.revoke_token(token, by=_build_token_issuer(request))
    messages.success(request, gettext("The token “%(name)s” was revoked and no longer works.") % {"name": token.name})
    return redirect("harness_settings:tokens")


def _build_token_issuer(request: MemberRequest) -> api_tokens.TokenIssuer:
    name = request.membership.user.get_username()
    return api_tokens.TokenIssuer(ActorKind.PERSON, name, get_adapter().get_client_ip(request))


def _render_tokens_page(
    request: MemberRequest, *, form: TokenForm | None = None, status: int = 200, **extra_context: Any
) -> HttpResponse:
    tokens = ApiToken.objects.filter(workspace=request.membership.workspace).order_by("-pk")
    context = {
        "tokens": sorted(tokens, key=lambda token: token.status != "active"),
        "form": form or TokenForm(),
        "tab": "tokens",
        **extra_context,
    }
    return render(request, "settings/tokens.html", context, status=status)
