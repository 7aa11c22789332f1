"""Validation of user-supplied redirect targets."""

from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from harness_site.core.cached_urls import list_page_paths_in_all_languages


def get_safe_redirect_path(place: str) -> str:
    """Return `place` if it is a path of this site, else the start page."""
    is_safe = place.startswith("/") and url_has_allowed_host_and_scheme(place, allowed_hosts=None)
    return place if is_safe else reverse("harness:home")


def is_path_of_site(path: str) -> bool:
    """Return whether `path` (with the script's prefix) is an address of the site; a project may have others."""
    return path.startswith(list_page_paths_in_all_languages("harness:home"))
