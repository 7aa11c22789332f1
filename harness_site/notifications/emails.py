"""Composition of e-mails, and sending through the configured server."""

from __future__ import annotations

import smtplib
import ssl
import sys
from email.message import EmailMessage
from email.utils import formatdate
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse

from harness_site.core import formatting
from harness_site.mail_settings import MailServer, Security
from harness_site.notifications.models import Delivery
from harness_site.notifications.notice_text import NoticeItem, NoticeMessage, build_absolute_url

#: Timeout of each SMTP step in seconds.
_STEP: Final = 10.0
_SUBJECT: Final = 160


class NoMailServer(Exception):
    def __init__(self) -> None:
        super().__init__("No mail server is set: HARNESS_EMAIL_URL.")


class HeaderContainsLineBreak(ValueError):
    """Refusal of a message with a line break in a header."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The header {name} of the message holds a line break. Nothing was sent.")


def send_notification_email(delivery: Delivery, message: NoticeMessage) -> None:
    """Send a notification, and return when the server has accepted it.

    Raises `NoMailServer`, `SMTPException`, `OSError`.
    """
    if settings.MAIL_SERVER is None:
        raise NoMailServer
    send_through_server(compose_notification(delivery, message), message.link)


def send_through_server(composed: EmailMessage, leads_to: str) -> None:
    """Send a message, and return when the server has accepted it.

    In development the subject and the link may be printed instead. Raises the errors of `send_notification_email`, and
    `HeaderContainsLineBreak`.
    """
    server: MailServer | None = settings.MAIL_SERVER
    if server is None:
        raise NoMailServer
    _check_header_breaks(composed)
    if server.security is Security.CONSOLE:
        print(f"E-mail to {composed['To']}: {composed['Subject']}\n{leads_to}", file=sys.stderr)
        return
    with _open_smtp_connection(server) as connection:
        if server.security is Security.STARTTLS:
            connection.starttls(context=ssl.create_default_context())
        if server.user:
            connection.login(server.user, server.password)
        connection.send_message(composed)


def compose_notification(delivery: Delivery, message: NoticeMessage) -> EmailMessage:
    """Compose a notification; its message id is derived from the delivery and the same in every attempt."""
    email = EmailMessage()
    set_email_headers(email, to=delivery.recipient, subject=message.headline)
    email["Message-ID"] = f"<{delivery.pk}@{urlsplit(settings.SITE_ADDRESS).hostname}>"
    email["X-Harness-Delivery"] = str(delivery.pk)
    preferences = build_absolute_url(reverse("harness_notifications:notification-preferences"))
    email.set_content(_build_plain_text(message, preferences))
    html = render_to_string("notifications/message.html", {"message": message, "preferences": preferences})
    email.add_alternative(html, subtype="html")
    return email


def set_email_headers(composed: EmailMessage, *, to: str, subject: str) -> None:
    composed["Subject"] = _escape_header_text(formatting.shorten_to_one_line(f"[Harness] {subject}", _SUBJECT))
    composed["From"] = settings.MAIL_FROM
    composed["To"] = to
    composed["Date"] = formatdate()
    composed["Auto-Submitted"] = "auto-generated"


def _escape_header_text(text: str) -> str:
    """Break up encoded words in a header text.

    A word such as `=?utf-8?q?=0D=0A…?=` would be decoded, by the library that composes the message or by a mail server,
    and its line breaks would begin new headers.
    """
    return text.replace("=?", "= ?")


def _check_header_breaks(email: EmailMessage) -> None:
    """Raise `HeaderContainsLineBreak` for a header that would become two; nothing is sent."""
    for name, value in email.items():
        if "\r" in str(value) or "\n" in str(value):
            raise HeaderContainsLineBreak(name)


def _build_plain_text(message: NoticeMessage, preferences: str) -> str:
    item_lines = [line for item in message.items for line in (*_format_item_lines(item), "")]
    remainder_lines = [f"… and {message.more} more.", ""] if message.more > 0 else []
    head = [message.headline, "", message.explanation, "", message.link, ""]
    foot = ["--", f"Workspace {message.workspace}. Choose which messages you get: {preferences}", ""]
    return "\n".join([*head, *item_lines, *remainder_lines, *foot])


def _format_item_lines(item: NoticeItem) -> list[str]:
    deadline_lines = [f"  until {formatting.format_exact_time(item.deadline)}"] if item.deadline else []
    return [f"* {item.sentence}", f"  {item.facts}", *deadline_lines, f"  {item.link}"]


def _open_smtp_connection(server: MailServer) -> smtplib.SMTP:
    if server.security is Security.TLS:
        return smtplib.SMTP_SSL(server.host, server.port, timeout=_STEP, context=ssl.create_default_context())
    return smtplib.SMTP(server.host, server.port, timeout=_STEP)
