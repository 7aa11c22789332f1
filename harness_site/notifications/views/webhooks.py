"""The webhooks of a workspace. For admins."""

from typing import Any

from django import forms
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from checkpoints.enums import Role
from harness_site.accounts.again import shown_lately
from harness_site.accounts.forms import dressed
from harness_site.accounts.guard import MemberRequest, member
from harness_site.notifications import posting
from harness_site.notifications import webhooks as hooks
from harness_site.notifications.delivering import send_test
from harness_site.notifications.log import recent
from harness_site.notifications.models import CALL_EVENTS, Webhook, WebhookFormat

_EVENTS = [(event.value, event.label) for event in CALL_EVENTS]


class WebhookForm(forms.Form):
    name = forms.CharField(max_length=100, label="Name")
    address = forms.CharField(max_length=2000, label="Address")
    format = forms.ChoiceField(choices=WebhookFormat.choices, label="Format")
    events = forms.MultipleChoiceField(
        choices=_EVENTS,
        label="Told about",
        widget=forms.CheckboxSelectMultiple,
        initial=[value for value, _ in _EVENTS],
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        dressed(self)
        self.fields["address"].widget.attrs |= {"placeholder": "https://", "spellcheck": "false", "autocomplete": "off"}
        self.fields["events"].widget.attrs.pop("class")

    def clean_address(self) -> str:
        address: str = self.cleaned_data["address"]
        try:
            posting.checked(address)
        except posting.AddressRefused as error:
            raise forms.ValidationError(str(error)) from error
        return address


@require_GET
@member(Role.ADMIN)
def webhooks(request: MemberRequest) -> HttpResponse:
    return _show(request)


@require_POST
@member(Role.ADMIN)
@shown_lately
def create(request: MemberRequest) -> HttpResponse:
    """The answer is the one page that shows the secret."""
    form = WebhookForm(request.POST)
    if not form.is_valid():
        return _show(request, form=form, status=422)
    asked = form.cleaned_data
    made, secret = hooks.create(
        request.membership,
        name=asked["name"],
        address=asked["address"],
        format=WebhookFormat(asked["format"]),
        events=asked["events"],
        request=request,
    )
    return _show(request, made=made, secret=secret)


@require_POST
@member(Role.ADMIN)
def test(request: MemberRequest, pk: int) -> HttpResponse:
    """Sends a message at once. How that ended stands in the log."""
    send_test(_find(request, pk), by=request.membership, request=request)
    return redirect(f"{reverse('webhooks')}#log")


@require_POST
@member(Role.ADMIN)
def pause(request: MemberRequest, pk: int) -> HttpResponse:
    hooks.pause(request.membership, _find(request, pk), request=request)
    return redirect("webhooks")


@require_POST
@member(Role.ADMIN)
def resume(request: MemberRequest, pk: int) -> HttpResponse:
    hooks.resume(request.membership, _find(request, pk), request=request)
    return redirect("webhooks")


@require_POST
@member(Role.ADMIN)
@shown_lately
def delete(request: MemberRequest, pk: int) -> HttpResponse:
    hooks.delete(request.membership, _find(request, pk), request=request)
    return redirect("webhooks")


def _find(request: MemberRequest, pk: int) -> Webhook:
    theirs = Webhook.objects.filter(workspace=request.membership.workspace)
    return get_object_or_404(theirs, pk=pk if pk < 2**63 else 0)


def _show(request: MemberRequest, *, form: WebhookForm | None = None, status: int = 200, **more: Any) -> HttpResponse:
    workspace = request.membership.workspace
    context = {
        "webhooks": Webhook.objects.filter(workspace=workspace).order_by("name", "pk"),
        "log": recent(workspace.pk),
        "form": form or WebhookForm(),
        "tab": "webhooks",
        **more,
    }
    return render(request, "notifications/webhooks.html", context, status=status)
