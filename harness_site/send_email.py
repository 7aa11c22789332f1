"""Sending of composed e-mails through the configured mail server, and descriptions of what went wrong."""

from __future__ import annotations

import logging
import re
import smtplib
import socket
import ssl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from email.message import EmailMessage, Message
from email.utils import formatdate
from typing import Final

from django.conf import settings
from django.dispatch import Signal
from django.utils import translation
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from harness_site.core import masked_formatting
from harness_site.core.translatable_stored_sentence import StoredSentence
from harness_site.mail_settings import MailServer, Security

logger = logging.getLogger(__name__)

#: Sent after the mail server has accepted a message.
mail_accepted: Final = Signal()

#: Timeout of each SMTP step in seconds.
_STEP: Final = 10.0
_MAX_SUBJECT_LENGTH: Final = 160
_MAX_ERROR_LENGTH: Final = 500
#: Answer of a server that relays mail only after a login, or only over an encrypted connection.
_LOGIN_WANTED: Final = 530


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

#: The first matching class decides. `%(answer)s` is the text of the error.
_DESCRIPTIONS: Final[tuple[tuple[type[Exception], str | Promise], ...]] = (
    (
        smtplib.SMTPAuthenticationError,
        gettext_lazy("The mail server refused the user name and password. Check them in HARNESS_EMAIL_URL."),
    ),
    (
        smtplib.SMTPRecipientsRefused,
        gettext_lazy("The mail server refused the recipient. Check the address: %(answer)s"),
    ),
    (
        smtplib.SMTPSenderRefused,
        gettext_lazy("The mail server refused the sender. Set HARNESS_EMAIL_FROM to an address it accepts: %(answer)s"),
    ),
    (
        smtplib.SMTPNotSupportedError,
        gettext_lazy("The mail server does not support this kind of connection. Try smtps:// in HARNESS_EMAIL_URL."),
    ),
    (
        smtplib.SMTPServerDisconnected,
        gettext_lazy("The mail server closed the connection. Check scheme and port in HARNESS_EMAIL_URL."),
    ),
    (smtplib.SMTPException, gettext_lazy("The mail server refused the message: %(answer)s")),
    (
        UnicodeError,
        gettext_lazy(
            "The mail server cannot take letters beyond ASCII here. Check the user name and password in "
            "HARNESS_EMAIL_URL, and the address."
        ),
    ),
    (
        ssl.SSLCertVerificationError,
        gettext_lazy(
            "The server's certificate is not trusted. Use the host name that the certificate is for. If your own "
            "authority has signed it, name its file in SSL_CERT_FILE: %(answer)s"
        ),
    ),
    (
        ssl.SSLError,
        gettext_lazy("No secure connection could be made. Check the scheme and the port: %(answer)s"),
    ),
    (socket.gaierror, gettext_lazy("The host name does not exist. Check the spelling.")),
    (ConnectionRefusedError, gettext_lazy("The server refused the connection. Check host and port.")),
    (TimeoutError, gettext_lazy("The server did not answer in time. Check host, port and firewall.")),
    (ConnectionError, gettext_lazy("The connection was lost before an answer came.")),
    (OSError, gettext_lazy("No connection could be made. Check host, port and firewall: %(answer)s")),
)
#: Sentences for answers that need another remedy than their class says. The first one that fits decides.
_ANSWERS: Final[tuple[tuple[re.Pattern[str], str | Promise], ...]] = (
    (
        re.compile(r"5\d\d .*(STARTTLS|encryption required|must.*TLS)|538 ", re.IGNORECASE | re.DOTALL),
        gettext_lazy("The mail server wants an encrypted connection. Use smtp+starttls:// in HARNESS_EMAIL_URL."),
    ),
    (
        re.compile(r"534 ", re.IGNORECASE),
        gettext_lazy(
            "The mail server does not accept this kind of password. Create a password for applications there, and put "
            "it into HARNESS_EMAIL_URL: %(answer)s"
        ),
    ),
    (
        re.compile(r"5\d\d .*\brelay", re.IGNORECASE | re.DOTALL),
        gettext_lazy(
            "The mail server does not pass messages on to this address. Put a user name and password into "
            "HARNESS_EMAIL_URL, or allow this machine to send through that server: %(answer)s"
        ),
    ),
    (
        re.compile("SMTPUTF8"),
        gettext_lazy("The mail server does not take addresses with letters beyond ASCII. Use another address."),
    ),
    (
        re.compile("AUTH extension|No suitable authentication"),
        gettext_lazy(
            "The mail server takes no user name and password over this connection. Use smtp+starttls:// or smtps:// "
            "in HARNESS_EMAIL_URL, or leave user name and password out."
        ),
    ),
    (
        re.compile("timed out"),
        gettext_lazy("The mail server did not answer in time. Check host, port and firewall."),
    ),
    (
        re.compile(r"4\d\d "),
        gettext_lazy("The mail server cannot take the message now. Try again in some minutes: %(answer)s"),
    ),
)


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


def describe_connection_error(error: Exception) -> str:
    """Describe an error of a mail server or a connection in sentences: what happened, and what to do."""
    return str(build_connection_error_sentence(error))[:_MAX_ERROR_LENGTH]


def build_connection_error_sentence(error: Exception) -> StoredSentence:
    """Do what `describe_connection_error` does, for a description that is stored."""
    code, answer = _parse_server_answer(error)
    if isinstance(error, NoMailServer | HeaderContainsLineBreak):
        return StoredSentence.build(error.args[0])
    description = _find_mail_error_description(error, code, answer)
    if description is None:
        return StoredSentence.build("%(error)s", error=f"{type(error).__name__}: {answer}"[:_MAX_ERROR_LENGTH])
    # The server's own words end the sentence, and others may follow it.
    return StoredSentence.build(description, answer=f"{answer[:_MAX_ERROR_LENGTH].rstrip().rstrip('.')}.")


def log_mail_error(message_name: str, error: Exception) -> None:
    """Log in one line that a message was not sent, why, and what to do."""
    with translation.override("en"):
        logger.warning("%s was not sent. %s", message_name, describe_connection_error(error))


def _find_mail_error_description(error: Exception, code: int, answer: str) -> str | Promise | None:
    if isinstance(error, smtplib.SMTPException):
        for pattern, description in _ANSWERS:
            if pattern.match(answer) or (not code and pattern.search(answer)):
                return description
        if code == _LOGIN_WANTED:
            return gettext_lazy(
                "The mail server wants a user name and password. Put them into HARNESS_EMAIL_URL, before the @ and the "
                "host, and use smtp+starttls:// or smtps://."
            )
    return next((description for kind, description in _DESCRIPTIONS if isinstance(error, kind)), None)


def _parse_server_answer(error: Exception) -> tuple[int, str]:
    """Return the code of a mail server's answer, 0 if there is none, and the answer or the error as text."""
    code: int
    answer: bytes | str
    if isinstance(error, smtplib.SMTPRecipientsRefused) and error.recipients:
        code, answer = next(iter(error.recipients.values()))
    elif isinstance(error, smtplib.SMTPResponseException):
        code, answer = error.smtp_code, error.smtp_error
    else:
        return 0, str(error)
    text = answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer)
    return code, f"{code} {' '.join(text.split())}"


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
