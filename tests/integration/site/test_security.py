"""Security headers, cookies and request limits."""

import re

import pytest
from django.conf import settings
from django.test import Client

from tests.support.factories import PASSWORD, make_call, make_run, make_session, make_user

pytestmark = pytest.mark.django_db

POLICY = {
    "base-uri 'none'",
    "connect-src 'self'",
    "default-src 'self'",
    "font-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "img-src 'self'",
    "media-src 'self'",
    "object-src 'none'",
    "style-src 'self'",
}


@pytest.fixture
def pages(client: Client) -> list[str]:
    client.force_login(make_user())
    session = make_session()
    make_run(session=session)
    call = make_call(session=session, verifiable=True)
    places = ["/review/", "/review/?tab=decided", f"/review/calls/{call.pk}/", "/nowhere/"]
    return [client.get(place).content.decode() for place in places] + [
        Client().get("/accounts/login/").content.decode()
    ]


def test_headers_of_a_page(client: Client) -> None:
    response = client.get("/accounts/login/")
    nonce = re.findall(r'nonce="([^"]+)"', response.content.decode())[0]
    assert set(response.headers["Content-Security-Policy"].split("; ")) == {*POLICY, f"script-src 'nonce-{nonce}'"}
    assert response.headers["X-Frame-Options"] == "DENY"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "same-origin"
    assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "no-store" in response.headers["Cache-Control"]


def test_pages_are_not_cached(client: Client) -> None:
    client.force_login(make_user())
    assert client.get("/review/").headers["Cache-Control"] == "private, no-store"


def test_pages_have_no_inline_code(pages: list[str]) -> None:
    for page in pages:
        assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
        assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", page) == []


def test_every_script_has_the_nonce(pages: list[str]) -> None:
    for page in pages:
        scripts = re.findall(r"<script[^>]*>", page)
        nonces = {found for script in scripts for found in re.findall(r'nonce="([^"]+)"', script)}
        assert len(scripts) >= 3
        assert all("nonce=" in script for script in scripts)
        assert len(nonces) == 1


def test_nonce_is_used_once(client: Client) -> None:
    first, second = (re.findall(r'nonce="([^"]+)"', client.get("/accounts/login/").content.decode()) for _ in "ab")
    assert set(first) & set(second) == set()


def test_no_resource_of_another_host(pages: list[str]) -> None:
    for page in pages:
        assert re.findall(r"""(?:src|href|action|hx-\w+)=["'](?:https?:)?//""", page) == []


def test_cookies_are_same_site_and_http_only(client: Client) -> None:
    user = make_user(name="alice")
    user.set_password(PASSWORD)
    user.save()
    response = client.post("/accounts/login/", {"username": "alice", "password": PASSWORD})
    cookie = response.cookies[settings.SESSION_COOKIE_NAME]
    assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")


def test_too_large_form_is_refused(client: Client) -> None:
    client.force_login(make_user())
    body = "x" * (settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
    for path in ("/audit/verify/", "/accounts/workspace/"):
        assert client.post(path, body, content_type="application/x-www-form-urlencoded").status_code == 400


def test_form_with_too_many_fields_is_refused(client: Client) -> None:
    client.force_login(make_user())
    fields = {f"f{number}": "x" for number in range(settings.DATA_UPLOAD_MAX_NUMBER_FIELDS + 1)}
    assert client.post("/accounts/workspace/", fields).status_code == 400


def test_static_files_are_served(client: Client) -> None:
    response = client.get("/static/css/tokens.css")
    assert response.status_code == 200
    response.close()
