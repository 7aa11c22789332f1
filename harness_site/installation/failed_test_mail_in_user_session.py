"""The newest test message of an admin that the mail server did not accept, kept in the login session for an hour.

It is a hint about that test: the installation may send other messages, or the address of the test may be wrong.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import gettext as _

from checkpoints.db import clock
from harness_site.core import formatting
from harness_site.core.datetime_parameters import parse_utc_datetime_or_none
from harness_site.mail_settings import MailServer
from harness_site.notifications.record_mail_server_acceptance import format_server_address

_KEY: Final = "failed_mail_test"
_LIFETIME: Final = timedelta(hours=1)


def remember_failed_mail_test(request: HttpRequest, reason: str) -> None:
    server: MailServer | None = settings.MAIL_SERVER
    if server is not None:
        at = formatting.format_iso_time(clock.now())
        request.session[_KEY] = {"at": at, "server": format_server_address(server), "reason": reason}


def forget_failed_mail_test(request: HttpRequest) -> None:
    request.session.pop(_KEY, None)


def format_failed_mail_test(request: HttpRequest) -> str:
    """Say when the test message was not sent, and why; empty without one of the last hour to the configured server."""
    failed_test, server = request.session.get(_KEY), settings.MAIL_SERVER
    if failed_test is None or server is None or failed_test["server"] != format_server_address(server):
        return ""
    at = parse_utc_datetime_or_none(failed_test["at"])
    if at is None or at < clock.now() - _LIFETIME:
        return ""
    values = {"time": formatting.format_iso_date_and_time_with_zone(at), "reason": failed_test["reason"]}
    return _("The test message of %(time)s was not sent. %(reason)s") % values
