"""Which requests the site answers in a project that has pages of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from allauth.account.views import account_inactive
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.urls import URLPattern, URLResolver, clear_url_caches, include, path, set_urlconf

from checkpoints.exceptions import CheckpointCorrupted
from harness_site import security_headers
from harness_site.altered_data_middleware import AlteredDataMiddleware
from harness_site.core import cached_urls
from harness_site.core.distinguish_site_from_project_requests import is_site_request


def show_project_page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("The project.")


project_patterns = [path("prices/", show_project_page), path("inactive/", account_inactive)]
site_pattern = path("", include("harness_site.urls"))


class AtRoot:
    urlpatterns: list[URLPattern | URLResolver] = [*project_patterns, site_pattern]


class BelowPrefix:
    urlpatterns: list[URLPattern | URLResolver] = [
        path("harness/", include(project_patterns)),
        path("harness/", include("harness_site.urls")),
    ]


class WithoutSite:
    urlpatterns: list[URLPattern | URLResolver] = [*project_patterns]


@pytest.fixture(autouse=True)
def project_urls(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Lets a test set `ROOT_URLCONF` to one of the classes above."""
    for urls in (AtRoot, BelowPrefix, WithoutSite):
        monkeypatch.setitem(sys.modules, f"project_{urls.__name__}", urls)
    yield monkeypatch
    monkeypatch.undo()
    forget_urls()


def forget_urls() -> None:
    clear_url_caches()
    set_urlconf(None)
    cached_urls._reverse_url_in_all_languages.cache_clear()
    cached_urls._reverse_url_template_cached.cache_clear()


def use(monkeypatch: pytest.MonkeyPatch, urls: type) -> None:
    monkeypatch.setattr(settings, "ROOT_URLCONF", f"project_{urls.__name__}")
    forget_urls()


@pytest.mark.parametrize(
    ("urls", "address", "expected"),
    [
        (AtRoot, "/review/", True),
        (AtRoot, "/accounts/inactive/", True),
        (AtRoot, "/inactive/", False),
        (AtRoot, "/prices/", False),
        (AtRoot, "/nowhere/", False),
        (BelowPrefix, "/harness/review/", True),
        (BelowPrefix, "/harness/api/v1/sessions", True),
        (BelowPrefix, "/harness/prices/", False),
        (BelowPrefix, "/harness/inactive/", False),
        (BelowPrefix, "/review/", False),
        (WithoutSite, "/prices/", False),
    ],
)
def test_view_decides_whether_the_site_answers(
    project_urls: pytest.MonkeyPatch, urls: type, address: str, expected: bool
) -> None:
    use(project_urls, urls)

    assert is_site_request(RequestFactory().get(address)) is expected


def test_site_by_itself_answers_every_request() -> None:
    assert is_site_request(RequestFactory().get("/nowhere/"))


def test_policy_of_a_project_is_replaced_on_pages_of_the_site_only(project_urls: pytest.MonkeyPatch) -> None:
    use(project_urls, BelowPrefix)
    policy = "default-src 'none'; script-src 'self'"
    answer = security_headers.ContentSecurityPolicyMiddleware(
        lambda request: HttpResponse(headers={"Content-Security-Policy": policy})
    )

    assert answer(RequestFactory().get("/harness/prices/"))["Content-Security-Policy"] == policy
    of_the_site = answer(RequestFactory().get("/harness/review/"))["Content-Security-Policy"]
    assert "style-src 'self'" in of_the_site
    assert "script-src;" in of_the_site


def test_policy_of_a_sandboxed_file_stays() -> None:
    answer = security_headers.ContentSecurityPolicyMiddleware(
        lambda request: HttpResponse(headers={"Content-Security-Policy": security_headers.SANDBOX_POLICY})
    )

    assert answer(RequestFactory().get("/review/"))["Content-Security-Policy"] == security_headers.SANDBOX_POLICY


def test_error_of_the_library_in_a_page_of_the_project_is_left_to_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, AtRoot)
    middleware = AlteredDataMiddleware(show_project_page)
    error = CheckpointCorrupted("s", "a message", "it is no JSON")
    assert middleware.process_exception(RequestFactory().get("/prices/"), error) is None
