"""Whether the configured mail server has accepted a message: settings alone do not show that it does."""

from __future__ import annotations

from django.conf import settings

from harness_site.mail_settings import MailServer
from harness_site.notifications.models import AcceptingMailServer


def remember_mail_server_as_accepting(**_signal: object) -> None:
    """Record that the configured server has accepted a message; receiver of `mail_accepted`."""
    server: MailServer | None = settings.MAIL_SERVER
    if server is not None:
        AcceptingMailServer.objects.get_or_create(address=format_server_address(server))


def has_mail_server_accepted_message() -> bool:
    """Return whether the configured mail server has accepted a message. One row is read by its index."""
    server: MailServer | None = settings.MAIL_SERVER
    return server is not None and AcceptingMailServer.objects.filter(address=format_server_address(server)).exists()


def format_server_address(server: MailServer) -> str:
    return f"{server.host}:{server.port}"
