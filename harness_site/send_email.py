"""Sending of composed e-mails through the configured mail server.

`mail_and_connection_error_sentences` describes what may go wrong.
"""

from __future__ import annotations

import re
import smtplib
import ssl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from email.message import EmailMessage, Message
from email.utils import formatdate
from typing import Final

from django.conf import settings
from django.dispatch import Signal
from django.utils.translation import gettext_lazy

from harness_site.core import masked_formatting
from harness_site.core.translatable_stored_sentence import StoredSentence
from harness_site.mail_settings import MailServer, Security

#: Sent after the mail server has accepted a message.
mail_accepted: Final = Signal()

#: Timeout of each SMTP step in seconds.
_STEP: Final = 10.0
_MAX_SUBJECT_LENGTH: Final = 160


class NoMailServer(Exception):
    """Sending was asked for, but HARNESS_EMAIL_URL is not set."""

    def __init__(self) -> None:
        super().__init__(gettext_lazy("No mail server is set. Set HARNESS_EMAIL_URL and restart the site."))


class HeaderContainsLineBreak(ValueError):
    """Refusal of a message with a line break in a header."""

    def __init__(self, name: str) -> None:
        sentence = gettext_lazy("The header %(name)s of the message contains a line break. Nothing was sent.")
        super().__init__(StoredSentence.build(sentence, name=name))


#: Line break that ends a header.
_HEADER_END: Final = re.compile(r"(?>\r\n|\r|\n)(?![ \t])")
#: Errors that sending a message may raise. A password or an address beyond ASCII may not fit the server's protocol.
MAIL_ERRORS: Final = (OSError, smtplib.SMTPException, UnicodeError, NoMailServer, HeaderContainsLineBreak)


def is_mail_configured() -> bool:
    """Return whether this installation can send e-mail."""
    return settings.MAIL_SERVER is not None


def send_email_through_server(composed: Message, console_text: str, recipients: Sequence[str] | None = None) -> None:
    """Send a message, and return when the server has accepted it.

    It goes to `recipients`, by default those in its headers. In development the subject and `console_text`, a link or a
    text, may be printed instead. Raises one of `MAIL_ERRORS`.
    """
    server: MailServer | None = settings.MAIL_SERVER
    if server is None:
        raise NoMailServer
    _require_headers_without_line_breaks(composed)
    if server.security is Security.CONSOLE:
        print(f"E-mail to {composed['To']}: {composed['Subject']}\n{console_text}", file=sys.stderr)
        return
    with _open_smtp_connection(server) as connection:
        if server.security is Security.STARTTLS:
            connection.starttls(context=ssl.create_default_context())
        if server.user:
            connection.login(server.user, server.password)
        connection.send_message(composed, to_addrs=recipients)
    mail_accepted.send_robust(sender=None)


def set_email_headers(composed: EmailMessage, *, to: str, subject: str) -> None:
    composed["Subject"] = _neutralize_encoded_words_in_header(
        masked_formatting.mask_and_shorten_to_one_line(f"[Harness] {subject}", _MAX_SUBJECT_LENGTH)
    )
    composed["From"] = settings.MAIL_FROM
    composed["To"] = to
    composed["Date"] = formatdate()
    composed["Auto-Submitted"] = "auto-generated"


def _neutralize_encoded_words_in_header(text: str) -> str:
    """Break up encoded words in a header text.

    A word such as `=?utf-8?q?=0D=0A…?=` would be decoded, by the library that composes the message or by a mail server,
    and its line breaks would begin new headers.
    """
    return text.replace("=?", "= ?")


def _require_headers_without_line_breaks(email: Message) -> None:
    """Raise `HeaderContainsLineBreak` for a header that would become two; nothing is sent.

    A line that begins with a space or a tab continues the header: Django folds a long one beyond ASCII so.
    """
    for name, value in email.items():
        if _HEADER_END.search(str(value)):
            raise HeaderContainsLineBreak(name)


@contextmanager
def _open_smtp_connection(server: MailServer) -> Iterator[smtplib.SMTP]:
    """Open a connection, and say goodbye at its end.

    A goodbye that the server answers wrongly neither hides the error before it, nor makes a sent message look unsent,
    as `smtplib`'s own context manager does.
    """
    if server.security is Security.TLS:
        tls = ssl.create_default_context()
        connection: smtplib.SMTP = smtplib.SMTP_SSL(server.host, server.port, timeout=_STEP, context=tls)
    else:
        connection = smtplib.SMTP(server.host, server.port, timeout=_STEP)
    try:
        yield connection
    finally:
        with suppress(OSError, smtplib.SMTPException):
            connection.quit()
        connection.close()
