"""Models that make the same calls again and again, processes that die anywhere, ids old and new: compared with a plain
model of what has to happen.

The history of a session is a list of answers of a model. Each asks for some calls; a process makes them one after the
other, and saves their results with the answer. It may die before any of them, inside or after; then the model is asked
once more, and makes the same calls, with the same ids or with others, or fewer, or more.
"""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import SyncCheckpointer, ToolRegistry, ToolResult
from checkpoints.models import ToolCall, Workspace
from tests.support.exhaustive_mode import count_examples

pytestmark = pytest.mark.django_db(transaction=True)

COMMANDS = ["test", "lint"]


@dataclass(frozen=True)
class Turn:
    """One time that the model is asked. `made` calls are dispatched, then the process dies or saves (`saved`)."""

    asked: tuple[str, ...]
    made: int
    saved: bool
    ids: str
    how: str
    order: tuple[int, ...] = ()


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    asked = tuple(draw(st.lists(st.sampled_from(COMMANDS), min_size=1, max_size=4)))
    return Turn(
        asked,
        made=draw(st.integers(0, len(asked))),
        saved=draw(st.booleans()),
        ids=draw(st.sampled_from(["numbers", "new"])),
        how=draw(st.sampled_from(["save", "append", "compact"])),
        order=tuple(draw(st.permutations(range(len(asked))))),
    )


@dataclass
class World:
    """Record of tool executions with their results."""

    ran: Counter[str] = field(default_factory=Counter)

    def bash(self, command: str) -> str:
        self.ran[command] += 1
        return f"{command} #{self.ran[command]}"


@dataclass
class Expected:
    """The plain model: results of each command that ran and were not saved, in the order in which they ran."""

    open: dict[str, list[str]] = field(default_factory=lambda: {command: [] for command in COMMANDS})
    ran: Counter[str] = field(default_factory=Counter)

    def results(self, commands: list[str]) -> list[tuple[str, bool]]:
        """Return the result of each call: the n-th of a kind gets the n-th open result, or a new one."""
        seen: Counter[str] = Counter()
        given = []
        for command in commands:
            replayed = seen[command] < len(self.open[command])
            if not replayed:
                self.ran[command] += 1
                self.open[command].append(f"{command} #{self.ran[command]}")
            given.append((self.open[command][seen[command]], replayed))
            seen[command] += 1
        return given

    def saved(self, contents: list[str]) -> None:
        for content in contents:
            self.open[content.split()[0]].remove(content)


class Agent:
    """Plays the history on a real database. Every process is another checkpointer."""

    def __init__(self) -> None:
        self.session_id, self.world = str(uuid.uuid4()), World()
        self.dead: list[SyncCheckpointer] = []
        self.born()

    def born(self) -> None:
        self.cp = SyncCheckpointer()
        self.dead.append(self.cp)
        self.cp.start_session(self.session_id, takeover=True)
        latest = self.cp.load_latest(self.session_id)
        self.transcript: list[dict[str, Any]] = latest["transcript"] if latest else []
        self.version = latest["version"] if latest else 0
        self.registry = ToolRegistry(checkpointer=self.cp, session_id=self.session_id, idempotency="unanswered")
        self.registry.tool(self.world.bash)

    def call_ids(self, turn: Turn) -> list[str]:
        new = uuid.uuid4().hex
        return [f"call_{number}" if turn.ids == "numbers" else f"{new}_{number}" for number in range(len(turn.asked))]

    def make(self, turn: Turn, call_ids: list[str]) -> list[ToolResult]:
        made = list(zip(call_ids, turn.asked, strict=True))[: turn.made]
        return [self.registry.dispatch("bash", {"command": command}, call_id) for call_id, command in made]

    def save(self, turn: Turn, call_ids: list[str], results: list[ToolResult]) -> None:
        calls: list[dict[str, Any]] = [
            {"id": call_id, "name": "bash", "args": {"command": command}}
            for call_id, command in zip(call_ids, turn.asked, strict=True)
        ]
        told: list[dict[str, Any]] = [
            {"role": "tool", "tool_call_id": result.call_id, "content": result.content} for result in results
        ]
        new: list[dict[str, Any]] = [
            {"role": "assistant", "tool_calls": calls},
            *(told[place] for place in turn.order if place < len(told)),
        ]
        if turn.how == "append":
            self.version = self.cp.append_checkpoint(self.session_id, new, expected_version=self.version)
            self.transcript = [*self.transcript, *new]
            return
        kept = self.transcript[len(self.transcript) // 2 :] if turn.how == "compact" else self.transcript
        self.transcript = [*kept, *new]
        self.version = self.cp.save_checkpoint(self.session_id, self.transcript, None, 0)


@given(history=st.lists(turns(), max_size=8))
@settings(max_examples=count_examples(8))
def test_every_operation_runs_exactly_once(history: list[Turn], workspace: Workspace) -> None:
    agent, expected = Agent(), Expected()
    try:
        for turn in history:
            call_ids = agent.call_ids(turn)
            results = agent.make(turn, call_ids)
            made = list(turn.asked[: turn.made])
            if turn.ids == "new":
                given_ = expected.results(made)
                assert [(result.content, result.replayed) for result in results] == given_
            else:  # a call id that the log knows decides before the order does: as many results, but perhaps others
                given_ = expected.results(made)
                contents = {result.content for result in results}
                assert len(contents) == len(results)
                assert contents <= {content for contents in expected.open.values() for content in contents}
                assert sorted((result.content.split()[0], result.replayed) for result in results) == sorted(
                    (content.split()[0], replayed) for content, replayed in given_
                )
            assert agent.world.ran == +expected.ran
            if turn.saved:
                agent.save(turn, call_ids, results)
                expected.saved([result.content for result in results])
            else:
                agent.born()
        left = ToolCall.objects.filter(session__session_id=agent.session_id, answered_version=None)
        assert left.count() == sum(len(results) for results in expected.open.values())
    finally:
        for dead in agent.dead:
            dead.close()
