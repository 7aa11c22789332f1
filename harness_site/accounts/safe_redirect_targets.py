"""Validation of user-supplied redirect targets."""

from functools import lru_cache

from django.conf import settings
from django.urls import get_script_prefix, get_urlconf, reverse
from django.utils.http import url_has_allowed_host_and_scheme


def get_safe_redirect(place: str) -> str:
    """Return `place` if it is a path of this site, else the start page."""
    is_safe = place.startswith("/") and url_has_allowed_host_and_scheme(place, allowed_hosts=None)
    return place if is_safe else reverse("harness:home")


def is_path_of_site(path: str) -> bool:
    """Return whether `path` (with the script's prefix) is an address of the site; a project may have others."""
    return path.startswith(_build_home_path(get_script_prefix(), get_urlconf() or settings.ROOT_URLCONF))


@lru_cache(maxsize=16)
def _build_home_path(script_prefix: str, urlconf: object) -> str:
    """Build the path of the site's first page, which every request asks for. The arguments are what it depends on."""
    return reverse("harness:home")
