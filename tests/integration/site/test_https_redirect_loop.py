"""A redirect to HTTPS that would lead to itself is replaced by what the proxy or the site lacks."""

import pytest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.security import SecurityMiddleware
from django.test import RequestFactory
from pytest_django.fixtures import Settings

from harness_site.https_redirect_loop_middleware import HttpsRedirectLoopMiddleware

MISSING = "this request came without X-Forwarded-Proto"
NOT_TRUSTED = "Start the site with HARNESS_BEHIND_PROXY=1."


def answer_page(request: HttpRequest) -> HttpResponseBase:
    return HttpResponse("page")


@pytest.mark.parametrize(
    ("is_trusted", "proto", "status", "words"),
    [
        (True, "https", 200, "page"),
        (True, "http", 301, ""),
        (True, None, 500, MISSING),
        (False, "https", 500, NOT_TRUSTED),
        (False, "http", 301, ""),
        (False, None, 301, ""),
    ],
)
def test_loop_is_explained(
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
    is_trusted: bool,
    proto: str | None,
    status: int,
    words: str,
) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.BEHIND_PROXY = is_trusted
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if is_trusted else None
    site = HttpsRedirectLoopMiddleware(SecurityMiddleware(answer_page))  # type: ignore[arg-type]
    headers = {} if proto is None else {"X-Forwarded-Proto": proto}
    for _ in range(2):
        response = site(RequestFactory().get("/sessions/", headers=headers))
        assert isinstance(response, HttpResponse)
        assert (response.status_code, words in response.content.decode()) == (status, True)
        assert hasattr(response, "_has_been_logged") is (status == 500), "Django logs no line for each request"
    assert len(caplog.messages) == (status == 500), "the log gets one line"


def test_explanation_is_in_the_language_of_the_browser(settings: Settings) -> None:
    settings.SECURE_SSL_REDIRECT, settings.BEHIND_PROXY = True, True
    site = HttpsRedirectLoopMiddleware(SecurityMiddleware(answer_page))  # type: ignore[arg-type]
    response = site(RequestFactory().get("/", headers={"Accept-Language": "de"}))
    assert isinstance(response, HttpResponse)
    assert "ohne X-Forwarded-Proto" in response.content.decode()
