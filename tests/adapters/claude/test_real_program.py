"""Claude Code itself on the store and the hooks: its lines, its death, its forks, and what a person decides."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ProcessError, project_key_for_directory
from django.db import connection

from checkpoints import SyncCheckpointer
from checkpoints.adapters.claude import HarnessSessionStore
from checkpoints.exceptions import ReviewRequired
from checkpoints.importers import import_transcripts
from checkpoints.models import Run, ToolCall
from examples.claude_refunds.agent import LOOK_UP, REFUND
from tests.adapters.claude.real_program_agents import (
    SESSION_ID,
    Place,
    die_after_refund,
    encode_place,
    kill_program,
    run_turn,
)
from tests.adapters.claude.scripted_model_server import Block, serve_scripted_model
from tests.adapters.claude.transcripts import describe, read_file
from tests.conftest import StartChild
from tests.support.claude_program import find_program_path
from tests.support.processes import database_url


def answer(messages: list[dict[str, Any]]) -> list[Block]:
    """Play the model: look the order up, refund it, and repeat the result. It asks again for a call without one."""
    blocks = [block for each in messages if isinstance(each["content"], list) for block in each["content"]]
    said = [json.dumps(block["content"]) for block in blocks if block["type"] == "tool_result"]
    if not any("paid" in text for text in said):
        return [
            {"type": "text", "text": "One moment."},
            {"type": "tool_use", "name": LOOK_UP, "input": {"order": 17}},
        ]
    if not any("refunded" in text for text in said):
        return [{"type": "tool_use", "name": REFUND, "input": {"order": 17, "amount": 40}}]
    return [{"type": "text", "text": said[-1]}]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    assert find_program_path().exists(), "Run `make adapters`, which fetches Claude Code."
    for name in ("cwd", "home"):
        (tmp_path / name).mkdir()
    with serve_scripted_model(answer) as model:
        yield Place(model, *(str(tmp_path / name) for name in ("effects", "cwd", "home")))


def get_stored_id(place: Place, session_id: str = SESSION_ID) -> str:
    return f"{project_key_for_directory(place.cwd)}/{session_id}"


def read_effects(place: Place) -> list[str]:
    return Path(place.effects).read_text().splitlines()


def run(place: Place, prompt: str = "Please continue.", **options: Any) -> Any:
    async def open_store_and_run() -> Any:
        async with HarnessSessionStore.open(database_url()) as store:
            return await run_turn(store, place, prompt, **options)

    return asyncio.run(open_store_and_run())


def decide(cp: SyncCheckpointer, session_id: str, kind: str, *values: Any) -> None:
    (call,) = cp.pending_tool_calls(session_id)
    about = {"actor": "alice", "reason": "Looked it up.", "revision": call["revision"]}
    getattr(cp, kind)(session_id, call["call_id"], *values, **about)


def test_a_run_is_stored_as_in_its_file_and_its_call_is_logged_before_it_runs(
    cp: SyncCheckpointer, place: Place
) -> None:
    logged: list[Any] = []
    calls = ToolCall.objects.filter(tool=REFUND).values_list("status", flat=True)

    def look(moment: str) -> None:
        with ThreadPoolExecutor() as pool:  # Django makes no query in the thread of an event loop
            logged.append(pool.submit(read_and_close).result())

    def read_and_close() -> list[str]:
        found = list(calls.all())
        connection.close()
        return found

    Path(place.cwd, "notes.txt").write_text("Be kind to Alice.")
    result = run(place, "Please refund order 17, see @notes.txt", die=look, session_id=SESSION_ID)
    assert "refunded 40 for order 17" in result.result
    assert logged == [["issued"]] * 3
    project = project_key_for_directory(place.cwd)
    path = Path(place.home, ".claude", "projects", project, f"{SESSION_ID}.jsonl")
    # The program gives the SDK all lines but its records of requests.
    lines = [line for line in read_file(path) if not line["type"].startswith("api-request")]
    stored = asyncio.run(HarnessSessionStore(cp).load({"project_key": project, "session_id": SESSION_ID}))
    assert [json.dumps(line) for line in stored or ()] == [json.dumps(line) for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    import_transcripts(cp, path)
    assert describe(cp, get_stored_id(place)) == describe(cp, SESSION_ID)
    transcript = (cp.load_latest(SESSION_ID) or {})["transcript"]
    assert [each["role"] for each in transcript] == ["user", "system", *["assistant", "user"] * 2, "assistant"]
    assert transcript[1]["content"][0]["attachment"]["displayPath"] == "notes.txt"
    refund = ToolCall.objects.get(tool=REFUND, session__session_id=get_stored_id(place))
    assert (refund.status, refund.side_effects) == ("completed", "mutate")
    assert not Run.objects.filter(session=refund.session, status="running").exists()


def test_a_killed_agent_asks_in_each_fork_and_has_one_effect(
    cp: SyncCheckpointer, start_child: StartChild, place: Place
) -> None:
    child = start_child(die_after_refund, url=database_url(), place=encode_place(place))
    assert child.died_by() == signal.SIGKILL
    shutil.rmtree(Path(place.home, ".claude"), ignore_errors=True)
    origin = run(place, resume=SESSION_ID)
    fork = run(place, resume=SESSION_ID, fork_session=True)
    assert [each.stop_reason for each in (origin, fork)] == ["tool_deferred"] * 2
    decide(cp, get_stored_id(place), "confirm_landed", "refunded 40, as Alice says")
    assert "refunded 40, as Alice says" in run(place, resume=SESSION_ID).result
    again = run(place, resume=fork.session_id, fork_session=True)
    assert again.stop_reason == "tool_deferred"
    assert read_effects(place) == ["17 40"]
    decide(cp, get_stored_id(place, again.session_id), "mark_failed")
    assert "refunded 40 for order 17" in run(place, resume=again.session_id).result
    assert read_effects(place) == ["17 40"] * 2
    assert not Run.objects.filter(status="running").exists()


def test_a_killed_program_is_asked_about_by_the_process_that_started_it(cp: SyncCheckpointer, place: Place) -> None:
    async def run_and_continue() -> Any:
        async with HarnessSessionStore.open(database_url()) as store:
            with pytest.raises(ProcessError):
                await run_turn(store, place, "Please refund order 17.", kill_program, session_id=SESSION_ID)
            return await run_turn(store, place, "Please continue.", resume=SESSION_ID)

    assert asyncio.run(run_and_continue()).stop_reason == "tool_deferred"
    assert read_effects(place) == ["17 40"]


def test_a_call_of_a_killed_agent_that_is_confirmed_before_the_next_run_is_not_made_again(
    cp: SyncCheckpointer, start_child: StartChild, place: Place
) -> None:
    child = start_child(die_after_refund, url=database_url(), place=encode_place(place))
    assert child.died_by() == signal.SIGKILL
    with pytest.raises(ReviewRequired):
        cp.start_session(get_stored_id(place))
    decide(cp, get_stored_id(place), "confirm_landed", "refunded 40, as Alice says")
    assert "refunded 40, as Alice says" in run(place, resume=SESSION_ID).result
    assert read_effects(place) == ["17 40"]
    call = ToolCall.objects.get(tool=REFUND)
    assert (call.status, call.answered_version is not None) == ("completed", True)
