"""Composition and sending of notification e-mails."""

from __future__ import annotations

from email.message import EmailMessage
from urllib.parse import urlsplit

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from harness_site.core import formatting
from harness_site.display.display_preferences import get_account_time_zone_or_utc
from harness_site.notifications.load_notice_message_content import NoticeItem, NoticeMessage
from harness_site.notifications.models import FILTERED_EVENTS, Delivery
from harness_site.notifications.recipients import get_preferences_or_unsaved_defaults
from harness_site.send_email import NoMailServer, is_mail_configured, send_email_through_server, set_email_headers
from harness_site.site_address import build_absolute_url


def send_notification_email_or_raise(delivery: Delivery, message: NoticeMessage) -> None:
    """Send a notification, and return when the server has accepted it.

    Raises `NoMailServer`, `SMTPException`, `OSError`.
    """
    if not is_mail_configured():
        raise NoMailServer
    with timezone.override(get_account_time_zone_or_utc(delivery.user)):
        composed = compose_notification_email(delivery, message)
    send_email_through_server(composed, message.link)


def compose_notification_email(delivery: Delivery, message: NoticeMessage) -> EmailMessage:
    """Compose a notification; its message id is derived from the delivery and the same in every attempt."""
    email = EmailMessage()
    set_email_headers(email, to=delivery.recipient, subject=message.headline)
    email["Message-ID"] = f"<{delivery.pk}@{urlsplit(settings.SITE_ADDRESS).hostname}>"
    email["X-Harness-Delivery"] = str(delivery.pk)
    preferences = build_absolute_url(reverse("harness_notifications:notification-preferences"))
    choice = ""
    if delivery.user is not None and message.event in FILTERED_EVENTS:  # no filter leaves out deadlines and hand-overs
        choice = get_preferences_or_unsaved_defaults(delivery.user).describe_call_filter()
    email.set_content(_build_plain_text_body(message, preferences, choice))
    context = {"message": message, "preferences": preferences, "choice": choice}
    html = render_to_string("notifications/message.html", context)
    email.add_alternative(html, subtype="html")
    return email


def _build_plain_text_body(message: NoticeMessage, preferences: str, choice: str) -> str:
    if message.count == 1:
        item_lines = [*_format_facts_and_deadline_lines(message.items[0]), ""]
    else:
        item_lines = [line for item in message.items for line in (*_format_item_lines(item), "")]
    remainder_lines = (
        [_("… and %(number)d more.") % {"number": message.omitted_count}, ""] if message.omitted_count > 0 else []
    )
    text = [_("%(name)s wrote: “%(note)s”") % {"name": message.author, "note": message.text}, ""]
    head = [message.headline, "", *(text if message.text else []), message.explanation, "", message.link, ""]
    workspace = _("Workspace %(workspace)s.") % {"workspace": message.workspace}
    link = {"link": preferences}
    change = _("Change this: %(link)s") % link
    choose = _("Choose which messages you get: %(link)s") % link
    foot = ["--", f"{workspace} {f'{choice} {change}' if choice else choose}", ""]
    return "\n".join([*head, *item_lines, *remainder_lines, *foot])


def _format_item_lines(item: NoticeItem) -> list[str]:
    return [f"* {item.sentence}", *(f"  {line}" for line in (*_format_facts_and_deadline_lines(item), item.link))]


def _format_facts_and_deadline_lines(item: NoticeItem) -> list[str]:
    if item.deadline is None:
        return [item.facts]
    time = formatting.format_date_and_time_with_zone(item.deadline)
    return [item.facts, _("Deadline: %(time)s") % {"time": time}]
