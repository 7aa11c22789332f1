from pathlib import Path

import pytest

from checkpoints import SyncCheckpointer
from tests.integration.checkpoints.workflows.order_workflow import OrderSteps


@pytest.fixture
def order_steps(effects: Path) -> OrderSteps:
    return OrderSteps(effects)


@pytest.fixture
def approver(cp: SyncCheckpointer) -> SyncCheckpointer:
    """Client with which a person decides."""
    return cp
