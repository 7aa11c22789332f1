from pathlib import Path

import pytest

from tests.integration.checkpoints.tools.shell_agent import ShellAgent


@pytest.fixture
def shell(effects: Path) -> ShellAgent:
    return ShellAgent(effects)
