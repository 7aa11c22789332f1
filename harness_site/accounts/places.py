"""Addresses of this site, and where a page leads on to that somebody else has named."""

from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme


def inside(place: str) -> str:
    """A place of this site; the start page for anything else."""
    safe = place.startswith("/") and url_has_allowed_host_and_scheme(place, allowed_hosts=None)
    return place if safe else reverse("home")


def belongs_to_site(path: str) -> bool:
    """Return whether `path` (with the script's prefix) is an address of the site; a project may have others."""
    return path.startswith(reverse("home"))
