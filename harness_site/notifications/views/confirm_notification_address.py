"""Confirmation of the address that notifications are sent to."""

from typing import cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from harness_site.core.post_only_views import require_post_or_redirect
from harness_site.notifications import email_address_confirmation
from harness_site.notifications.recipients import (
    get_preferences_or_unsaved_defaults,
)


@require_post_or_redirect("harness_notifications:notification-preferences")
def send_confirmation_link_again(request: HttpRequest) -> HttpResponse:
    """Send another link to the address that is not confirmed yet; do nothing if there is none."""
    user = cast(User, request.user)
    asked_address = get_preferences_or_unsaved_defaults(user).asked_address
    if not asked_address:
        return redirect("harness_notifications:notification-preferences")
    return _send_confirmation_link_and_redirect(request, user, asked_address)


@require_http_methods(["GET", "POST"])
def show_or_confirm_email_address(request: HttpRequest, token: str) -> HttpResponse:
    """Show the target page of a confirmation link; only the button on it confirms the address."""
    user = cast(User, request.user)
    try:
        if request.method == "POST":
            email_address_confirmation.confirm_email_address(token, user, request=request)
            messages.success(request, gettext("Your address is confirmed."))
            return redirect("harness_notifications:notification-preferences")
        context = {"address": email_address_confirmation.get_confirmed_address_or_raise(token, user)}
    except email_address_confirmation.LinkRefused:
        return render(
            request, "notifications/confirm.html", {"days": email_address_confirmation.LASTS.days}, status=404
        )
    return render(request, "notifications/confirm.html", context)


def _send_confirmation_link_and_redirect(request: HttpRequest, user: User, address: str) -> HttpResponse:
    link_result = email_address_confirmation.send_confirmation_link(user, address, request=request)
    return redirect(f"{reverse('harness_notifications:notification-preferences')}?link={link_result}")
