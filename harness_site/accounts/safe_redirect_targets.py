"""Validation of user-supplied redirect targets."""

from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme


def get_safe_redirect_path(place: str) -> str:
    """Return `place` if it is a path of this site, else the start page."""
    is_safe = place.startswith("/") and url_has_allowed_host_and_scheme(place, allowed_hosts=None)
    return place if is_safe else reverse("harness:home")
