"""Two programs of Claude Code in two processes on one database: on two sessions, and on one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import project_key_for_directory

from checkpoints import SyncCheckpointer
from checkpoints.adapters.claude import HarnessSessionStore
from checkpoints.models import Run, ToolCall
from examples.claude_refunds.agent import REFUND
from examples.kill_and_decision_helpers import AFTER_EFFECT, BEFORE_EFFECT
from tests.adapters.claude.real_program_agents import SESSION_ID, Place, encode_place, run_turn
from tests.adapters.claude.scripted_model_server import Block, serve_scripted_model
from tests.adapters.claude.transcripts import read_file
from tests.conftest import StartChild
from tests.support.claude_program import find_program_path
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.processes import Child, database_url, wait_until

PROMPT = "Please refund order 17."
OTHER_ID = "0d9c6c1e-0000-4000-8000-000000000018"


def wait_while_exists(path: str) -> None:
    Path(f"{path} reached").touch()
    deadline = time.monotonic() + 60
    while Path(path).exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def wait_until_reached(path: Path, child: Child) -> None:
    deadline = time.monotonic() + 60
    while not Path(f"{path} reached").exists():
        assert time.monotonic() < deadline
        assert child.code is None
        time.sleep(0.02)


def answer(hold: Path, messages: list[dict[str, Any]]) -> list[Block]:
    """Play the model: refund what was asked for, unless that is done; it tries once after each prompt."""
    blocks = [block for each in messages if each["role"] == "user" for block in list_blocks(each["content"])]
    asked = [number for number, block in enumerate(blocks) if PROMPT in block.get("text", "")]
    results = (
        [json.dumps(block["content"]) for block in blocks[asked[0] :] if block["type"] == "tool_result"]
        if asked
        else []
    )
    if not asked or any("refunded" in text for text in results) or blocks[-1]["type"] == "tool_result":
        return [{"type": "text", "text": results[-1] if results else "Hello."}]
    wait_while_exists(str(hold))
    return [{"type": "tool_use", "name": REFUND, "input": {"order": 17, "amount": 40}}]


def list_blocks(content: Any) -> list[Block]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def run_program(
    url: str, place: dict[str, str], prompt: str, options: dict[str, Any], hold: str = "", *, dies: bool = False
) -> str:
    """Run a turn that waits before the effect of its tool while the file `hold` exists, and may die after it."""

    def wait_or_die(moment: str) -> None:
        if hold and moment == BEFORE_EFFECT:
            wait_while_exists(hold)
        if dies and moment == AFTER_EFFECT:
            os.kill(os.getpid(), signal.SIGKILL)

    async def run() -> Any:
        async with HarnessSessionStore.open(url) as store:
            return await run_turn(store, Place(**place), prompt, wait_or_die, **options)

    result = asyncio.run(run())
    return f"{result.stop_reason}: {result.result}"


class Hosts:
    """Two hosts with one folder of the project and one file of effects, each with a model of its own."""

    def __init__(self, start_child: StartChild, folder: Path, models: list[str]) -> None:
        self._start_child = start_child
        self.in_tool, self.in_second_model = folder / "tool", folder / "model b"
        self.places = [
            Place(model, str(folder / "effects"), str(folder / "cwd"), str(folder / f"home {name}"))
            for name, model in zip("ab", models, strict=True)
        ]
        self.key: Any = {"project_key": project_key_for_directory(self.places[0].cwd), "session_id": SESSION_ID}

    def start(self, number: int, prompt: str = PROMPT, **arguments: Any) -> Child:
        arguments.setdefault("options", {"resume": SESSION_ID})
        place = encode_place(self.places[number])
        return self._start_child(run_program, url=database_url(), place=place, prompt=prompt, **arguments)

    def read_effects(self) -> list[str]:
        path = Path(self.places[0].effects)
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def hosts(start_child: StartChild, tmp_path: Path) -> Iterator[Hosts]:
    assert find_program_path().exists(), "Run `make adapters`, which fetches Claude Code."
    for name in ("cwd", "home a", "home b"):
        (tmp_path / name).mkdir()
    first, second = (partial(answer, tmp_path / f"model {name}") for name in "ab")
    with serve_scripted_model(first) as a, serve_scripted_model(second, first_number=1000) as b:
        yield Hosts(start_child, tmp_path, [a, b])


def list_texts(cp: SyncCheckpointer, hosts: Hosts) -> str:
    latest = cp.load_latest(f"{hosts.key['project_key']}/{SESSION_ID}")
    assert latest is not None
    return json.dumps(latest["transcript"])


def test_two_programs_on_two_sessions_do_not_wait_for_each_other(cp: SyncCheckpointer, hosts: Hosts) -> None:
    hosts.in_tool.touch()
    first = hosts.start(0, options={"session_id": SESSION_ID}, hold=str(hosts.in_tool))
    wait_until_reached(hosts.in_tool, first)
    second = hosts.start(1, options={"session_id": OTHER_ID})
    assert "refunded 40 for order 17" in second.result()
    hosts.in_tool.unlink()
    assert "refunded 40 for order 17" in first.result()
    assert hosts.read_effects() == ["17 40"] * 2
    for place, session_id in zip(hosts.places, (SESSION_ID, OTHER_ID), strict=True):
        (path,) = Path(place.home, ".claude", "projects").glob(f"*/{session_id}.jsonl")
        lines = [line for line in read_file(path) if not line["type"].startswith("api-request")]
        assert asyncio.run(HarnessSessionStore(cp).load({**hosts.key, "session_id": session_id})) == lines
    assert not Run.objects.filter(status="running").exists()


@pytest.mark.parametrize(
    ("second_starts", "is_new"),
    mark_all_but_each(
        3,
        [
            ("before the first", False),
            ("while the first is in its tool", False),
            ("while the first is in its tool", True),
        ],
    ),
)
def test_a_program_on_the_session_of_another_one_is_refused_and_the_next_run_knows_what_the_first_did(
    cp: SyncCheckpointer, hosts: Hosts, second_starts: str, is_new: bool
) -> None:
    options = {"session_id" if is_new else "resume": SESSION_ID}
    if not is_new:
        hosts.start(0, "Hello", options={"session_id": SESSION_ID}).result()
    hosts.in_second_model.touch()
    hosts.in_tool.touch()
    children = dict[int, Child]()
    for number in (1, 0) if second_starts == "before the first" else (0, 1):
        children[number] = hosts.start(number, hold="" if number else str(hosts.in_tool), options=options)
        wait_until_reached(hosts.in_second_model if number else hosts.in_tool, children[number])
    time.sleep(2)  # the lines of the second program have been refused as often as the SDK tries
    hosts.in_tool.unlink()
    assert "refunded 40 for order 17" in children[0].result()
    hosts.in_second_model.unlink()
    assert "The call was not made" in children[1].result()
    assert hosts.read_effects() == ["17 40"]
    assert "The call was not made" not in list_texts(cp, hosts)
    assert "refunded 40 for order 17" in hosts.start(1, "Please continue.").result()
    assert hosts.read_effects() == ["17 40"]
    assert ToolCall.objects.get().status == "completed"
    stored = asyncio.run(HarnessSessionStore(cp).load(hosts.key)) or []
    uuids = {line.get("uuid") for line in stored}
    assert [line for line in stored if line.get("parentUuid", None) not in {None, *uuids}] == []


def test_a_program_on_the_session_in_which_another_one_died_asks_and_makes_no_call(
    cp: SyncCheckpointer, hosts: Hosts
) -> None:
    hosts.start(0, "Hello", options={"session_id": SESSION_ID}).result()
    store = HarnessSessionStore(cp)
    greeting = asyncio.run(store.load(hosts.key)) or []
    hosts.in_second_model.touch()
    second = hosts.start(1)
    wait_until_reached(hosts.in_second_model, second)
    # The first program would be refused if lines of the second one were stored after it has read the session.
    wait_until(lambda: asyncio.run(store.load(hosts.key)) != greeting)
    assert hosts.start(0, dies=True).died_by() == signal.SIGKILL
    hosts.in_second_model.unlink()
    assert second.result().startswith("tool_deferred")
    (call,) = cp.pending_tool_calls(f"{hosts.key['project_key']}/{SESSION_ID}")
    about: Any = {"actor": "alice", "reason": "Looked it up.", "revision": call["revision"]}
    cp.confirm_landed(
        f"{hosts.key['project_key']}/{SESSION_ID}", call["call_id"], "refunded 40, as Alice says", **about
    )
    assert "refunded 40, as Alice says" in hosts.start(0, "Please continue.").result()
    assert hosts.read_effects() == ["17 40"]
