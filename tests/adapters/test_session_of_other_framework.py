"""One session for two frameworks: the second one is refused before it stores or runs anything."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Runner, UserError
from google.adk.sessions import InMemorySessionService
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from strands import Agent as StrandsAgent
from strands.types.exceptions import EventLoopException

from checkpoints import Checkpointer, SyncCheckpointer, ToolRegistry
from checkpoints.adapters.claude import HarnessSessionStore, tool_hooks
from checkpoints.adapters.google_adk import Harness as AdkHarness
from checkpoints.adapters.google_adk import HarnessSessionService
from checkpoints.adapters.langgraph import HarnessMiddleware, HarnessSaver
from checkpoints.adapters.openai_agents import HarnessRunner, HarnessSession, guard_agent
from checkpoints.adapters.pydantic_ai import Harness as PydanticHarness
from checkpoints.adapters.pydantic_ai import HarnessConversationStore
from checkpoints.adapters.strands import Harness as StrandsHarness
from checkpoints.adapters.strands import HarnessSessionRepository
from checkpoints.exceptions import InvalidInput, SessionOfOtherFramework
from checkpoints.models import Checkpoint, FrameworkState, Run, Session, ToolCall
from checkpoints.sessions.new_session_fields import FRAMEWORK_MARK
from examples.claude_refunds import agent as claude_refunds
from examples.google_adk_refunds import agent as adk_refunds
from examples.langgraph_refunds import agent as langgraph_refunds
from examples.openai_agents_refunds import agent as openai_refunds
from examples.pydantic_ai_refunds import agent as pydantic_refunds
from examples.strands_refunds import agent as strands_refunds
from tests.adapters.claude.agents import call_hook
from tests.adapters.openai_agents.runs import QUIET
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.processes import database_url

QUESTION = "Please refund order 17."
#: Run of an agent in a session, with a blocking or an async client; refunds are lines of a file.
Story = Callable[[Any, str, Path], Awaitable[object]]


async def run_langgraph(client: Any, place: str, effects: Path) -> object:
    agent = langgraph_refunds.build_agent(HarnessSaver(client), effects)
    asked: Any = {"messages": [{"role": "user", "content": QUESTION}]}
    config: Any = {"configurable": {"thread_id": place}}
    if isinstance(client, Checkpointer):
        return await agent.ainvoke(asked, config)
    return await asyncio.to_thread(agent.invoke, asked, config)


async def run_openai_agents(client: Any, place: str, effects: Path) -> object:
    agent, session = openai_refunds.build_agent(effects), HarnessSession(place, client)
    return await HarnessRunner(openai_refunds.POLICIES).run(agent, QUESTION, session=session, run_config=QUIET)


async def run_pydantic_ai(client: Any, place: str, effects: Path) -> object:
    store = HarnessConversationStore(client)
    agent = pydantic_refunds.build_agent(PydanticHarness(store, pydantic_refunds.POLICIES), effects)
    return await pydantic_refunds.run_and_save_turn(store, agent, place, QUESTION)


async def run_strands(client: Any, place: str, effects: Path) -> object:
    agent, _ = strands_refunds.build_agent_and_harness(HarnessSessionRepository(client), place, effects)
    return await agent.invoke_async(QUESTION)


async def run_google_adk(client: Any, place: str, effects: Path) -> object:
    runner, _ = adk_refunds.build_runner_and_harness(HarnessSessionService(client), effects)
    return await adk_refunds.ask(runner, place.rpartition("/")[2], QUESTION)


async def run_claude(client: Any, place: str, effects: Path) -> object:
    return await claude_refunds.run_agent(HarnessSessionStore(client), effects)


async def run_native(client: Any, place: str, effects: Path) -> object:
    cp = client if isinstance(client, Checkpointer) else Checkpointer.open(database_url())
    async with cp as opened:
        return await opened.append_checkpoint(place, [{"role": "user", "content": QUESTION}], expected_version=0)


STORIES: dict[str, Story] = {
    "LangGraph": run_langgraph,
    "OpenAI Agents SDK": run_openai_agents,
    "Pydantic AI": run_pydantic_ai,
    "Strands Agents": run_strands,
    "Google ADK": run_google_adk,
    "Claude Agent SDK": run_claude,
}
PLACES = {"Google ADK": f"{adk_refunds.APP}/{adk_refunds.USER}/s", "Claude Agent SDK": claude_refunds.STORED_ID}
#: Frameworks that take any text as the identifier of a session, except that Strands takes no slash.
FREE = ["LangGraph", "OpenAI Agents SDK", "Pydantic AI", "Strands Agents"]
PAIRS = [
    (first, second)
    for first in STORIES
    for second in STORIES
    if first != second
    and (first in FREE or second in FREE)
    and not ("Strands Agents" in (first, second) and (first in PLACES or second in PLACES))
]
#: First frameworks beside which the second one has an async client too: together every second one.
ASYNC = ("LangGraph", "OpenAI Agents SDK")

CASES = [
    (first, second, is_async) for first, second in PAIRS for is_async in (False, True) if not is_async or first in ASYNC
]


def find_place(*frameworks: str) -> str:
    return next((PLACES[name] for name in frameworks if name in PLACES), "order-17")


def list_rows() -> list[Any]:
    """List everything that a run may leave."""
    models = (Checkpoint, FrameworkState, ToolCall, Run)
    sessions = list(Session.objects.order_by("pk").values_list("session_id", "metadata", "latest_version", "status"))
    return [*sessions, *(model.objects.count() for model in models)]


@pytest.mark.parametrize(
    ("first", "second", "is_async"),
    mark_all_but_each(2, CASES, first=1),
)
def test_second_framework_is_refused_before_it_stores_or_runs_anything(
    cp: SyncCheckpointer, effects: Path, tmp_path: Path, first: str, second: str, is_async: bool
) -> None:
    place = find_place(first, second)
    asyncio.run(STORIES[first](cp, place, tmp_path / "first"))  # type: ignore[arg-type]
    before = list_rows()

    async def run_second() -> object:
        if not is_async:
            return await STORIES[second](cp, place, effects)
        async with Checkpointer.open(database_url()) as client:
            return await STORIES[second](client, place, effects)

    if second == "Claude Agent SDK":  # the SDK tells the model what a hook refuses, and logs what a store raises
        asyncio.run(run_second())  # type: ignore[arg-type]
    else:
        with pytest.raises(SessionOfOtherFramework) as refused:
            asyncio.run(run_second())  # type: ignore[arg-type]
        assert (refused.value.session_id, refused.value.framework) == (place, first)
        assert f"{place!r} is one of {first}" in str(refused.value)
        assert "another session id" in str(refused.value)
    assert not effects.read_text()
    assert list_rows() == before


#: Frameworks whose runs begin no conversation in a session that has messages of somebody else, and what they say.
REFUSED_BY_STORE = {
    "Strands Agents": "none of Strands",
    "Pydantic AI": "no record of a conversation",
}


def look_up(order: int) -> str:
    return f"Order {order}"


def list_tools(place: str) -> list[str]:
    return list(ToolCall.objects.filter(session__session_id=place).values_list("tool", flat=True))


def get_metadata(place: str) -> str:
    return Session.objects.get(session_id=place).metadata


@pytest.mark.parametrize("framework", STORIES)
def test_session_of_a_native_agent_has_no_mark_and_is_not_refused_for_that(
    cp: SyncCheckpointer, effects: Path, framework: str
) -> None:
    place = find_place(framework)
    cp.start_session(place, metadata={"order": 17})
    cp.append_checkpoint(place, [{"role": "user", "content": QUESTION}], expected_version=0)
    cp.release_session(place)
    if framework in REFUSED_BY_STORE:
        with pytest.raises(InvalidInput, match=REFUSED_BY_STORE[framework]) as refused:
            asyncio.run(STORIES[framework](cp, place, effects))  # type: ignore[arg-type]
        assert not isinstance(refused.value, SessionOfOtherFramework)
    else:
        asyncio.run(STORIES[framework](cp, place, effects))  # type: ignore[arg-type]
        assert effects.read_text()
    assert FRAMEWORK_MARK not in get_metadata(place)


@pytest.mark.parametrize("framework", STORIES)
def test_session_that_an_adapter_began_before_there_were_marks_continues(
    cp: SyncCheckpointer, effects: Path, framework: str, open_checkpointer: Callable[..., SyncCheckpointer]
) -> None:
    place = find_place(framework)
    asyncio.run(STORIES[framework](cp, place, effects))  # type: ignore[arg-type]
    assert framework in get_metadata(place)
    Session.objects.filter(session_id=place).update(metadata="{}")
    before = list_rows()
    asyncio.run(STORIES[framework](open_checkpointer(), place, effects))  # type: ignore[arg-type]
    assert list_rows() != before
    assert FRAMEWORK_MARK not in get_metadata(place)


async def guard_langgraph(cp: SyncCheckpointer, place: str, effects: Path) -> object:
    agent: Any = create_agent(
        langgraph_refunds.ScriptedModel(orders=(17,)),
        langgraph_refunds.build_tools(effects, lambda _: None),
        checkpointer=InMemorySaver(),
        middleware=[HarnessMiddleware(cp, langgraph_refunds.POLICIES)],
    )
    asked: Any = {"messages": [{"role": "user", "content": QUESTION}]}
    return await agent.ainvoke(asked, {"configurable": {"thread_id": place}})


async def guard_openai_agents(cp: SyncCheckpointer, place: str, effects: Path) -> object:
    session = HarnessSession(place, cp)
    agent = guard_agent(openai_refunds.build_agent(effects), session, openai_refunds.POLICIES)
    try:
        return await Runner.run(agent, QUESTION, run_config=QUIET)
    except UserError as error:
        raise error.__cause__ or error from error


async def guard_pydantic_ai(cp: SyncCheckpointer, place: str, effects: Path) -> object:
    agent = pydantic_refunds.build_agent(PydanticHarness(cp, pydantic_refunds.POLICIES), effects)
    return await agent.run(QUESTION, conversation_id=place)


async def guard_strands(cp: SyncCheckpointer, place: str, effects: Path) -> object:
    agent = StrandsAgent(
        strands_refunds.ScriptedModel((17,)),
        tools=strands_refunds.build_tools(effects, lambda _: None),
        plugins=[StrandsHarness(place, cp, strands_refunds.POLICIES)],
        callback_handler=None,
    )
    try:
        return await agent.invoke_async(QUESTION)
    except EventLoopException as error:
        raise error.original_exception from error


async def guard_google_adk(cp: SyncCheckpointer, place: str, effects: Path) -> object:
    runner, _ = adk_refunds.build_runner_and_harness(HarnessSessionService(cp), effects)
    runner.session_service = InMemorySessionService()  # type: ignore[no-untyped-call]
    assert isinstance(runner.app and runner.app.plugins[0], AdkHarness)
    return await adk_refunds.ask(runner, place.rpartition("/")[2], QUESTION)


GUARDS: dict[str, Callable[[SyncCheckpointer, str, Path], Awaitable[object]]] = {
    "LangGraph": guard_langgraph,
    "OpenAI Agents SDK": guard_openai_agents,
    "Pydantic AI": guard_pydantic_ai,
    "Strands Agents": guard_strands,
    "Google ADK": guard_google_adk,
}


@pytest.mark.parametrize("is_owned", [False, True], ids=["released", "owned by the same client"])
@pytest.mark.parametrize("framework", GUARDS)
def test_guard_refuses_the_first_call_without_a_store(
    cp: SyncCheckpointer, effects: Path, tmp_path: Path, framework: str, is_owned: bool
) -> None:
    first = "OpenAI Agents SDK" if framework == "LangGraph" else "LangGraph"
    place = find_place(framework)
    asyncio.run(STORIES[first](cp, place, tmp_path / "first"))  # type: ignore[arg-type]
    if is_owned:
        cp.start_session(place)
    before = list_rows()
    with pytest.raises(SessionOfOtherFramework):
        asyncio.run(GUARDS[framework](cp, place, effects))  # type: ignore[arg-type]
    assert not effects.read_text()
    assert list_rows() == before


@pytest.mark.parametrize("framework", GUARDS)
def test_guard_takes_a_session_in_which_a_native_agent_has_made_a_call(
    cp: SyncCheckpointer, effects: Path, framework: str
) -> None:
    place = find_place(framework)
    registry = ToolRegistry()
    registry.tool(look_up)
    with cp.session(place, registry=registry) as session:
        session.dispatch("look_up", {"order": 17}, call_id="call_0")
    asyncio.run(GUARDS[framework](cp, place, effects))  # type: ignore[arg-type]
    assert "refund" in list_tools(place)
    assert FRAMEWORK_MARK not in get_metadata(place)


def test_hooks_of_claude_deny_the_first_call_without_a_store(cp: SyncCheckpointer, tmp_path: Path) -> None:
    asyncio.run(run_langgraph(cp, claude_refunds.STORED_ID, tmp_path / "first"))
    before = list_rows()

    async def call() -> Any:
        return await call_hook(tool_hooks(cp), "PreToolUse", "call_1")

    answer = asyncio.run(call())["hookSpecificOutput"]
    assert answer["permissionDecision"] == "deny"
    assert "is one of LangGraph" in answer["permissionDecisionReason"]
    assert list_rows() == before


def test_store_of_claude_refuses_lines(cp: SyncCheckpointer, tmp_path: Path) -> None:
    asyncio.run(run_langgraph(cp, claude_refunds.STORED_ID, tmp_path / "first"))
    project, _, session = claude_refunds.STORED_ID.rpartition("/")
    key: Any = {"project_key": project, "session_id": session}
    with pytest.raises(SessionOfOtherFramework):
        asyncio.run(HarnessSessionStore(cp).append(key, [{"type": "user", "uuid": "1"}]))


@pytest.mark.parametrize("framework", STORIES)
def test_session_that_has_only_been_started_is_taken(cp: SyncCheckpointer, effects: Path, framework: str) -> None:
    place = find_place(framework)
    cp.start_session(place, metadata={"order": 17})
    cp.release_session(place)
    asyncio.run(STORIES[framework](cp, place, effects))  # type: ignore[arg-type]
    assert effects.read_text()


@pytest.mark.parametrize("own", ["lora-7", {"framework": "X"}], ids=["text", "framework"])
@pytest.mark.parametrize("framework", STORIES)
def test_session_keeps_metadata_of_its_own_that_are_called_adapter(
    cp: SyncCheckpointer, effects: Path, framework: str, own: object
) -> None:
    place = find_place(framework)
    cp.start_session(place, metadata={"adapter": own})
    cp.release_session(place)
    asyncio.run(STORIES[framework](cp, place, effects))  # type: ignore[arg-type]
    assert effects.read_text()
    metadata = json.loads(get_metadata(place))
    assert metadata[FRAMEWORK_MARK] == framework
    if framework != "Claude Agent SDK":  # its transcript describes the session in place of `start_session`
        assert metadata["adapter"] == own


@pytest.mark.parametrize("framework", STORIES)
def test_message_of_a_native_agent_joins_a_session_of_a_framework(
    cp: SyncCheckpointer, effects: Path, framework: str
) -> None:
    place = find_place(framework)
    asyncio.run(STORIES[framework](cp, place, effects))  # type: ignore[arg-type]
    latest = cp.load_latest(place)
    assert latest is not None
    said = [{"role": "user", "content": "Call me back, please."}]
    assert cp.append_checkpoint(place, said, expected_version=latest["version"]) == latest["version"] + 1


def test_fork_is_a_session_of_the_framework_of_its_origin(cp: SyncCheckpointer, effects: Path) -> None:
    asyncio.run(run_openai_agents(cp, "order-17", effects))
    cp.fork_session("order-17", "fork")
    asyncio.run(HarnessSession("fork", cp).add_items([{"role": "user", "content": "Thanks."}]))
    with pytest.raises(SessionOfOtherFramework):
        asyncio.run(run_langgraph(cp, "fork", effects))


def test_frameworks_that_begin_a_session_at_the_same_time_do_not_share_it(
    cp: SyncCheckpointer, effects: Path, tmp_path: Path, open_checkpointer: Callable[..., SyncCheckpointer]
) -> None:
    cp.start_session("order-17")
    cp.release_session("order-17")
    stories = [(run_langgraph, cp), (run_pydantic_ai, open_checkpointer()), (run_openai_agents, open_checkpointer())]

    async def run_all() -> list[Any]:
        runs = [story(client, "order-17", tmp_path / story.__name__) for story, client in stories]
        return await asyncio.gather(*runs, return_exceptions=True)

    refused = [each for each in asyncio.run(run_all()) if isinstance(each, BaseException)]
    assert len(refused) == 2
    assert len(list(tmp_path.glob("run_*"))) <= 1
