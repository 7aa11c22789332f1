"""Time zone of the reader of a page: chosen in the account, else named by the browser, else UTC."""

from __future__ import annotations

from datetime import UTC, tzinfo
from functools import cache
from typing import Final
from urllib.parse import unquote
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest

#: Cookie in which a script of the pages (`time_zone.js`) names the time zone of the browser.
COOKIE: Final = "harness_zone"
#: Key of the chosen time zone in the user session.
SESSION_KEY: Final = "display_time_zone"


@cache
def list_time_zones() -> tuple[str, ...]:
    """List the names of all time zones, without aliases that are no place."""
    places = sorted(name for name in available_timezones() if "/" in name and not name.startswith("Etc/"))
    return ("UTC", *places)


@cache
def _get_all_time_zone_names() -> frozenset[str]:
    # With the aliases: browsers report old names such as Asia/Calcutta.
    return frozenset(available_timezones()) | {"UTC"}


def is_time_zone(name: str) -> bool:
    return name in _get_all_time_zone_names()


def get_reader_time_zone(request: HttpRequest) -> tzinfo:
    """Return the time zone for the times of a response; a name that does not exist counts as none."""
    session = getattr(request, "session", None)
    chosen = str(session.get(SESSION_KEY, "")) if session is not None else ""
    for name in (chosen, get_browser_time_zone(request)):
        if name and is_time_zone(name):
            return UTC if name == "UTC" else ZoneInfo(name)
    return UTC


def get_browser_time_zone(request: HttpRequest) -> str:
    """Return the name that the browser gave; empty if it gave none that exists."""
    name = unquote(request.COOKIES.get(COOKIE, ""))[:64]
    return name if is_time_zone(name) else ""
