from pathlib import Path

import pytest

from checkpoints import SyncCheckpointer
from tests.integration.checkpoints.workflows.orders import Desk


@pytest.fixture
def desk(effects: Path) -> Desk:
    return Desk(effects)


@pytest.fixture
def person(cp: SyncCheckpointer) -> SyncCheckpointer:
    """Client with which a person decides."""
    return cp
