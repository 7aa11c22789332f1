"""Descriptions of the errors of mail servers and connections, in sentences: what happened, and what to do."""

from __future__ import annotations

import logging
import re
import smtplib
import socket
import ssl
from typing import Final

from django.utils import translation
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from harness_site.core.translatable_stored_sentence import StoredSentence
from harness_site.send_email import HeaderContainsLineBreak, NoMailServer

logger = logging.getLogger(__name__)

_MAX_ERROR_LENGTH: Final = 500
#: Answer of a server that relays mail only after a login, or only over an encrypted connection.
_LOGIN_WANTED: Final = 530

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
