"""Fixtures of the library's own tests, with clients of a live server instead of a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import Workspace
from harness_site.accounts.models import TokenRole
from tests.integration.checkpoints.workflows.order_workflow import OrderSteps
from tests.support.api_client import make_token
from tests.support.http_server import HttpServer

Open = Callable[..., SyncCheckpointer]


@pytest.fixture(scope="session")
def server() -> Iterator[HttpServer]:
    started = HttpServer()
    yield started
    started.stop()


@pytest.fixture
def order_steps(effects: Path) -> OrderSteps:
    return OrderSteps(effects)


@pytest.fixture
def approver(server: HttpServer, token: str) -> Iterator[SyncCheckpointer]:
    """Client with which a person decides."""
    with SyncCheckpointer(server.address, token=make_token(TokenRole.APPROVER, name="alice")) as client:
        yield client


@pytest.fixture
def token(workspace: Workspace) -> str:
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, "127.0.0.1"]
    return make_token(TokenRole.AGENT, name="agent")


@pytest.fixture
def open_checkpointer(server: HttpServer, token: str) -> Iterator[Open]:
    """Open clients of the server; all are closed at the end."""
    opened: list[SyncCheckpointer] = []

    def open_(**options: Any) -> SyncCheckpointer:
        opened.append(SyncCheckpointer(server.address, token=token, **options))
        return opened[-1]

    yield open_
    for checkpointer in opened:
        with suppress(CheckpointsError):
            checkpointer.close()
