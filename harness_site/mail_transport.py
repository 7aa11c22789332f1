"""Sending of composed e-mails through the configured mail server, and descriptions of what went wrong."""

from __future__ import annotations

import smtplib
import socket
import ssl
import sys
from email.message import EmailMessage
from email.utils import formatdate
from typing import Final

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from harness_site.core import formatting
from harness_site.mail_settings import MailServer, Security

#: Timeout of each SMTP step in seconds.
_STEP: Final = 10.0
_MAX_SUBJECT_LENGTH: Final = 160
_MAX_ERROR_LENGTH: Final = 500
#: Answer of a server that relays mail only after a login, or only over an encrypted connection.
_LOGIN_WANTED: Final = 530


class NoMailServer(Exception):
    """Sending was asked for, but HARNESS_EMAIL_URL is not set."""

    def __init__(self) -> None:
        super().__init__(_("No mail server is set. Set HARNESS_EMAIL_URL and restart the site."))


class HeaderContainsLineBreak(ValueError):
    """Refusal of a message with a line break in a header."""

    def __init__(self, name: str) -> None:
        super().__init__(
            _("The header %(name)s of the message contains a line break. Nothing was sent.") % {"name": name}
        )


#: Errors that sending a message may raise.
MAIL_ERRORS: Final = (OSError, smtplib.SMTPException, NoMailServer, HeaderContainsLineBreak)

#: The first matching class decides. `%(answer)s` is the text of the error.
_DESCRIPTIONS: Final[tuple[tuple[type[Exception], str | Promise], ...]] = (
    (
        smtplib.SMTPAuthenticationError,
        gettext_lazy("The mail server refused the user name and password. Check them in HARNESS_EMAIL_URL."),
    ),
    (smtplib.SMTPRecipientsRefused, gettext_lazy("The mail server refused the recipient: %(answer)s")),
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
        ssl.SSLCertVerificationError,
        gettext_lazy("The server's certificate is not trusted: %(answer)s"),
    ),
    (ssl.SSLError, gettext_lazy("No secure connection could be made: %(answer)s")),
    (socket.gaierror, gettext_lazy("The host name does not exist. Check the spelling.")),
    (ConnectionRefusedError, gettext_lazy("The server refused the connection. Check host and port.")),
    (TimeoutError, gettext_lazy("The server did not answer in time. Check host, port and firewall.")),
    (ConnectionError, gettext_lazy("The connection was lost before an answer came.")),
)


def is_mail_configured() -> bool:
    """Return whether this installation can send e-mail."""
    return settings.MAIL_SERVER is not None


def send_email_through_server(composed: EmailMessage, leads_to: str) -> None:
    """Send a message, and return when the server has accepted it.

    In development the subject and the link `leads_to` may be printed instead. Raises one of `MAIL_ERRORS`.
    """
    server: MailServer | None = settings.MAIL_SERVER
    if server is None:
        raise NoMailServer
    _require_headers_without_line_breaks(composed)
    if server.security is Security.CONSOLE:
        print(f"E-mail to {composed['To']}: {composed['Subject']}\n{leads_to}", file=sys.stderr)
        return
    with _open_smtp_connection(server) as connection:
        if server.security is Security.STARTTLS:
            connection.starttls(context=ssl.create_default_context())
        if server.user:
            connection.login(server.user, server.password)
        connection.send_message(composed)


def set_email_headers(composed: EmailMessage, *, to: str, subject: str) -> None:
    composed["Subject"] = _break_encoded_words_in_header(
        formatting.shorten_to_one_line(f"[Harness] {subject}", _MAX_SUBJECT_LENGTH)
    )
    composed["From"] = settings.MAIL_FROM
    composed["To"] = to
    composed["Date"] = formatdate()
    composed["Auto-Submitted"] = "auto-generated"


def describe_connection_error(error: Exception) -> str:
    """Describe an error of a mail server or a connection in a sentence; unknown ones by their type."""
    code, answer = _parse_server_answer(error)
    if code == _LOGIN_WANTED and not isinstance(error, smtplib.SMTPAuthenticationError):
        if "STARTTLS" in answer.upper():
            return _("The mail server wants an encrypted connection. Use smtp+starttls:// in HARNESS_EMAIL_URL.")
        return _(
            "The mail server wants a user name and password. Set HARNESS_EMAIL_URL with them: "
            "smtp+starttls://user:password@host:587"
        )
    for kind, description in _DESCRIPTIONS:
        if isinstance(error, kind):
            return (str(description) % {"answer": answer})[:_MAX_ERROR_LENGTH]
    is_sentence = isinstance(error, NoMailServer | HeaderContainsLineBreak)
    return (answer if is_sentence else f"{type(error).__name__}: {answer}")[:_MAX_ERROR_LENGTH]


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
    return code, f"{code} {text}"


def _break_encoded_words_in_header(text: str) -> str:
    """Break up encoded words in a header text.

    A word such as `=?utf-8?q?=0D=0A…?=` would be decoded, by the library that composes the message or by a mail server,
    and its line breaks would begin new headers.
    """
    return text.replace("=?", "= ?")


def _require_headers_without_line_breaks(email: EmailMessage) -> None:
    """Raise `HeaderContainsLineBreak` for a header that would become two; nothing is sent."""
    for name, value in email.items():
        if "\r" in str(value) or "\n" in str(value):
            raise HeaderContainsLineBreak(name)


def _open_smtp_connection(server: MailServer) -> smtplib.SMTP:
    if server.security is Security.TLS:
        return smtplib.SMTP_SSL(server.host, server.port, timeout=_STEP, context=ssl.create_default_context())
    return smtplib.SMTP(server.host, server.port, timeout=_STEP)
