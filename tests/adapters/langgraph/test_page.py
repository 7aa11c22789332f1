"""The page about LangGraph is true, and the example plays its story."""

from pathlib import Path

import pytest

from examples.langgraph_refunds.__main__ import play_killed_agent_and_confirmed_refund
from tests.docs.test_pages import run
from tests.support.processes import ROOT, database_url


def test_page_runs(tmp_path: Path) -> None:
    done = run(ROOT / "docs" / "langgraph.md", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_example_refunds_once(workspace: object, effects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    play_killed_agent_and_confirmed_refund(database_url(), effects)
    assert capsys.readouterr().out.splitlines()[-1] == "Refunds in the end: 1."
