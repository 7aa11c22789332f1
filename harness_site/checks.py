"""System checks: settings under which this site is not safe."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.cache import caches
from django.core.cache.backends.db import BaseDatabaseCache
from django.core.checks import CheckMessage, Error, register

_JSON = "django.contrib.sessions.serializers.JSONSerializer"
_HINT = "Whoever can write to the database, an agent for example, could run code in this process."


@register
def check_no_pickles(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    """Refuse caches and sessions that would read pickles from a database."""
    found: list[CheckMessage] = [
        Error(f"The cache {alias!r} stores pickles in a database.", hint=_HINT, id="harness.E001")
        for alias in settings.CACHES
        if isinstance(caches[alias], BaseDatabaseCache)
    ]
    if settings.SESSION_SERIALIZER != _JSON:
        found.append(Error("Sessions are not stored as JSON.", hint=_HINT, id="harness.E002"))
    return found
