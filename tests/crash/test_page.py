"""The files of docs/testing.md do what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ROOT

BLOCKS = re.findall(r"^```py\n(.*?)^```$", (ROOT / "docs" / "testing.md").read_text(), re.DOTALL | re.MULTILINE)
#: Users have no settings of a Django project.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}


def run(folder: Path) -> str:
    """Return the output of `pytest` for the test on the page. Raises `CalledProcessError` if it fails."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "test_my_agent.py"],
        cwd=folder,
        env=ENVIRONMENT | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for block in BLOCKS:
        name = block.splitlines()[0].removeprefix("# ")
        (tmp_path / name).write_text(block)
    return tmp_path


def test_agent_of_the_page_survives_every_crash(files: Path) -> None:
    assert "1 passed" in run(files)


def test_agent_without_a_log_fails(files: Path) -> None:
    """The same agent, calling the function by itself instead of through the registry."""
    agent = files / "my_agent.py"
    logged = 'result = registry.dispatch("pay", {"order": order}, f"call_{order}")'
    unlogged = "result = ToolResult(f'call_{order}', pay(order))"
    source = agent.read_text().replace(logged, unlogged).replace("ToolRegistry,", "ToolRegistry, ToolResult,")
    agent.write_text(source)

    with pytest.raises(subprocess.CalledProcessError) as caught:
        run(files)
    assert '+  "order 17",\n' in caught.value.stdout
