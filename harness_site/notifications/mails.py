"""E-mail: composing it, and handing it to the server of the settings."""

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

from harness_site import wording
from harness_site.mail_server import MailServer, Security
from harness_site.notifications.messages import Item, Message, link
from harness_site.notifications.models import Delivery

#: Seconds for each step.
_STEP: Final = 10.0
_SUBJECT: Final = 160


class NoMailServer(Exception):
    def __init__(self) -> None:
        super().__init__("No mail server is set: HARNESS_EMAIL_URL.")


class HeaderBroken(ValueError):
    """A header of a message holds a line break."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The header {name} of the message holds a line break. Nothing was sent.")


def send(delivery: Delivery, message: Message) -> None:
    """Returns when the server has taken it. Raises `NoMailServer`, `SMTPException`, `OSError`."""
    if settings.MAIL_SERVER is None:
        raise NoMailServer
    hand_over(compose(delivery, message), message.link)


def hand_over(composed: EmailMessage, leads_to: str) -> None:
    """Returns when the server has taken it; in development the subject and the link may be printed instead. Raises
    what `send` raises, and `HeaderBroken`."""
    server: MailServer | None = settings.MAIL_SERVER
    if server is None:
        raise NoMailServer
    _refuse_breaks(composed)
    if server.security is Security.CONSOLE:
        print(f"E-mail to {composed['To']}: {composed['Subject']}\n{leads_to}", file=sys.stderr)
        return
    with _connection(server) as connection:
        if server.security is Security.STARTTLS:
            connection.starttls(context=ssl.create_default_context())
        if server.user:
            connection.login(server.user, server.password)
        connection.send_message(composed)


def compose(delivery: Delivery, message: Message) -> EmailMessage:
    """The id of the message is that of the delivery, in every attempt."""
    composed = EmailMessage()
    head(composed, to=delivery.recipient, subject=message.headline)
    composed["Message-ID"] = f"<{delivery.pk}@{urlsplit(settings.SITE_ADDRESS).hostname}>"
    composed["X-Harness-Delivery"] = str(delivery.pk)
    preferences = link(reverse("notification-preferences"))
    composed.set_content(_text(message, preferences))
    page = render_to_string("notifications/message.html", {"message": message, "preferences": preferences})
    composed.add_alternative(page, subtype="html")
    return composed


def head(composed: EmailMessage, *, to: str, subject: str) -> None:
    composed["Subject"] = _inert(wording.shortened(f"[Harness] {subject}", _SUBJECT))
    composed["From"] = settings.MAIL_FROM
    composed["To"] = to
    composed["Date"] = formatdate()
    composed["Auto-Submitted"] = "auto-generated"


def _inert(text: str) -> str:
    """`text` for a header, without an encoded word in it: `=?utf-8?q?=0D=0A…?=` would be decoded, by the library that
    composes the message or by one on its way, and the line breaks in it would begin headers of their own."""
    return text.replace("=?", "= ?")


def _refuse_breaks(composed: EmailMessage) -> None:
    """Raise `HeaderBroken` for a header that would be two: nothing of it is sent."""
    for name, value in composed.items():
        if "\r" in str(value) or "\n" in str(value):
            raise HeaderBroken(name)


def _text(message: Message, preferences: str) -> str:
    listed = [line for item in message.items for line in (*_lines(item), "")]
    more = [f"… and {message.more} more.", ""] if message.more > 0 else []
    head = [message.headline, "", message.explanation, "", message.link, ""]
    foot = ["--", f"Workspace {message.workspace}. Choose which messages you get: {preferences}", ""]
    return "\n".join([*head, *listed, *more, *foot])


def _lines(item: Item) -> list[str]:
    until = [f"  until {wording.exact(item.deadline)}"] if item.deadline else []
    return [f"* {item.sentence}", f"  {item.facts}", *until, f"  {item.link}"]


def _connection(server: MailServer) -> smtplib.SMTP:
    if server.security is Security.TLS:
        return smtplib.SMTP_SSL(server.host, server.port, timeout=_STEP, context=ssl.create_default_context())
    return smtplib.SMTP(server.host, server.port, timeout=_STEP)
