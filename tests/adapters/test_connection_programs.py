"""The programs for frameworks on the page Connect an agent run as they stand."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from harness_site.installation import example_agent_sources


def build_environment(database: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    return environment | {"HARNESS_DATABASE_URL": str(database), "PYTHONPATH": str(Path.cwd())}


@pytest.mark.parametrize("name", ["LANGGRAPH", "OPENAI_AGENTS", "PYDANTIC_AI", "STRANDS"])
def test_the_program_saves_its_session(tmp_path: Path, name: str) -> None:
    database = tmp_path / "agent.sqlite3"
    (tmp_path / "first_agent.py").write_text(getattr(example_agent_sources, name))
    environment = build_environment(database)
    subprocess.run([sys.executable, "first_agent.py"], cwd=tmp_path, env=environment, check=True)
    with contextlib.closing(sqlite3.connect(database)) as connection:
        sessions = connection.execute("SELECT session_id, message_count FROM checkpoints_session").fetchall()
        calls = connection.execute("SELECT tool, status FROM checkpoints_toolcall").fetchall()
    assert sessions == [("first-session", 4)]
    assert calls == [("send_note", "completed")]


def test_the_program_of_langgraph_waits_for_an_approval(tmp_path: Path) -> None:
    database = tmp_path / "agent.sqlite3"
    (tmp_path / "first_approval.py").write_text(example_agent_sources.LANGGRAPH_APPROVAL)
    (tmp_path / "approve.py").write_text(
        f"""from checkpoints import SyncCheckpointer
with SyncCheckpointer.open({str(database)!r}) as cp:
    (call,) = cp.pending_tool_calls("first-approval")
    cp.approve_call("first-approval", "call_1", actor="ada", reason="a note", revision=call["revision"])
"""
    )
    environment = build_environment(database)
    command = [sys.executable, "first_approval.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        assert program.stdout.readline().startswith("The note waits for your decision.")
        subprocess.run([sys.executable, "approve.py"], cwd=tmp_path, env=environment, check=True)
        assert program.stdout.read() == "The agent continued: The note is sent.\n"


def test_the_program_of_claude_names_what_the_adapter_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_DATABASE_URL", "agent.db")
    scope = {"__name__": "claude"}
    exec(example_agent_sources.CLAUDE.replace("asyncio.run(main())", ""), scope)  # noqa: S102 - its own text
    assert {"ClaudeAgentOptions", "HarnessSessionStore", "tool_hooks", "main"} <= scope.keys()
