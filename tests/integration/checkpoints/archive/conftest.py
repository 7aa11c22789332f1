"""Session files for the tests of this folder."""

from pathlib import Path

import pytest

from checkpoints import SyncCheckpointer
from tests.conftest import Open
from tests.integration.checkpoints.archive.session_histories import create_full_history


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.session"


@pytest.fixture
def exported_session(open_checkpointer: Open, path: Path) -> SyncCheckpointer:
    """Export a session to `path` and delete it from the database; return a closed checkpointer."""
    cp = create_full_history(open_checkpointer())
    cp.export_session("s", path)
    cp.close()
    cp.delete_session("s")
    return cp
