"""Where the file of a test is."""

from pathlib import Path

import pytest

from checkpoints import SyncCheckpointer
from tests.conftest import Open
from tests.integration.checkpoints.archive.session_histories import full_history


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.session"


@pytest.fixture
def exported(open_checkpointer: Open, path: Path) -> SyncCheckpointer:
    """A file at `path`, of a session that is not in the database any more."""
    cp = full_history(open_checkpointer())
    cp.export_session("s", path)
    cp.close()
    cp.delete_session("s")
    return cp
