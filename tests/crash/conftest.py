from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from checkpoints.models import Workspace
from tests.support.processes import database_url

Fresh = Callable[[], dict[str, Any]]


@pytest.fixture
def fresh_session(workspace: Workspace, tmp_path: Path) -> Fresh:
    """Create a new session and effects file for each trial."""

    def make() -> dict[str, Any]:
        session_id = uuid4().hex
        return {"url": database_url(), "session_id": session_id, "path": str(tmp_path / session_id)}

    return make


@pytest.fixture
def fresh_database(workspace: Workspace, tmp_path: Path) -> Iterator[Fresh]:
    """Create a new database without tables for each trial, and name a session that no other one has."""
    made: list[str] = []

    def make() -> dict[str, Any]:
        made.append(f"fresh_{uuid4().hex}")
        if connection.vendor == "sqlite":
            return {"url": f"sqlite:///{tmp_path / made[-1]}.db", "session_id": made[-1]}
        with connection.cursor() as cursor:
            cursor.execute(f'CREATE DATABASE "{made[-1]}"')
        return {"url": database_url().rpartition("/")[0] + f"/{made[-1]}", "session_id": made[-1]}

    yield make
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for name in made:
                cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
