"""Configuration of Django where a program has no project of its own."""

from __future__ import annotations

import os
import sys
from typing import Any

from checkpoints.exceptions import DjangoMissing

try:
    import django
    from django.apps import apps
    from django.conf import ENVIRONMENT_VARIABLE, settings
    from django.core.exceptions import ImproperlyConfigured
except ImportError as error:
    raise DjangoMissing from error


def ensure_django_configured() -> None:
    """Configure Django unless it is: with the project's settings if there are any, else with this app alone.

    A plain script thus needs no settings; it opens its database by URL. Raises `ImproperlyConfigured` if the settings
    are those of a project that leaves out this app, whose models Django then refuses.
    """
    if not settings.configured and not os.environ.get(ENVIRONMENT_VARIABLE):
        settings.configure(**build_library_settings())
    if not apps.ready and not apps.loading:
        # A program may begin with `checkpoints.models`. Models of other apps import it too, and need the whole module.
        sys.modules.pop("checkpoints.models", None)
        django.setup()
    if apps.ready and not apps.is_installed("checkpoints"):
        raise ImproperlyConfigured(
            'Add "checkpoints" to INSTALLED_APPS. A project needs the app also if it opens its database by URL.'
        )


def build_library_settings(database: dict[str, Any] | None = None) -> dict[str, Any]:
    """Build the Django settings of a program that uses only this library; `database` becomes the default connection."""
    return {
        "DATABASES": {} if database is None else {"default": database},
        "INSTALLED_APPS": ["checkpoints"],
        "USE_TZ": True,
        "TIME_ZONE": "UTC",
        "DEFAULT_AUTO_FIELD": "django.db.models.BigAutoField",
    }
