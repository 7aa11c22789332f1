"""The Python blocks of the README and of each page in `docs/` run from first to last."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page_files import leave_out_log_of_new_databases
from tests.docs.run_page import blocks
from tests.support.processes import ROOT

#: Pages that need a framework; `tests/adapters` runs them.
OF_ADAPTERS = {"claude-agent-sdk", "google-adk", "langgraph", "openai-agents", "pydantic-ai", "strands"}
PAGES = sorted(
    path
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    if path.stem not in OF_ADAPTERS and blocks(path.read_text())
)


def run(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """The page as a plain script, in a process and a folder of its own; stderr without the names of new databases."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.docs.run_page", str(page)],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT), "HARNESS_SECRET_KEY": "a key for the pages, long enough"},
        capture_output=True,
        text=True,
        check=False,
    )
    done.stderr = leave_out_log_of_new_databases(done.stderr)
    return done


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_runs(page: Path, tmp_path: Path) -> None:
    done = run(page, tmp_path)

    assert (done.returncode, done.stderr) == (0, "")


def test_page_that_is_wrong_fails_with_its_line(tmp_path: Path) -> None:
    page = tmp_path / "wrong.md"
    first, second = "import asyncio\nawait asyncio.sleep(0)", "one = 1\nassert one == 2"
    page.write_text(f"# Wrong\n\n```python\n{first}\n```\n\n```python\n{second}\n```\n")
    done = run(page, tmp_path)

    assert done.returncode == 1
    assert f'File "{page}", line 10' in done.stderr
