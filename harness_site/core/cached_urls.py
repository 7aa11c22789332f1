"""Paths of pages and static files that every page links to, each computed once per process."""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.templatetags.static import static
from django.urls import get_script_prefix, get_urlconf, reverse


def get_page_path(view_name: str) -> str:
    """Return the path of the page with this URL name, which has no arguments."""
    return _reverse_url_cached(view_name, get_urlconf() or settings.ROOT_URLCONF, get_script_prefix())


@cache
def _reverse_url_cached(view_name: str, urlconf: str, _script_prefix: str) -> str:
    return reverse(view_name, urlconf)


@cache
def get_static_path(path: str) -> str:
    """Return the URL of a static file."""
    return static(path)
