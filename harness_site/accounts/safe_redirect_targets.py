"""Validation of user-supplied redirect targets."""

from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from harness_site.core.cached_urls import list_language_paths_of_page


def get_safe_redirect_path(place: str) -> str:
    """Return `place` if it is a path of this site, else the start page."""
    is_safe = place.startswith("/") and url_has_allowed_host_and_scheme(place, allowed_hosts=None)
    return place if is_safe else reverse("harness:home")


def is_path_below_site_prefix(path: str) -> bool:
    """Return whether `path` (with the script's prefix) is an address of the site; a project may have others."""
    return path.startswith(list_language_paths_of_page("harness:home"))
