"""Paths of pages and static files that every page links to, each computed once per process.

A project may include the site below `i18n_patterns`, where each page has a path for each language.
"""

from __future__ import annotations

from functools import cache
from typing import Final, TypeAlias

from django.conf import settings
from django.templatetags.static import static
from django.urls import get_script_prefix, get_urlconf, reverse
from django.utils import translation

#: Module of the URLs, prefix of all paths, and language.
UrlContext: TypeAlias = tuple[str, str, str | None]
#: Key that a reversed URL has in place of the first one that is filled in. No other part of a path is such a number.
_FIRST_PLACEHOLDER: Final = 10**17


def get_page_path(view_name: str, *keys: int) -> str:
    """Return the path of the page with this URL name in the current language.

    Args:
        view_name: Name of the URL with its namespace.
        keys: Arguments of the URL: primary keys, or none.
    """
    return build_page_path(get_urlconf_prefix_and_language(), view_name, *keys)


def get_urlconf_prefix_and_language() -> UrlContext:
    """Return what the paths of pages depend on. Finding it takes most of the time of finding the path of a page."""
    return get_urlconf() or settings.ROOT_URLCONF, get_script_prefix(), translation.get_language()


def build_page_path(url_context: UrlContext, view_name: str, *keys: int) -> str:
    """Return what `get_page_path` does, for what `get_urlconf_prefix_and_language` has returned."""
    path = _reverse_url_template_cached(view_name, len(keys), *url_context)
    return path.format(*keys) if keys else path


def list_language_paths_of_page(view_name: str) -> tuple[str, ...]:
    """List the paths of the page with this URL name, which has no arguments: one, or one for each language."""
    return _reverse_url_in_all_languages(view_name, get_urlconf() or settings.ROOT_URLCONF, get_script_prefix())


@cache
def _reverse_url_template_cached(
    view_name: str, number_of_keys: int, urlconf: str, _script_prefix: str, _language: str | None
) -> str:
    """Return the path of a page; with keys, a template of `str.format` for it."""
    placeholders = range(_FIRST_PLACEHOLDER, _FIRST_PLACEHOLDER + number_of_keys)
    path = reverse(view_name, urlconf, args=placeholders)
    for place, placeholder in enumerate(placeholders):
        path = path.replace(str(placeholder), f"{{{place}:d}}")
    return path


@cache
def _reverse_url_in_all_languages(view_name: str, urlconf: str, _script_prefix: str) -> tuple[str, ...]:
    paths: dict[str, None] = {}
    # That of the project may have paths without a prefix, and be none of the list: en-us beside en.
    for language in (settings.LANGUAGE_CODE, *dict(settings.LANGUAGES)):
        with translation.override(language):
            paths[reverse(view_name, urlconf)] = None
    return tuple(paths)


@cache
def get_static_url(path: str) -> str:
    """Return the URL of a static file."""
    return static(path)
