"""The demo agent completes its session although it is killed at any moment."""

import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from pathlib import Path

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.enums import CallStatus, RunStatus
from checkpoints.exceptions import DecisionRefused, SessionNotFound
from checkpoints.models import Run
from tests.conftest import StartChild
from tests.integration.demo import killable_demo
from tests.support.processes import Child, database_url

NEVER = "1000000"


@dataclass(frozen=True)
class Desk:
    """Successive processes of the demo agent, and decisions according to the ledger."""

    checkpointer: SyncCheckpointer
    start_child: StartChild
    folder: Path
    session_id: str = "order-17"

    def start(self, moment: str = NEVER, *options: str) -> Child:
        arguments = [f"--session={self.session_id}", f"--state={self.folder}", f"--database={database_url()}", *options]
        return self.start_child(killable_demo.live, moment=moment, arguments=arguments)

    def live(self, moment: str = NEVER, *options: str) -> int:
        """Run one process to its end; return its exit code, negative for a signal."""
        process = self.start(moment, *options)
        while (code := process.code) is None:
            self.decide()
            time.sleep(0.02)
        return code

    def decide(self) -> None:
        """Decide about each undecided refund according to the ledger."""
        for call in self.undecided():
            which = {"revision": call["revision"], "step": call["step"], "attempt": call["attempt"]}
            decide: Callable[..., None] = self.checkpointer.approve_rerun
            if self.lines("ledger"):
                which["result_text"] = "Refunded, seen in the ledger."
                decide = self.checkpointer.confirm_landed
            with suppress(DecisionRefused):
                decide(self.session_id, call["call_id"], actor="alice", reason="Seen in the ledger.", **which)

    def undecided(self) -> list[dict[str, str]]:
        with suppress(SessionNotFound):
            pending = self.checkpointer.pending_tool_calls(self.session_id)
            return [
                call
                for call in pending
                if call["status"] == CallStatus.INTERRUPTED and call["tool_name"] == "refund_card"
            ]
        return []

    def lines(self, book: str) -> int:
        path = self.folder / f"{book}.jsonl"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def expect_good_end(self) -> None:
        """Check for one refund, one mail, one result per call, and a second resume that runs nothing."""
        point = self.checkpointer.resume(self.session_id)
        assert point.finished
        assert point.result == {"order": 17, "refunded": True, "customer_told": True}
        blocks = [block for message in point.transcript for block in message["blocks"]]
        calls = Counter(block["id"] for block in blocks if block["kind"] == "tool_call")
        assert Counter(block["call_id"] for block in blocks if block["kind"] == "tool_result") == calls
        assert list(calls.values()) == [1] * 5
        assert point.plan is not None
        assert [step["status"] for step in point.plan["steps"]] == ["done"] * 5
        assert (self.lines("ledger"), self.lines("outbox")) == (1, 1)


@pytest.fixture
def desk(cp: SyncCheckpointer, start_child: StartChild, tmp_path: Path) -> Desk:
    return Desk(cp, start_child, tmp_path)


def test_agent_completes_without_a_kill(desk: Desk) -> None:
    assert desk.live() == 0
    desk.expect_good_end()


def test_killed_before_each_of_many_statements(cp: SyncCheckpointer, start_child: StartChild, tmp_path: Path) -> None:
    kills = 0
    for statement in count(2, 8):
        desk = Desk(cp, start_child, tmp_path / str(statement), f"order-17, killed before statement {statement}")
        killed = desk.live(str(statement)) == -signal.SIGKILL
        if killed:
            assert desk.live() == 0
        desk.expect_good_end()
        if not killed:
            break
        kills += 1
    assert kills >= 6


@pytest.mark.parametrize("book", ["ledger", "outbox"])
def test_killed_between_the_intent_and_the_effect(desk: Desk, book: str) -> None:
    assert desk.live(f"{book}.jsonl") == -signal.SIGKILL
    assert desk.lines(book) == 0
    assert desk.live() == 0
    desk.expect_good_end()


@pytest.mark.parametrize("tool", ["refund_card", "send_email"])
def test_killed_between_the_effect_and_its_record(desk: Desk, tool: str) -> None:
    assert desk.live(NEVER, f"--crash-once={tool}") == -signal.SIGKILL
    assert desk.live() == 0
    desk.expect_good_end()


def test_agent_completes_after_repeated_kills(desk: Desk) -> None:
    for statements in range(12, 84, 8):
        desk.live(str(statements), "--crash-once=refund_card", "--crash-once=send_email")
    assert desk.live() == 0
    desk.expect_good_end()


def test_killed_while_it_waits_at_the_gate(desk: Desk) -> None:
    assert desk.live(NEVER, "--crash-once=refund_card") == -signal.SIGKILL
    for _ in range(2):
        waiting = desk.start()
        while not Run.objects.filter(pid=waiting.pid, status=RunStatus.WAITING).exists():
            assert waiting.code is None
            time.sleep(0.02)
        waiting.kill()
    assert len(desk.undecided()) == 1
    desk.decide()
    assert desk.live() == 0
    desk.expect_good_end()


def test_exhausted_budget_stays_exhausted(desk: Desk) -> None:
    """The model answer that requests the refund exceeds the budget: the refund is settled, and no other call starts."""
    budget = Decimal("0.008")
    assert desk.live(NEVER, f"--budget={budget}", "--crash-once=refund_card") == -signal.SIGKILL
    assert desk.live(NEVER, f"--budget={budget}") == 0
    point = desk.checkpointer.resume(desk.session_id)
    assert point.result == {"error": "The budget is used up."}
    assert point.budget_spent_usd >= budget
    assert desk.live(NEVER, "--budget=1") == 0
    assert desk.checkpointer.resume(desk.session_id) == point
    assert (desk.lines("ledger"), desk.lines("outbox")) == (1, 0)
