import pytest
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path

from checkpoints.enums import Role
from checkpoints.exceptions import StorageUnavailable
from harness_site import error_pages, home_and_health_views
from harness_site import urls as site_urls
from tests.support.factories import make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def _fail(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("a secret that stays in the log")


class PoolTimeout(Exception):
    """Stands for the error of psycopg's pool."""


def _lose_database(request: HttpRequest) -> HttpResponse:
    if "library" in request.GET:
        raise StorageUnavailable("The database says: connection refused.", may_have_happened=False)
    if "pool" in request.GET:
        raise OperationalError("couldn't get a connection after 5.00 sec") from PoolTimeout()
    raise OperationalError("a statement of this page took too long")


urlpatterns = [path("fail/", _fail), path("lose/", _lose_database), *site_urls.urlpatterns]
handler500 = site_urls.handler500


@pytest.mark.urls(__name__)
def test_server_error_page_shows_no_secret() -> None:
    client = Client(raise_request_exception=False)
    client.force_login(make_user())
    response = client.get("/fail/")
    assert response.status_code == 500
    assert "Sending it again cannot record it twice." in visible_text(response)
    assert "UTC, /fail/." in visible_text(response)
    assert b"secret" not in response.content


@pytest.mark.urls(__name__)
def test_page_without_a_database_says_what_an_operator_has_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(make_user())
    assert client.get("/lose/").status_code == 500
    assert client.get("/lose/?pool").status_code == 503
    monkeypatch.setattr(error_pages, "does_database_answer", lambda: False)
    for path_ in ("/lose/", "/lose/?library"):
        response = client.get(path_)
        assert (response.status_code, response["Retry-After"]) == (503, "5")
        assert "The database does not answer" in visible_text(response)
        assert "Check that the database server is running" in visible_text(response)
    assert client.get("/fail/").status_code == 500


def test_health_probe_names_a_database_that_does_not_answer(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/health/").json() == {"status": "ok"}
    monkeypatch.setattr(home_and_health_views, "does_database_answer", lambda: False)
    for probe in ("/health/", "/health/ready"):
        response = client.get(probe)
        assert response.status_code == 503
        assert response.json()["problem"] == "database"
    assert client.get("/health/live").status_code == 200


def test_error_page_of_somebody_signed_out_stands_alone(client: Client) -> None:
    page = client.get("/nowhere/").content.decode()
    assert '<nav class="rail"' not in page
    assert 'class="alone"' in page
    client.force_login(make_user())
    assert '<nav class="rail"' in client.get("/nowhere/").content.decode()


def test_not_found_page_has_links(client: Client) -> None:
    client.force_login(make_user())
    response = client.get("/nowhere/")
    assert response.status_code == 404
    assert "This page does not exist, or you have no access to it" in visible_text(response)
    assert "Was anything lost?" not in visible_text(response)
    assert "Find a session" in visible_text(response)


def test_log_has_refused_requests_and_no_mistakes_in_forms(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    client.force_login(make_user(role=Role.ADMIN))

    assert client.post("/accounts/display/", {"time_zone": "Mars/Olympus"}).status_code == 422
    assert client.get("/sessions/999999/").status_code == 404

    assert [record.getMessage() for record in caplog.records] == ["Not Found: /sessions/999999/"]


def test_address_of_a_form_shows_an_error_page_to_browsers_only(client: Client) -> None:
    client.force_login(make_user(role=Role.ADMIN))
    browser, program = (
        client.get("/accounts/secrets/", headers={"Accept": "text/html"}),
        client.get("/accounts/secrets/"),
    )
    for response in (browser, program):
        assert (response.status_code, response["Allow"]) == (405, "POST")
    assert "This address belongs to a form and shows no page" in visible_text(browser)
    assert program.content == b""


def test_address_of_a_form_that_shows_a_secret_leads_to_its_list(client: Client) -> None:
    client.force_login(make_user(role=Role.ADMIN))
    assert client.get("/settings/tokens/create/").headers["Location"] == "/settings/tokens/"
    assert client.get("/settings/invitations/").headers["Location"] == "/settings/members/"
    assert client.get("/settings/notifications/create/").headers["Location"] == "/settings/notifications/"


def test_not_found_page_for_anonymous_users(client: Client) -> None:
    response = client.get("/nowhere/")
    assert response.status_code == 404
    assert "Sign in" in visible_text(response)
    assert "Find a session" not in visible_text(response)


def test_unknown_host_is_refused(client: Client) -> None:
    response = client.get("/review/", headers={"Host": "elsewhere.example"})
    assert response.status_code == 400
    assert "This request is not valid" in visible_text(response)
