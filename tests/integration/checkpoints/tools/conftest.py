from pathlib import Path

import pytest

from tests.integration.checkpoints.tools.shell_agent import Shell


@pytest.fixture
def shell(effects: Path) -> Shell:
    return Shell(effects)
