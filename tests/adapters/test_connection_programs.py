"""The programs for frameworks on the page Connect an agent run as they stand."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from harness_site.installation import example_agent_sources
from tests.support.exhaustive_mode import mark_all_but_each


def build_environment(database: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    return environment | {"HARNESS_DATABASE_URL": str(database), "PYTHONPATH": str(Path.cwd())}


FRAMEWORKS = ["LANGGRAPH", "OPENAI_AGENTS", "PYDANTIC_AI", "STRANDS", "GOOGLE_ADK"]
#: What precedes the id in the program.
PREFIXES = {"GOOGLE_ADK": "notes/first-user/"}
#: What the model says in the end; the one of Pydantic AI makes a text of the results.
ANSWERS = {"PYDANTIC_AI": '{"send_note":"sent: a"}'}
APPROVE = """import sys, time
from checkpoints import SyncCheckpointer
database, session_id = sys.argv[1:]
with SyncCheckpointer.open(database) as cp:
    while not (waiting := cp.pending_tool_calls(session_id)):
        time.sleep(0.2)
    (call,) = waiting
    cp.approve_call(session_id, call["call_id"], actor="ada", reason="a note", revision=call["revision"])
"""


@pytest.mark.parametrize("name", mark_all_but_each(2, FRAMEWORKS))
def test_the_program_saves_its_session_and_says_where_to_look(tmp_path: Path, name: str) -> None:
    database = tmp_path / "agent.sqlite3"
    (tmp_path / "first_agent.py").write_text(getattr(example_agent_sources, name))
    environment = build_environment(database)
    command = [sys.executable, "first_agent.py"]
    for _ in range(2):  # somebody who is unsure whether it worked runs it again
        printed = subprocess.run(command, cwd=tmp_path, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        assert printed.stdout == "The session is recorded. Open Sessions in the browser.\n"
    with contextlib.closing(sqlite3.connect(database)) as connection:
        sessions = connection.execute("SELECT session_id, message_count FROM checkpoints_session").fetchall()
        calls = connection.execute("SELECT tool, status FROM checkpoints_toolcall").fetchall()
    assert [session_id for session_id, _ in sessions] == [build_session_id(name, "session")]
    assert sessions[0][1] >= 4
    assert set(calls) == {("send_note", "completed")}


def build_session_id(name: str, kind: str) -> str:
    return f"{PREFIXES.get(name, '')}first-{name.lower().replace('_', '-')}-{kind}"


def approve_and_read_answer(folder: Path, database: Path, session_id: str) -> str:
    """Run `first_approval.py`, approve its call, and return what it prints then."""
    (folder / "approve.py").write_text(APPROVE)
    variables = build_environment(database)
    command = [sys.executable, "first_approval.py"]
    with subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        assert program.stdout.readline() == "The note waits for your decision. Open Review in the browser.\n"
        approve = [sys.executable, "approve.py", str(database), session_id]
        try:
            subprocess.run(approve, cwd=folder, env=variables, check=True, timeout=120)
        except BaseException:
            program.kill()
            raise
        return program.stdout.read()


@pytest.mark.parametrize("name", mark_all_but_each(2, FRAMEWORKS, first=1))
def test_the_program_waits_for_an_approval(tmp_path: Path, name: str) -> None:
    database = tmp_path / "agent.sqlite3"
    (tmp_path / "first_approval.py").write_text(getattr(example_agent_sources, f"{name}_APPROVAL"))
    printed = approve_and_read_answer(tmp_path, database, build_session_id(name, "approval"))
    assert printed == f"The agent continued: {ANSWERS.get(name, 'The note is sent.')}\n"
    with contextlib.closing(sqlite3.connect(database)) as connection:
        calls = connection.execute("SELECT tool, status FROM checkpoints_toolcall").fetchall()
    assert calls == [("send_note", "completed")]


@pytest.mark.parametrize("source", [example_agent_sources.CLAUDE, example_agent_sources.CLAUDE_APPROVAL])
def test_the_program_of_claude_names_what_the_adapter_has(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.setenv("HARNESS_DATABASE_URL", "agent.db")
    scope = {"__name__": "claude"}
    exec(source.replace("asyncio.run(main())", ""), scope)  # noqa: S102 - its own text
    assert {"ClaudeAgentOptions", "HarnessSessionStore", "tool_hooks", "main"} <= scope.keys()
