"""Pages for developers of the site."""

import json
from typing import Any

import pytest
from django.http import Http404
from django.test import Client
from django.urls import include, path, resolve

from harness_site import urls as site_urls
from harness_site.csp_violation_reports import views
from tests.integration.site.test_settings import shown
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db
urlpatterns = [path("development/", include("harness_site.csp_violation_reports.urls")), *site_urls.urlpatterns]
REPORT = {
    "csp-report": {
        "document-uri": "http://127.0.0.1:8000/review/",
        "effective-directive": "script-src-elem",
        "blocked-uri": "inline",
        "source-file": "http://127.0.0.1:8000/review/",
        "line-number": 7,
    }
}


@pytest.fixture(autouse=True)
def clear_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_breaches", type(views._breaches)(maxlen=3))


def send(client: Client, body: Any) -> int:
    text = body if isinstance(body, str) else json.dumps(body)
    return client.post("/development/policy/report/", text, content_type="application/csp-report").status_code


@pytest.mark.urls(__name__)
def test_csp_violation_is_shown(client: Client) -> None:
    assert send(Client(enforce_csrf_checks=True), REPORT) == 204
    page = visible_text(client.get("/development/policy/"))
    assert "script-src-elem blocked inline" in page
    assert "on http://127.0.0.1:8000/review/, from http://127.0.0.1:8000/review/:7" in page


@pytest.mark.urls(__name__)
@pytest.mark.parametrize("body", ["", "junk", "[]", "1", "{}", '{"csp-report": 1}', '{"csp-report": []}'])
def test_unreadable_report_is_dropped(client: Client, body: str) -> None:
    assert send(client, body) == 400
    assert "No violation has been reported." in visible_text(client.get("/development/policy/"))


@pytest.mark.urls(__name__)
def test_only_the_newest_reports_are_kept(client: Client) -> None:
    for number in range(5):
        send(client, {"csp-report": {"blocked-uri": f"breach-{number}"}})
    page = visible_text(client.get("/development/policy/"))
    assert [number for number in range(5) if f"breach-{number}" in page] == [2, 3, 4]


@pytest.mark.urls(__name__)
def test_report_is_escaped(client: Client) -> None:
    send(client, {"csp-report": {"blocked-uri": "<script>alert(1)</script>"}})
    assert "<script>alert" not in client.get("/development/policy/").content.decode()


def test_development_pages_are_absent_in_production(client: Client) -> None:
    with pytest.raises(Http404):
        resolve("/development/policy/")


def test_csp_reports_are_sent_only_in_development() -> None:
    targets = "s.SITE_CONTENT_SECURITY_POLICY.get('report-uri')"
    assert shown(targets) == "None"
    assert shown(targets, HARNESS_DEBUG="1") == "['/development/policy/report/']"
