import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path

from harness_site import urls as site_urls
from tests.support.factories import make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def _fail(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("a secret that stays in the log")


urlpatterns = [path("fail/", _fail), *site_urls.urlpatterns]
handler500 = site_urls.handler500


@pytest.mark.urls(__name__)
def test_server_error_page_shows_no_secret() -> None:
    client = Client(raise_request_exception=False)
    client.force_login(make_user())
    response = client.get("/fail/")
    assert response.status_code == 500
    assert "Sending it again cannot record it twice." in visible_text(response)
    assert b"secret" not in response.content


def test_not_found_page_has_links(client: Client) -> None:
    client.force_login(make_user())
    response = client.get("/nowhere/")
    assert response.status_code == 404
    assert "This page does not exist, or you have no access to it" in visible_text(response)
    assert "Find a session" in visible_text(response)


def test_not_found_page_for_anonymous_users(client: Client) -> None:
    response = client.get("/nowhere/")
    assert response.status_code == 404
    assert "Sign in" in visible_text(response)
    assert "Find a session" not in visible_text(response)


def test_unknown_host_is_refused(client: Client) -> None:
    response = client.get("/review/", headers={"Host": "elsewhere.example"})
    assert response.status_code == 400
    assert "This request is not valid" in visible_text(response)
