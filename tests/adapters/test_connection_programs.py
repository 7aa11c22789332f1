"""The programs for frameworks on the page Connect an agent run as they stand."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from harness_site.installation import example_agent_sources


@pytest.mark.parametrize("name", ["LANGGRAPH", "OPENAI_AGENTS", "PYDANTIC_AI", "STRANDS"])
def test_the_program_saves_its_session(tmp_path: Path, name: str) -> None:
    (tmp_path / "first_agent.py").write_text(getattr(example_agent_sources, name))
    database = str(tmp_path / "agent.sqlite3")
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment |= {"HARNESS_DATABASE_URL": database, "PYTHONPATH": str(Path.cwd())}
    subprocess.run([sys.executable, "first_agent.py"], cwd=tmp_path, env=environment, check=True)
    with contextlib.closing(sqlite3.connect(database)) as connection:
        sessions = connection.execute("SELECT session_id, message_count FROM checkpoints_session").fetchall()
        calls = connection.execute("SELECT tool, status FROM checkpoints_toolcall").fetchall()
    assert sessions == [("first-session", 4)]
    assert calls == [("send_note", "completed")]


def test_the_program_of_claude_names_what_the_adapter_has() -> None:
    scope = {"__name__": "claude"}
    exec(example_agent_sources.CLAUDE.replace("asyncio.run(main())", ""), scope)  # noqa: S102 - its own text
    assert {"ClaudeAgentOptions", "HarnessSessionStore", "tool_hooks", "main"} <= scope.keys()
