"""Descriptions of delivery errors for admins."""

import http.client
import smtplib
import socket
import ssl
from typing import Final

from harness_site.notifications.emails import NoMailServer
from harness_site.notifications.safe_http import AddressRefused

_LONGEST: Final = 500
#: The first matching class decides; other errors are described by their type and text.
_WORDS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (AddressRefused, ""),
    (NoMailServer, ""),
    (smtplib.SMTPAuthenticationError, "The mail server does not take the name and the password of HARNESS_EMAIL_URL."),
    (smtplib.SMTPRecipientsRefused, "The mail server does not take this address: {}"),
    (smtplib.SMTPException, "The mail server did not take it: {}"),
    (ssl.SSLCertVerificationError, "The certificate there is not one to trust: {}"),
    (ssl.SSLError, "No secure connection could be made: {}"),
    (socket.gaierror, "There is no such host name."),
    (ConnectionRefusedError, "Nobody listens there."),
    (TimeoutError, "No answer came in time."),
    (ConnectionError, "The connection was lost before an answer came."),
    (http.client.HTTPException, "The answer was not HTTP: {}"),
)


def format_delivery_error(error: Exception) -> str:
    """Describe a delivery error in one sentence."""
    text = str(error)
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return (words.format(text) if words else text)[:_LONGEST]
    return f"{type(error).__name__}: {text}"[:_LONGEST]
