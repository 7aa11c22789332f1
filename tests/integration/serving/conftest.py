"""Server for these tests, with limits that are reached in seconds."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.contrib.sessions.backends.base import SessionBase
from django.test import Client

from examples.demo.demo_processes import ChildProcess, start_site_and_wait_until_ready
from tests.support.factories import make_user
from tests.support.processes import database_url
from tests.support.site_process import free_port

LIMITS = {
    "HARNESS_HEADER_SECONDS": "3",
    "HARNESS_BODY_SECONDS": "4",
    "HARNESS_GRACE_SECONDS": "2",
    "HARNESS_WRITE_SECONDS": "4",
    "HARNESS_CONNECTIONS": "120",
}

StartServer = Callable[..., int]


@pytest.fixture(scope="module")
def start_server(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Start servers on the test database; returns the port of each."""
    children: list[ChildProcess] = []

    def start(**environment: str) -> int:
        inherited = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        address = {"HARNESS_DATABASE_URL": database_url()}
        port = free_port()
        log: Path = tmp_path_factory.mktemp("server") / "site.log"
        children.append(
            start_site_and_wait_until_ready(port, log, lambda: False, {**inherited, **LIMITS, **address, **environment})
        )
        return port

    yield start
    for child in children:
        child.stop()


@pytest.fixture(scope="module")
def port(start_server: StartServer) -> int:
    return start_server()


@pytest.fixture
def cookie(transactional_db: None) -> str:
    """`Cookie` header of alice, an approver."""
    client = Client()
    client.force_login(make_user(name="alice"))
    session: SessionBase = client.session
    return f"sessionid={session.session_key}"
