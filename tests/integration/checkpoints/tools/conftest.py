from pathlib import Path

import pytest

from checkpoints import SyncCheckpointer
from tests.integration.checkpoints.tools.shell_agent import ShellAgent


@pytest.fixture
def shell(effects: Path) -> ShellAgent:
    return ShellAgent(effects)


@pytest.fixture
def approver(cp: SyncCheckpointer) -> SyncCheckpointer:
    """Client with which a person decides."""
    return cp
