"""Time zone of the reader of a page: chosen in the account, else named by the browser, else UTC."""

from __future__ import annotations

from datetime import UTC, tzinfo
from functools import cache
from typing import Final
from urllib.parse import unquote
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest

from harness_site.core.similar_words import find_most_similar_word_or_empty

#: Cookie in which a script of the pages (`time_zone.js`) names the time zone of the browser.
COOKIE: Final = "harness_zone"
#: Key of the chosen time zone in the user session.
SESSION_KEY: Final = "display_time_zone"


@cache
def list_time_zone_names_without_aliases() -> tuple[str, ...]:
    """List the names of all time zones, without aliases that are no place."""
    places = sorted(name for name in available_timezones() if "/" in name and not name.startswith("Etc/"))
    return ("UTC", *places)


@cache
def _get_time_zone_names_with_aliases() -> frozenset[str]:
    # With the aliases: browsers report old names such as Asia/Calcutta.
    return frozenset(available_timezones()) | {"UTC"}


@cache
def _map_normalized_to_zone_names() -> dict[str, str]:
    return {_normalize_time_zone_name(name): name for name in sorted(_get_time_zone_names_with_aliases())}


def _normalize_time_zone_name(name: str) -> str:
    """Build a form of a name that is equal for every letter case, and for blanks instead of underscores."""
    return "_".join(name.casefold().split())


def is_time_zone_name(name: str) -> bool:
    return name in _get_time_zone_names_with_aliases()


def find_time_zone_name_or_empty(text: str) -> str:
    """Return the canonical name of a time zone that is written in any letter case; empty if there is none."""
    return _map_normalized_to_zone_names().get(_normalize_time_zone_name(text), "")


def suggest_time_zone_name(text: str) -> str:
    """Return the name of the zone that a misspelt name, or a city alone, most likely means; empty if none is near."""
    key = _normalize_time_zone_name(text)
    cities: dict[str, str] = {}
    for name in list_time_zone_names_without_aliases():
        cities.setdefault(_normalize_time_zone_name(name).rpartition("/")[2], name)
    if city := find_most_similar_word_or_empty(key.rpartition("/")[2], cities):
        return cities[city]
    names = map(_normalize_time_zone_name, list_time_zone_names_without_aliases())
    return find_time_zone_name_or_empty(find_most_similar_word_or_empty(key, names))


def get_reader_time_zone(request: HttpRequest) -> tzinfo:
    """Return the time zone for the times of a response; a name that does not exist counts as none."""
    session = getattr(request, "session", None)
    chosen = str(session.get(SESSION_KEY, "")) if session is not None else ""
    for name in (chosen, get_browser_time_zone_name_or_empty(request)):
        if name and is_time_zone_name(name):
            return UTC if name == "UTC" else ZoneInfo(name)
    return UTC


def get_browser_time_zone_name_or_empty(request: HttpRequest) -> str:
    """Return the name that the browser gave; empty if it gave none that exists."""
    name = unquote(request.COOKIES.get(COOKIE, ""))[:64]
    return name if is_time_zone_name(name) else ""
