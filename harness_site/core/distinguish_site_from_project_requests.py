"""Which requests the site answers, in a project that has pages of its own.

A project may include the site below any prefix, also an empty one, and have pages of its own below that prefix. So
what decides is the view to which a URL resolves, and not its path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Final

from django.conf import settings
from django.conf.urls.i18n import is_language_prefix_patterns_used
from django.http import HttpRequest
from django.urls import NoReverseMatch, Resolver404, URLPattern, URLResolver, resolve
from django.utils import translation

from harness_site.core.cached_urls import list_language_paths_of_page
from harness_site.core.management_command_as_typed import OWN_URLS

#: Attribute of the views of the site.
_ATTRIBUTE: Final = "is_view_of_harness_site"
#: Package whose views a project may serve at addresses of its own, too.
_SHARED: Final = "allauth."


def mark_views_of_site(patterns: Iterable[URLPattern | URLResolver]) -> None:
    """Mark every view below `patterns`; one of django-allauth is marked here, and not where a project serves it."""
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            mark_views_of_site(pattern.url_patterns)
            continue
        if pattern.callback.__module__.startswith(_SHARED):
            pattern.callback = _wrap_view_unchanged(pattern.callback)
        setattr(pattern.callback, _ATTRIBUTE, True)


def is_site_view(view: Callable[..., Any]) -> bool:
    """Return whether a view is one of the site, and its address too."""
    return hasattr(view, _ATTRIBUTE)


def is_site_request(request: HttpRequest) -> bool:
    """Return whether the site answers a request: always when it is served by itself, otherwise if the view is its own.

    The middleware of a project calls this also before Django has resolved the URL.
    """
    urlconf: str = getattr(request, "urlconf", None) or settings.ROOT_URLCONF
    if urlconf == OWN_URLS:
        return True
    if request.resolver_match is not None:
        return is_site_view(request.resolver_match.func)
    if not is_path_below_site_prefix(request.path):
        return False
    try:
        return is_site_view(_resolve_view(request.path_info, urlconf))
    except Resolver404:
        return False


def do_urls_have_language_prefixes(request: HttpRequest) -> bool:
    """Return whether the project includes pages below `i18n_patterns`, where addresses begin with a language."""
    return bool(is_language_prefix_patterns_used(getattr(request, "urlconf", None) or settings.ROOT_URLCONF)[0])


def is_path_below_site_prefix(path: str) -> bool:
    """Return whether `path` (with the script's prefix) is below that of the site, where a project may have others."""
    try:
        return path.startswith(list_language_paths_of_page("harness:home"))
    except NoReverseMatch:  # the URL configuration of this request does not include the site
        return False


def _resolve_view(path: str, urlconf: str) -> Callable[..., Any]:
    if not is_language_prefix_patterns_used(urlconf)[0]:
        return resolve(path, urlconf).func
    # Before `LocaleMiddleware`, the thread has the language of its last page.
    with translation.override(translation.get_language_from_path(path) or settings.LANGUAGE_CODE):
        return resolve(path, urlconf).func


def _wrap_view_unchanged(view: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(view)
    def call_view(*args: Any, **kwargs: Any) -> Any:
        return view(*args, **kwargs)

    return call_view
