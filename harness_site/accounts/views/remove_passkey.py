"""Removal of a passkey, unless it is the only second factor and a workspace requires one."""

from typing import Any

from allauth.mfa.adapter import get_adapter
from allauth.mfa.webauthn.views import RemoveWebAuthnView
from django.forms import BaseForm
from django.http import HttpResponse


class RemovePasskey(RemoveWebAuthnView):  # type: ignore[misc]
    """Removal of a passkey, refused for the last factor of somebody of whom a workspace requires one."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return {**context, "may_remove": get_adapter().can_delete_authenticator(self.object)}

    def form_valid(self, form: BaseForm) -> HttpResponse:
        if not get_adapter().can_delete_authenticator(self.object):
            refusal: HttpResponse = self.render_to_response(self.get_context_data(form=form), status=409)
            return refusal
        response: HttpResponse = super().form_valid(form)
        return response


remove_passkey = RemovePasskey.as_view()
