"""The page about the OpenAI Agents SDK is true, the example plays its story, and another version is refused."""

from pathlib import Path

import pytest
from agents.run import set_default_agent_runner

from examples.openai_agents_refunds.__main__ import play_killed_agent_and_confirmed_refund
from tests.docs.test_pages import run
from tests.support.processes import ROOT, database_url


def test_page_runs(tmp_path: Path) -> None:
    done = run(ROOT / "docs" / "openai-agents.md", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_example_refunds_once(workspace: object, effects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        play_killed_agent_and_confirmed_refund(database_url(), effects)
    finally:
        set_default_agent_runner(None)
    assert capsys.readouterr().out.splitlines()[-1] == "Refunds in the end: 1."
