from pathlib import Path

import pytest

from tests.integration.checkpoints.workflows.orders import Desk


@pytest.fixture
def desk(effects: Path) -> Desk:
    return Desk(effects)
