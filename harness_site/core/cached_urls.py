"""Paths of pages and static files that every page links to, each computed once per process.

A project may include the site below `i18n_patterns`, where each page has a path for each language.
"""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.templatetags.static import static
from django.urls import get_script_prefix, get_urlconf, reverse
from django.utils import translation


def get_page_path(view_name: str) -> str:
    """Return the path of the page with this URL name, which has no arguments, in the current language."""
    urlconf = get_urlconf() or settings.ROOT_URLCONF
    return _reverse_url_cached(view_name, urlconf, get_script_prefix(), translation.get_language())


def list_page_paths(view_name: str) -> tuple[str, ...]:
    """List the paths of the page with this URL name, which has no arguments: one, or one for each language."""
    return _reverse_url_in_all_languages(view_name, get_urlconf() or settings.ROOT_URLCONF, get_script_prefix())


@cache
def _reverse_url_cached(view_name: str, urlconf: str, _script_prefix: str, _language: str | None) -> str:
    return reverse(view_name, urlconf)


@cache
def _reverse_url_in_all_languages(view_name: str, urlconf: str, _script_prefix: str) -> tuple[str, ...]:
    paths: dict[str, None] = {}
    for language, _name in settings.LANGUAGES:
        with translation.override(language):
            paths[reverse(view_name, urlconf)] = None
    return tuple(paths)


@cache
def get_static_path(path: str) -> str:
    """Return the URL of a static file."""
    return static(path)
