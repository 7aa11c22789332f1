"""The page about LangGraph is true, and the example plays its story."""

import subprocess
import sys
from pathlib import Path

from tests.docs.test_pages import run
from tests.support.processes import ROOT


def test_page_runs(tmp_path: Path) -> None:
    done = run(ROOT / "docs" / "langgraph.md", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_example_refunds_once() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.langgraph_refunds"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "Refunds in the end: 1."
