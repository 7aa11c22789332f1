"""The programs for frameworks on the page Connect an agent run as they stand."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from checkpoints import SyncCheckpointer
from harness_site.installation import example_agent_sources
from tests.adapters.conftest import StartProgram
from tests.conftest import StartChild
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.processes import wait_until


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Database of the programs, which creates the first one of them."""
    path = tmp_path / "agent.sqlite3"
    monkeypatch.setenv("HARNESS_DATABASE_URL", str(path))
    return path


FRAMEWORKS = ["LANGGRAPH", "OPENAI_AGENTS", "PYDANTIC_AI", "STRANDS", "GOOGLE_ADK"]
#: What precedes the id in the program.
PREFIXES = {"GOOGLE_ADK": "notes/first-user/"}
#: What the model says in the end; the one of Pydantic AI makes a text of the results.
ANSWERS = {"PYDANTIC_AI": '{"send_note":"sent: a"}'}


@pytest.mark.parametrize("name", mark_all_but_each(2, FRAMEWORKS))
def test_the_program_saves_its_session_and_says_where_to_look(
    start_program: StartProgram, tmp_path: Path, database: Path, name: str
) -> None:
    program = tmp_path / "first_agent.py"
    program.write_text(getattr(example_agent_sources, name))
    for _ in range(2):  # somebody who is unsure whether it worked runs it again
        running = start_program(f"{name.lower()}_refunds", program)
        assert running.expect("printed") == "The session is recorded. Open Sessions in the browser."
        running.result()
    with contextlib.closing(sqlite3.connect(database)) as connection:
        sessions = connection.execute("SELECT session_id, message_count FROM checkpoints_session").fetchall()
        calls = connection.execute("SELECT tool, status FROM checkpoints_toolcall").fetchall()
    assert [session_id for session_id, _ in sessions] == [build_session_id(name, "session")]
    assert sessions[0][1] >= 4
    assert set(calls) == {("send_note", "completed")}


def build_session_id(name: str, kind: str) -> str:
    return f"{PREFIXES.get(name, '')}first-{name.lower().replace('_', '-')}-{kind}"


def approve_call(database: str, session_id: str) -> None:
    """Approve the call of a session as soon as it waits."""
    with SyncCheckpointer.open(database) as cp:
        wait_until(lambda: bool(cp.pending_tool_calls(session_id)))
        (call,) = cp.pending_tool_calls(session_id)
        cp.approve_call(session_id, call["call_id"], actor="ada", reason="a note", revision=call["revision"])


@pytest.mark.parametrize("name", mark_all_but_each(2, FRAMEWORKS, first=1))
def test_the_program_waits_for_an_approval(
    start_program: StartProgram, start_child: StartChild, tmp_path: Path, database: Path, name: str
) -> None:
    program = tmp_path / "first_approval.py"
    program.write_text(getattr(example_agent_sources, f"{name}_APPROVAL"))
    running = start_program(f"{name.lower()}_refunds", program)
    assert running.expect("printed") == "The note waits for your decision. Open Review in the browser."
    start_child(approve_call, database=str(database), session_id=build_session_id(name, "approval")).result()
    assert running.expect("printed") == f"The agent continued: {ANSWERS.get(name, 'The note is sent.')}"
    running.result()
    with contextlib.closing(sqlite3.connect(database)) as connection:
        calls = connection.execute("SELECT tool, status FROM checkpoints_toolcall").fetchall()
    assert calls == [("send_note", "completed")]


@pytest.mark.parametrize("source", [example_agent_sources.CLAUDE, example_agent_sources.CLAUDE_APPROVAL])
def test_the_program_of_claude_names_what_the_adapter_has(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.setenv("HARNESS_DATABASE_URL", "agent.db")
    scope = {"__name__": "claude"}
    exec(source.replace("asyncio.run(main())", ""), scope)  # noqa: S102 - its own text
    assert {"ClaudeAgentOptions", "HarnessSessionStore", "tool_hooks", "main"} <= scope.keys()
