"""Storage of the reader's choice: in the account, and in the user session, where reading it costs no query."""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.contrib.auth.models import User
from django.http import HttpRequest

from harness_site.core.site_languages import list_languages_to_choose
from harness_site.display.models import DisplayPreference, Theme
from harness_site.display.time_zones import SESSION_KEY as TIME_ZONE_KEY
from harness_site.display.time_zones import is_time_zone_name

#: Key of the chosen theme in the user session.
THEME_KEY: Final = "display_theme"
#: Key of the chosen language in the user session.
LANGUAGE_KEY: Final = "display_language"
#: Key in the user session of whether the next call opens by itself after a decision.
NEXT_CALL_KEY: Final = "display_opens_next_call"


def load_display_choice_into_session(*, request: HttpRequest | None, user: User, **_: Any) -> None:
    """Copy the choice of an account to a new user session."""
    preference = DisplayPreference.objects.filter(user=user).first()
    if request is not None and preference is not None:
        _copy_preference_to_session(request, preference)


def save_display_choice(
    request: HttpRequest, user: User, *, time_zone: str, language: str, theme: str, opens_next_call: bool
) -> None:
    """Save the choice of a user. Other browsers of this user follow at their next sign-in."""
    preference, _ = DisplayPreference.objects.update_or_create(
        user=user,
        defaults={
            "time_zone": time_zone,
            "language": language,
            "theme": theme,
            "opens_next_call": opens_next_call,
        },
    )
    _copy_preference_to_session(request, preference)


def get_account_time_zone_or_utc(user: User | None) -> tzinfo:
    """Return the time zone that a user has chosen, for messages; UTC without a choice."""
    name = DisplayPreference.objects.filter(user=user).values_list("time_zone", flat=True).first() if user else ""
    return ZoneInfo(name) if name and is_time_zone_name(name) else UTC


def get_chosen_theme_or_empty(request: HttpRequest) -> str:
    """Return the chosen theme; empty for that of the system."""
    session = getattr(request, "session", None)
    theme = session.get(THEME_KEY, "") if session is not None else ""
    return theme if theme in Theme.values else ""


def get_chosen_language_or_empty(request: HttpRequest) -> str:
    """Return the code of the chosen language; empty for that of the browser."""
    session = getattr(request, "session", None)
    language = session.get(LANGUAGE_KEY, "") if session is not None else ""
    return language if language in dict(list_languages_to_choose()) else ""


def wants_next_call_opened(request: HttpRequest) -> bool:
    """Return whether the reader wants the next call to open by itself after a decision."""
    return bool(request.session.get(NEXT_CALL_KEY, False))


def _copy_preference_to_session(request: HttpRequest, preference: DisplayPreference) -> None:
    request.session[TIME_ZONE_KEY] = preference.time_zone
    request.session[LANGUAGE_KEY] = preference.language
    request.session[THEME_KEY] = preference.theme
    request.session[NEXT_CALL_KEY] = preference.opens_next_call
