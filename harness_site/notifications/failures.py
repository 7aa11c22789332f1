"""Why a message could not be sent, in words for who can do something about it."""

import http.client
import smtplib
import socket
import ssl
from typing import Final

from harness_site.notifications.mails import NoMailServer
from harness_site.notifications.posting import AddressRefused

_LONGEST: Final = 500
#: The first that fits; what fits none is told as it is.
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


def said(error: Exception) -> str:
    """One sentence."""
    text = str(error)
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return (words.format(text) if words else text)[:_LONGEST]
    return f"{type(error).__name__}: {text}"[:_LONGEST]
