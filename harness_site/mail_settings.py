"""Mail server settings from the environment."""

from dataclasses import dataclass, field
from email.utils import parseaddr
from enum import Enum
from typing import Final
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from harness_site import env


class Security(Enum):
    """Transport security of the connection; `CONSOLE` prints messages instead of sending them."""

    PLAIN = "smtp"
    STARTTLS = "smtp+starttls"
    TLS = "smtps"
    CONSOLE = "console"


_PORTS: Final = {Security.PLAIN: 25, Security.STARTTLS: 587, Security.TLS: 465, Security.CONSOLE: 0}


@dataclass(frozen=True)
class MailServer:
    security: Security
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)


def read_mail_server_setting(*, debug: bool) -> MailServer | None:
    """Return the server of HARNESS_EMAIL_URL; without it the console in development, else None.

    Raises `ImproperlyConfigured`, without repeating an address that may hold a password.
    """
    address = env.read_text_setting("HARNESS_EMAIL_URL").strip()
    if not address:
        return MailServer(Security.CONSOLE) if debug else None
    if any(character in address.partition("://")[2].rstrip("/") for character in "/?#"):
        raise ImproperlyConfigured(
            "HARNESS_EMAIL_URL has a /, a ? or a # after its scheme, where its host would end. In a user name or "
            "password write / as %2F, ? as %3F and # as %23. A mail server has no path."
        )
    try:
        parts = urlsplit(address)
        security, port = Security(parts.scheme), parts.port
    except ValueError as error:
        raise _build_invalid_mail_url_error() from error
    if security is not Security.CONSOLE and not parts.hostname:
        raise _build_invalid_mail_url_error()
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return MailServer(security, parts.hostname or "", port or _PORTS[security], user, password)


def read_sender_setting() -> str:
    """Return the sender of HARNESS_EMAIL_FROM, with or without a name; empty without it.

    Raises `ImproperlyConfigured` if it has no address.
    """
    sender = env.read_text_setting("HARNESS_EMAIL_FROM").strip()
    if sender and not all(parseaddr(sender)[1].rpartition("@")):
        raise ImproperlyConfigured(
            f"HARNESS_EMAIL_FROM has no e-mail address: {sender!r}. Write it as Harness <harness@example.org>"
        )
    return sender


def _build_invalid_mail_url_error() -> ImproperlyConfigured:
    schemes = ", ".join(f"{security.value}://" for security in Security)
    return ImproperlyConfigured(
        f"HARNESS_EMAIL_URL is not understood: use one of {schemes} with user:password@host:port."
    )
