"""Number of statements of one more save of each framework, which does not grow with what is stored.

SQLite counts the begin of a transaction as well, and the statements into which a save of a version is divided there.
"""

import asyncio
from typing import Any

import pytest
from django.db import connection
from django.db.backends.utils import CursorWrapper
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from checkpoints import SyncCheckpointer
from checkpoints.adapters.claude import HarnessSessionStore
from checkpoints.adapters.langgraph import HarnessSaver
from checkpoints.adapters.openai_agents import HarnessSession
from checkpoints.adapters.pydantic_ai import HarnessConversationStore
from checkpoints.adapters.strands import HarnessSessionRepository

_SAVES = 4


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List of the statements of all threads."""
    executed: list[str] = []
    wrapped: Any = CursorWrapper
    execute = wrapped._execute_with_wrappers

    def note(self: Any, sql: str, params: Any, many: bool, executor: Any) -> Any:
        executed.append(sql)
        return execute(self, sql, params, many, executor)

    monkeypatch.setattr(wrapped, "_execute_with_wrappers", note)
    return executed


def expect(statements: list[str], *, postgresql: int, sqlite: int) -> None:
    assert len(statements) == {"postgresql": postgresql, "sqlite": sqlite}[connection.vendor], "\n".join(statements)


def test_turn_of_langgraph(cp: SyncCheckpointer, statements: list[str]) -> None:
    graph = StateGraph(MessagesState).add_node("answer", lambda state: {"messages": [AIMessage("Yes.")]})
    agent = graph.add_edge(START, "answer").compile(checkpointer=HarnessSaver(cp))
    for number in range(_SAVES):
        statements.clear()
        question: Any = {"messages": [HumanMessage(f"Is it {number}?")]}
        agent.invoke(question, {"configurable": {"thread_id": "s"}}, durability="sync")
    expect(statements, postgresql=7, sqlite=37)


def test_lines_of_the_claude_agent_sdk(cp: SyncCheckpointer, statements: list[str]) -> None:
    store, key = HarnessSessionStore(cp), {"project_key": "-srv-shop", "session_id": "5e55a0a0"}
    parent = None
    for number in range(_SAVES):
        lines: list[Any] = []
        for role in ("user", "assistant"):
            uuid = f"{role}-{number}"
            message = {"role": role, "content": [{"type": "text", "text": f"Text {number}"}]}
            about = {"type": role, "uuid": uuid, "parentUuid": parent, "timestamp": f"2026-01-01T10:00:0{number}Z"}
            lines.append({**about, "sessionId": "5e55a0a0", "message": message})
            parent = uuid
        statements.clear()
        asyncio.run(store.append(key, lines))  # type: ignore[arg-type]
    expect(statements, postgresql=1, sqlite=11)


def test_items_of_the_openai_agents_sdk(cp: SyncCheckpointer, statements: list[str]) -> None:
    session = HarnessSession("s", cp)
    for number in range(_SAVES):
        statements.clear()
        asyncio.run(session.add_items([{"role": "user", "content": f"Text {number}"}]))
    expect(statements, postgresql=1, sqlite=8)


def test_messages_of_pydantic_ai(cp: SyncCheckpointer, statements: list[str]) -> None:
    store, conversation = HarnessConversationStore(cp), Conversation(conversation_id="s", messages=[])
    for number in range(_SAVES):
        answer = ModelResponse(parts=[TextPart("Yes.")])
        conversation.messages.extend([ModelRequest(parts=[UserPromptPart(f"Is it {number}?")]), answer])
        statements.clear()
        asyncio.run(store.save(conversation))
    expect(statements, postgresql=1, sqlite=11)


def test_message_of_strands(cp: SyncCheckpointer, statements: list[str]) -> None:
    repository = HarnessSessionRepository(cp)
    repository.create_session(Session("s", SessionType.AGENT))
    repository.create_agent("s", SessionAgent("default", {}, {}))
    for number in range(_SAVES):
        message = SessionMessage.from_message({"role": "user", "content": [{"text": f"Text {number}"}]}, number)
        statements.clear()
        repository.create_message("s", "default", message)
    expect(statements, postgresql=1, sqlite=10)
