"""Management commands as an operator types them."""

from typing import Final

from django.conf import settings

_OWN_URLS: Final = "harness_site.urls"


def is_standalone_site() -> bool:
    """Return whether this is the site by itself, not a Django project that includes it."""
    return bool(settings.ROOT_URLCONF == _OWN_URLS)


def format_management_command(command: str) -> str:
    """Format a command with its program: `harness migrate`, in a project that includes the site its `manage.py`."""
    return f"harness {command}" if is_standalone_site() else f"python manage.py {command}"
