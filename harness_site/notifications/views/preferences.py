"""What one wants to be told by e-mail, and where."""

from typing import Any, Final, cast

from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.forms.models import model_to_dict
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from harness_site.accounts.forms import dressed
from harness_site.notifications import addresses
from harness_site.notifications.choosing import choose
from harness_site.notifications.recipients import address_of, preferences_of

_HELP: Final = {
    "address": "Empty: the address of your account. A new one counts once you have opened the link that is sent there.",
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
    kept = preferences_of(user)
    initial = model_to_dict(kept, fields=list(PreferencesForm.base_fields))
    initial["address"] = kept.asked_address or kept.address
    form = PreferencesForm(request.POST if request.method == "POST" else None, initial=initial)
    if request.method == "POST" and form.is_valid():
        chosen = choose(user, form.cleaned_data, request=request)
        if not chosen.asked_address:
            return redirect("account")
        sent = addresses.send_link(user, chosen.asked_address, request=request)
        return redirect(f"{reverse('notification-preferences')}?link={sent}")
    context = {
        "form": form,
        "possible": settings.MAIL_SERVER is not None,
        "goes_to": address_of(user),
        "asked": kept.asked_address,
        "link": request.GET.get("link", ""),
    }
    status = 422 if request.method == "POST" else 200
    return render(request, "notifications/preferences.html", context, status=status)


@require_http_methods(["GET", "POST"])
def confirm(request: HttpRequest, token: str) -> HttpResponse:
    """Where the link in a mail leads: opening it changes nothing, the button on the page does."""
    user = cast(User, request.user)
    try:
        if request.method == "POST":
            addresses.confirm(token, user, request=request)
            return redirect("notification-preferences")
        context = {"address": addresses.address_in(token, user)}
    except addresses.LinkRefused:
        return render(request, "notifications/confirm.html", {"days": addresses.LASTS.days}, status=404)
    return render(request, "notifications/confirm.html", context)
