"""Where a page leads on to that somebody else has named."""

from django.utils.http import url_has_allowed_host_and_scheme


def inside(place: str) -> str:
    """A place of this site; the start page for anything else."""
    safe = place.startswith("/") and url_has_allowed_host_and_scheme(place, allowed_hosts=None)
    return place if safe else "/"
