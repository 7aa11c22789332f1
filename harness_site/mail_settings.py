"""Mail server settings from the environment."""

from dataclasses import dataclass, field
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
    try:
        parts = urlsplit(address)
        security, port = Security(parts.scheme), parts.port
    except ValueError as error:
        raise _build_invalid_mail_url_error() from error
    if security is not Security.CONSOLE and not parts.hostname:
        raise _build_invalid_mail_url_error()
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return MailServer(security, parts.hostname or "", port or _PORTS[security], user, password)


def _build_invalid_mail_url_error() -> ImproperlyConfigured:
    schemes = ", ".join(f"{security.value}://" for security in Security)
    return ImproperlyConfigured(
        f"HARNESS_EMAIL_URL is not understood: use one of {schemes} with user:password@host:port."
    )
