"""What one wants to be told by e-mail, and where."""

from typing import Any, Final, cast

from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.forms.models import model_to_dict
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from harness_site.accounts.forms import dressed
from harness_site.notifications.models import Preferences
from harness_site.notifications.recipients import preferences_of

_HELP: Final = {
    "address": "Empty: the address of your account.",
    "interrupted": "A call may have happened, and nobody knows.",
    "awaiting_approval": "An agent asks before it does something.",
    "reminder": "A deadline is near, and nothing is decided.",
    "escalation": "A deadline has passed. Only admins are told, because only they can decide then.",
}


class PreferencesForm(forms.Form):
    email = forms.BooleanField(required=False)
    address = forms.EmailField(required=False, max_length=254)
    interrupted = forms.BooleanField(required=False)
    awaiting_approval = forms.BooleanField(required=False)
    reminder = forms.BooleanField(required=False)
    escalation = forms.BooleanField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        dressed(
            self,
            email="Send me e-mail",
            address="Address",
            interrupted="Outcome unknown",
            awaiting_approval="Awaiting approval",
            reminder="Reminder before a deadline",
            escalation="Passed deadline",
        )
        self.fields["address"].widget.attrs["autocomplete"] = "email"
        for name, words in _HELP.items():
            self.fields[name].help_text = words


@require_http_methods(["GET", "POST"])
def preferences(request: HttpRequest) -> HttpResponse:
    """For everybody who is signed in: they belong to a person, not to a workspace."""
    user = cast(User, request.user)
    kept = model_to_dict(preferences_of(user), fields=list(PreferencesForm.base_fields))
    form = PreferencesForm(request.POST if request.method == "POST" else None, initial=kept)
    if request.method == "POST" and form.is_valid():
        Preferences.objects.update_or_create(user=user, defaults=form.cleaned_data)
        return redirect("account")
    context = {"form": form, "possible": settings.MAIL_SERVER is not None}
    status = 422 if request.method == "POST" else 200
    return render(request, "notifications/preferences.html", context, status=status)
