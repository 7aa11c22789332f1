"""A session of this library behaves as the SDK expects of any session."""

import asyncio
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner
from agents.memory import Session, SessionSettings
from agents.testing import ScriptedModel, assistant_message

from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.adapters.openai_agents import HarnessSession
from checkpoints.exceptions import InvalidInput, NotRepresentable, SessionBusy, SessionFinished
from checkpoints.models import Checkpoint, Message
from checkpoints.models import Session as SessionRow
from tests.adapters.openai_agents.runs import run_blocking
from tests.adapters.openai_agents.writers import add_in_turns, pop_all, say
from tests.conftest import Open, StartChild
from tests.support.processes import database_url

#: Items of all kinds, known to this library or not.
ITEMS: list[Any] = [
    {"role": "user", "content": "Größe „Ω“ 🙂 '); DROP TABLE sessions; --"},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look first."}]},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look_up", "arguments": '{"order": 17}'},
    {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "paid"}]},
    {"type": "item_of_next_year", "deep": {"null": None, "list": [1, 2.5, True, {"a": []}]}},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Paid.", "annotations": [], "logprobs": []}],
    },
]


def _texts(items: list[Any]) -> list[str]:
    return [str(item["content"]) for item in items]


@pytest.mark.asyncio
async def test_items_come_back_equal_and_in_order(cp: SyncCheckpointer) -> None:
    session = HarnessSession("s", cp)
    assert isinstance(session, Session)
    assert (await session.get_items(), await session.pop_item()) == ([], None)
    await session.add_items(ITEMS[:2])
    await session.add_items([])
    await session.add_items(ITEMS[2:])
    assert await HarnessSession("s", cp).get_items() == ITEMS
    assert await HarnessSession("other", cp).get_items() == []
    assert await session.client.run_blocking(Checkpoint.objects.count) == 2
    roles = await session.client.run_blocking(lambda: list(Message.objects.order_by("position").values_list("role")))
    assert [role for (role,) in roles] == ["user", "assistant", "assistant", "tool", "", "assistant"]


@pytest.mark.asyncio
async def test_limits_select_the_newest_items(cp: SyncCheckpointer) -> None:
    session = HarnessSession("s", cp, session_settings={"limit": 2})
    await session.add_items([say(str(number)) for number in range(5)])
    limits: list[tuple[int | None, list[str]]] = [
        (None, ["3", "4"]),
        (3, ["2", "3", "4"]),
        (0, []),
        (9, ["0", "1", "2", "3", "4"]),
        (-1, ["0", "1", "2", "3", "4"]),
    ]
    assert [(limit, _texts(await session.get_items(limit))) for limit, _ in limits] == limits
    assert session.session_settings == SessionSettings(limit=2)
    with pytest.raises(Exception, match="size"):
        HarnessSession("s", cp, session_settings={"size": 2})


@pytest.mark.asyncio
async def test_popped_and_cleared_items_stay_in_earlier_versions(cp: SyncCheckpointer) -> None:
    session = HarnessSession("s", cp)
    await session.add_items([say("1"), say("2"), say("3")])
    assert [await session.pop_item(), await session.pop_item()] == [say("3"), say("2")]
    await session.add_items([say("4"), say("5")])
    assert _texts(await session.get_items()) == ["1", "4", "5"]
    assert await session.pop_item() == say("5")
    await session.clear_session()
    await session.clear_session()
    assert (await session.get_items(), await session.pop_item()) == ([], None)
    await session.add_items([say("6")])
    assert await session.get_items() == [say("6")]
    lengths = await session.client.run_blocking(
        lambda: list(Checkpoint.objects.order_by("version").values_list("length", flat=True))
    )
    assert lengths == [3, 2, 1, 3, 2, 0, 1]
    assert _texts((await session.client.run_blocking(lambda: cp.load("s", 4)))["transcript"]) == ["1", "4", "5"]


@pytest.mark.asyncio
async def test_items_are_read_when_they_are_added(cp: SyncCheckpointer) -> None:
    session, item = HarnessSession("s", cp), say("before")
    adding = asyncio.ensure_future(session.add_items([item]))
    await asyncio.sleep(0)
    item["content"] = "after"
    await adding
    assert _texts(await session.get_items()) == ["before"]


@pytest.mark.asyncio
async def test_cancelled_change_is_whole(cp: SyncCheckpointer) -> None:
    session = HarnessSession("s", cp)
    adding = asyncio.ensure_future(session.add_items([say("1"), say("2")]))
    await asyncio.sleep(0)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert _texts(await session.get_items()) == ["1", "2"]


@pytest.mark.asyncio
async def test_refused_items_leave_nothing(cp: SyncCheckpointer) -> None:
    session = HarnessSession("s", cp)
    with pytest.raises(NotRepresentable):
        await session.add_items([say("1"), {"role": "user", "content": float("nan")}])
    assert await session.get_items() == []


@pytest.mark.asyncio
async def test_changes_beside_a_live_run_and_after_the_end_are_refused(
    cp: SyncCheckpointer, open_checkpointer: Open
) -> None:
    session = HarnessSession("s", cp)
    other = open_checkpointer()
    await session.client.run_blocking(lambda: other.start_session("s"))
    for change in (session.add_items([say("1")]), session.pop_item(), session.clear_session()):
        with pytest.raises(SessionBusy):
            await change
    await session.client.run_blocking(lambda: other.finish_session("s", "completed"))
    with pytest.raises(SessionFinished):
        await session.add_items([say("1")])


@pytest.mark.asyncio
async def test_changes_of_the_owner_belong_to_its_run(cp: SyncCheckpointer) -> None:
    await HarnessSession("s", cp).client.run_blocking(lambda: cp.start_session("s"))
    session = HarnessSession("s", cp)
    await session.add_items([say("1"), say("2")])
    assert await session.pop_item() == say("2")
    await session.client.run_blocking(lambda: cp.append_checkpoint("s", [say("3")], expected_version=2))
    assert _texts(await session.get_items()) == ["1", "3"]
    assert not await session.client.run_blocking(Checkpoint.objects.filter(run=None).exists)


@pytest.mark.parametrize("method", ["run", "run_sync", "run_streamed"])
def test_agents_remember(workspace: object, method: str) -> None:
    model = ScriptedModel([[assistant_message("San Francisco.")], [assistant_message("California.")]])
    agent = Agent(name="guide", model=model)

    async def ask(question: str, **options: Any) -> str:
        async with Checkpointer.open(database_url()) as checkpointer:
            session = HarnessSession("s", checkpointer, agent="guide")
            if method == "run_sync":
                result: Any = await asyncio.to_thread(run_blocking, agent, question, session=session, **options)
            elif method == "run":
                result = await Runner.run(agent, question, session=session, **options)
            else:
                result = Runner.run_streamed(agent, question, session=session, **options)
                async for _ in result.stream_events():
                    pass
            return str(result.final_output)

    assert asyncio.run(ask("Where is the Golden Gate Bridge?")) == "San Francisco."
    settings = RunConfig(session_settings=SessionSettings(limit=1))
    assert asyncio.run(ask("Which state is that in?", run_config=settings)) == "California."
    assert [item["role"] for item in model.calls[1].input] == ["assistant", "user"]
    row = SessionRow.objects.get()
    assert (row.agent, row.title, row.message_count) == ("guide", "Where is the Golden Gate Bridge?", 4)


def test_client_of_a_server_is_refused(workspace: object) -> None:
    with SyncCheckpointer("http://127.0.0.1:9", token="x") as remote, pytest.raises(InvalidInput):
        HarnessSession("s", remote)


def test_eight_processes_lose_nothing_and_repeat_nothing(start_child: StartChild) -> None:
    url, writers, turns = database_url(), 8, 3
    children = [start_child(add_in_turns, url=url, writer=writer, turns=turns) for writer in range(writers)]
    for child in children:
        child.result()
    texts = _texts(asyncio.run(HarnessSession("shared").get_items()))
    assert len(texts) == writers * turns * 2
    for writer in range(writers):
        mine = [text for text in texts if text.startswith(f"{writer}.")]
        assert mine == [f"{writer}.{turn}.{part}" for turn in range(turns) for part in range(2)]
    assert all(after == before[:-1] + "1" for before, after in zip(texts[::2], texts[1::2], strict=True))
    popped = [start_child(pop_all, url=url) for _ in range(4)]
    assert sorted(text for child in popped for text in child.result()) == sorted(texts)
    assert asyncio.run(HarnessSession("shared").get_items()) == []
