"""Django's e-mail backend over the mail server of this site, for commands and other programs that use `send_mail`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

from harness_site.send_email import MAIL_ERRORS, send_email_through_server


class EmailBackend(BaseEmailBackend):
    """Backend that sends through the server of HARNESS_EMAIL_URL. Raises one of `MAIL_ERRORS`, unless silenced."""

    def __init__(self, *, fail_silently: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.fail_silently = fail_silently

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Send each message with a recipient, and return their number."""
        sent = 0
        for message in email_messages:
            if not message.recipients():
                continue
            try:
                send_email_through_server(message.message(), str(message.body), message.recipients())
            except MAIL_ERRORS:
                if not self.fail_silently:
                    raise
            else:
                sent += 1
        return sent
