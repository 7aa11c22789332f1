"""Management commands as an operator types them."""

from typing import Final

from django.conf import settings

from harness_site.env import IS_CHECKOUT

#: URL configuration of the site by itself.
OWN_URLS: Final = "harness_site.urls"


def is_standalone_site() -> bool:
    """Return whether this is the site by itself, not a Django project that includes it."""
    return bool(settings.ROOT_URLCONF == OWN_URLS)


def prefix_management_command_with_program(command: str) -> str:
    """Format a command with its program.

    That is `harness`, as a package installs it. A checkout has no such program, and a project that includes the site
    has settings of its own: there it is `manage.py`.
    """
    return f"harness {command}" if is_standalone_site() and not IS_CHECKOUT else f"python manage.py {command}"
