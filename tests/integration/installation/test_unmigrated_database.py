"""A site that is started before `migrate`: it says what to run, and continues by itself."""

import asyncio
import http.client
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from checkpoints.exceptions import ConnectionFailed
from examples.demo.demo_processes import START_TIMEOUT_SECONDS, start_site_and_wait_until_ready
from harness_site import unmigrated_database_middleware
from harness_site.asgi import application, direct_application
from harness_site.core.background_task import BackgroundTask
from harness_site.installation import database_readiness
from harness_site.installation.database_readiness import SchemaProbe, SchemaState, StartupProblem
from tests.support.site_process import free_port, fresh_database

COMMAND = "manage.py migrate"


def get(port: int, path: str, accept: str = "text/html", **headers: str) -> tuple[int, str, str]:
    """Return status, text and `Retry-After` of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers={"Accept": accept, **headers})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text, response.headers.get("Retry-After", "")


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_site_started_before_migrations_says_what_to_run_and_recovers(tmp_path: Path) -> None:
    inherited = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    log, port = tmp_path / "site.log", free_port()
    with fresh_database(tmp_path) as database:
        site = start_site_and_wait_until_ready(
            port, log, lambda: False, {**inherited, "HARNESS_DATABASE_URL": database}
        )
        try:
            for path in ("/", "/accounts/login/", "/review/"):
                status, page, retry = get(port, path)
                assert (status, retry) == (503, "5")
                assert COMMAND in page
            for path in ("/api/v1/sessions", "/mcp"):
                status, text, retry = get(port, path, "application/json", Authorization="Bearer harness_x")
                assert (status, retry) == (503, "5")
                assert '"MigrationsMissing"' in text
                assert COMMAND in text
            status, text, _ = get(port, "/health/ready")
            assert (status, COMMAND in text) == (503, True)
            assert get(port, "/health/live")[0] == 200
            assert get(port, "/static/css/base.css")[0] == 200
            lines = log.read_text().splitlines()
            assert (len(lines), sum(" ERROR " in line for line in lines)) == (2, 1)  # the other one is the address
            assert COMMAND in log.read_text()
            migrate = [sys.executable, "-m", "django", "migrate", "--settings=harness_site.settings", "--verbosity=0"]
            subprocess.run(migrate, env={**inherited, "HARNESS_DATABASE_URL": database}, check=True)
            wait_for(lambda: get(port, "/health/ready")[0] == 200)
            assert get(port, "/accounts/login/")[0] == 200
            wait_for(lambda: "Open this link to create the first admin" in log.read_text())
            assert f"http://127.0.0.1:{port}/accounts/first/" in log.read_text()
            assert log.read_text().count(" ERROR ") == 1
        finally:
            site.stop()


def test_setup_link_is_printed_as_soon_as_the_tables_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    states = [SchemaState(0, ("checkpoints.0001_initial",), ()), SchemaState(1, (), ())]
    monkeypatch.setattr(database_readiness, "load_schema_state", lambda: states.pop(0))
    monkeypatch.setattr(database_readiness, "_PAUSE_SECONDS", 0.0)
    probe, printed = SchemaProbe(), list[str]()
    probe.call_now_or_once_tables_complete(lambda: printed.append("link"))
    assert (probe.find_problem(), printed) == (StartupProblem.MIGRATIONS, [])
    assert (probe.find_problem(), printed) == (None, ["link"])
    probe.call_now_or_once_tables_complete(lambda: printed.append("at once"))
    assert printed == ["link", "at once"]


def test_liveness_does_not_wait_for_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise AssertionError("The database was asked.")

    async def request_liveness() -> int:
        messages: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""} if not messages else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            messages.append(message)

        scope = {"type": "http", "method": "GET", "path": "/health/live", "query_string": b"", "headers": []}
        await direct_application({**scope, "http_version": "1.1", "scheme": "http"}, receive, send)
        status: int = messages[0]["status"]
        return status

    monkeypatch.setattr(database_readiness.probe, "_is_current", False)
    monkeypatch.setattr(database_readiness.probe, "find_problem", fail)
    assert asyncio.run(request_liveness()) == 200


def test_database_that_does_not_answer_is_asked_once_a_second_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked, now = list[str](), 1_000.0
    monkeypatch.setattr(database_readiness, "time", SimpleNamespace(monotonic=lambda: now))

    def fail() -> SchemaState:
        asked.append("asked")
        raise OperationalError("connection refused")

    monkeypatch.setattr(database_readiness, "load_schema_state", fail)
    probe = SchemaProbe()
    assert {probe.find_problem() for _ in range(20)} == {StartupProblem.DATABASE}
    assert asked == ["asked"]
    now += 1.0
    assert probe.find_problem() is StartupProblem.DATABASE
    assert asked == ["asked"] * 2
    assert [record.message for record in caplog.records] == [
        "The database does not answer. Check that the database server is running, and that HARNESS_DATABASE_URL names "
        "it. Until then, every page has status 503."
    ]


def test_log_has_the_reason_of_a_server_that_refuses_and_the_page_has_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> SchemaState:
        raise ConnectionFailed('The database says: no password for user "harness".', may_have_happened=False)

    monkeypatch.setattr(database_readiness, "load_schema_state", refuse)
    assert SchemaProbe().find_problem() is StartupProblem.DATABASE
    (said,) = caplog.messages
    assert said.startswith(
        'The database does not answer. The database says: no password for user "harness". Check that'
    )
    assert "harness" not in StartupProblem.DATABASE.summary


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"HARNESS_DATABASE_URL": "x.db", "HARNESS_STATE_DIR": "/srv/harness"}, "with the same HARNESS_DATABASE_URL."),
        ({"HARNESS_DATABASE_URL_FILE": "/run/url"}, "with the same HARNESS_DATABASE_URL_FILE."),
        ({"HARNESS_STATE_DIR": "/srv/harness"}, "with the same HARNESS_STATE_DIR."),
        ({}, "as the user who runs this site."),
    ],
    ids=["URL", "file", "folder", "nothing"],
)
def test_advice_names_the_variable_that_is_set(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], words: str
) -> None:
    for name in ("HARNESS_DATABASE_URL", "HARNESS_DATABASE_URL_FILE", "HARNESS_STATE_DIR", "HARNESS_STATE_DIR_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert StartupProblem.MIGRATIONS.advice == f"Run “python {COMMAND}” {words}"


@pytest.fixture
def unmigrated(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = SchemaProbe()
    monkeypatch.setattr(probe, "find_problem", lambda: StartupProblem.MIGRATIONS)
    monkeypatch.setattr(unmigrated_database_middleware, "probe", probe)
    monkeypatch.setattr("harness_site.asgi.probe", probe)


@pytest.mark.usefixtures("unmigrated")
def test_page_is_in_the_language_of_the_browser_and_reads_no_database(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    page = client.get("/review/", headers={"Accept": "text/html", "Accept-Language": "de"})
    assert page.status_code == 503
    assert '<html lang="de">' in page.content.decode()
    assert "<script" not in page.content.decode()
    assert 'http-equiv="refresh"' in page.content.decode()
    posted = client.post("/accounts/login/", {}, headers={"Accept": "text/html"})
    assert "send it again" in posted.content.decode()
    assert 'http-equiv="refresh"' not in posted.content.decode()
    assert caplog.records == []


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)  # the thread that asks may have a connection of an earlier test, and closes it
@pytest.mark.usefixtures("unmigrated")
async def test_websocket_is_refused_before_migrations() -> None:
    sent = list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/ws/", "headers": [], "query_string": b"", "subprotocols": []}
    await application(scope, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_background_task_logs_the_first_of_equal_failures(caplog: pytest.LogCaptureFixture) -> None:
    task = BackgroundTask()
    for _ in range(3):
        task.record_failure(OperationalError("away"))
    task.record_failure(ValueError("other"))
    task.record_successful_round()
    task.record_successful_round()
    assert [record.message for record in caplog.records] == [
        "The background task background failed. It tries again until it works.",
        "The background task background failed. It tries again until it works.",
        "The background task background works again.",
    ]
