"""Routers of a project send reads to a replica or keep tables out of databases; rows of a session stay together."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpoints import SyncCheckpointer
from tests.conftest import StartChild
from tests.integration.checkpoints import child_scripts
from tests.integration.checkpoints.project_routers import ReplicaRouter
from tests.integration.checkpoints.session_setups import start_session


@pytest.mark.usefixtures("workspace")
def test_rows_of_a_session_are_read_and_written_where_the_client_was_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("django.db.router.routers", [ReplicaRouter()])
        with SyncCheckpointer() as cp:
            start_session(cp)
            cp.save_checkpoint("s", [{"role": "user"}], None, 0)
            cp.fork_session("s", "fork")

            assert (cp.load_latest("fork") or {})["transcript"] == [{"role": "user"}]


@pytest.mark.unsealed("one witness knows one database")
@pytest.mark.parametrize("router", ["ReplicaRouter", "OneDatabaseForAgents"])
def test_database_opened_by_path_has_its_tables_and_rows_whatever_the_routers_say(
    start_child: StartChild, tmp_path: Path, router: str
) -> None:
    child = start_child(child_scripts.save_beside_routers, fresh=True, place=f"{tmp_path}/a.db", name=router)

    assert child.result()["transcript"] == [{"a": 1}]
