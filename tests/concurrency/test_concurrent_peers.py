"""Concurrent responses to a join: each counts once, and exactly one process learns of the completion."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models import F

from checkpoints import SyncCheckpointer
from checkpoints.models import AuditEvent, PausedTask, PeerCall, Session
from checkpoints.models import Join as JoinRow
from checkpoints.peers import Join
from checkpoints.peers import PeerCall as Call
from tests.concurrency.peer_processes import obey
from tests.conftest import StartChild
from tests.support.exhaustive_mode import EXHAUSTIVE
from tests.support.processes import Child, database_url

PROCESSES = 6
ROUNDS = 60 if EXHAUSTIVE else 24

Crew = Callable[[int], list[Child]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "told.log"
    path.touch()
    return path


@pytest.fixture
def crew(start_child: StartChild, log: Path) -> Crew:
    """Start processes that execute commands."""

    def start(count: int) -> list[Child]:
        children = [start_child(obey, url=database_url(), log=str(log)) for _ in range(count)]
        for child in children:
            child.expect("ready")
        return children

    return start


def order(child: Child, do: str, **arguments: Any) -> None:
    child.tell(json.dumps({"do": do, **arguments}))


def at_once(children: list[Child], do: str, *arguments: dict[str, Any]) -> list[Any]:
    """Send a command to all processes at once; return their outcomes."""
    for child, given in zip(children, arguments, strict=True):
        order(child, do, **given)
    return [child.expect("did") for child in children]


def call_ids(session_id: str) -> list[str]:
    return [f"{session_id} call {number}" for number in range(PROCESSES)]


def paused(cp: SyncCheckpointer, session_id: str, **options: Any) -> str:
    cp.start_session(session_id, agent="desk")
    calls = [Call(call_id, "stock", **options) for call_id in call_ids(session_id)]
    cp.pause_for_peers(session_id, {"step": 1}, [Join("j", calls)])
    return session_id


def completed(session_id: str) -> tuple[str, int]:
    join = JoinRow.objects.get(session__session_id=session_id)
    assert PeerCall.objects.filter(join=join, status="answered").count() == join.completed
    return join.status, join.completed


def test_joins_of_six_responses_are_completed_once_each(cp: SyncCheckpointer, crew: Crew) -> None:
    children = crew(PROCESSES)
    for number in range(ROUNDS):
        session_id = paused(cp, f"round {number}")
        answers = at_once(children, "accept", *[{"call": call_id} for call_id in call_ids(session_id)])

        assert sorted(answers, key=lambda answer: int(answer[2])) == [
            ["Accepted", count == PROCESSES, count] for count in range(1, PROCESSES + 1)
        ]
        assert completed(session_id) == ("complete", PROCESSES)
    assert AuditEvent.objects.filter(kind="join_complete").count() == ROUNDS


def test_response_delivered_to_six_processes_counts_once(cp: SyncCheckpointer, crew: Crew) -> None:
    children = crew(PROCESSES)
    for number in range(ROUNDS // 3):
        session_id = paused(cp, f"round {number}")
        answers = at_once(children, "accept", *[{"call": call_ids(session_id)[0]}] * PROCESSES)

        assert sorted(answers) == [["Accepted", False, 1]] + [["Duplicate", False, 0]] * (PROCESSES - 1)
        assert JoinRow.objects.get(session__session_id=session_id).completed == 1


def test_joins_complete_when_processes_are_killed(cp: SyncCheckpointer, crew: Crew) -> None:
    """It is killed before or after its commit; its unacknowledged message is delivered to another process."""
    children = crew(PROCESSES)
    for number in range(ROUNDS // 3):
        session_id = paused(cp, f"round {number}")
        given: list[dict[str, Any]] = [{"call": call_id} for call_id in call_ids(session_id)]
        if number % 2 == 0:
            told = at_once(children, "accept", *given)
        else:
            told = _with_one_killed(children, number, given)
            children += crew(1)

        assert [answer[0] for answer in told].count("Accepted") >= PROCESSES - 1
        assert sum(bool(answer[1]) for answer in told) == 1
        assert completed(session_id) == ("complete", PROCESSES)
        assert [row["session_id"] for row in cp.list_paused(ready=True)][-1] == session_id
    assert AuditEvent.objects.filter(kind="join_complete").count() == ROUNDS // 3


def _with_one_killed(children: list[Child], number: int, given: list[dict[str, Any]]) -> list[Any]:
    """One of them dies in the middle; the answers of the others, and what the one that gets its message is told."""
    doomed = number // 2 % PROCESSES
    given[doomed]["fault"] = 1 + number // 2 % 2
    for child, order_ in zip(children, given, strict=True):
        order(child, "accept", **order_)
    victim = children.pop(doomed)
    assert victim.died_by() == signal.SIGKILL
    told = [child.expect("did") for child in children]
    order(children[0], "accept", call=given[doomed]["call"])
    again = children[0].expect("did")
    # Where a survivor was told already, the join is complete for the second delivery too: that tells nobody else.
    if any(answer[1] for answer in told) and again[0] == "Duplicate":
        again[1] = False
    return [*told, again]


def test_early_responses_race_with_the_pause(crew: Crew) -> None:
    """In any order of the pause and its responses, none is lost and one process learns of the completion."""
    children = crew(PROCESSES)
    pausing, answering = children[0], children[1:]
    for number in range(ROUNDS // 2):
        session_id = f"round {number}"
        order(pausing, "start", session_id=session_id)
        pausing.expect("did")
        calls = [f"{session_id} call {each}" for each in range(len(answering))]
        order(answering[0], "accept", call=calls[0])
        order(pausing, "pause", session_id=session_id, calls=calls)
        for child, call in zip(answering[1:], calls[1:], strict=True):
            order(child, "accept", call=call)
        told = [child.expect("did") for child in children]

        assert told[0][0] == "Paused"
        assert {answer[0] for answer in told[1:]} <= {"Accepted", "Early"}
        assert sum(bool(answer[1]) for answer in told) == 1
        assert completed(session_id) == ("complete", len(answering))


def test_task_of_a_killed_process_is_taken_by_exactly_one_other(cp: SyncCheckpointer, crew: Crew) -> None:
    session_id = paused(cp, "s")
    for call_id in call_ids(session_id):
        cp.accept_response(call_id, "yes")
    children = crew(PROCESSES)
    for times_taken in range(1, PROCESSES):
        took = at_once(children, "take", *[{"session_id": session_id}] * len(children))
        winner = next(index for index, each in enumerate(took) if each != "SessionBusy")

        assert took[winner] == ["TakenTask", call_ids(session_id), times_taken]
        assert took.count("SessionBusy") == len(children) - 1
        assert PausedTask.objects.get().status == "taken"
        children.pop(winner).kill()

    (last,) = children
    order(last, "take", session_id=session_id)
    assert last.expect("did") == ["TakenTask", call_ids(session_id), PROCESSES]
    order(last, "save", session_id=session_id)
    assert last.expect("did") == 1
    assert cp.list_paused() == []


def test_concurrent_sweepers_expire_each_call_once(cp: SyncCheckpointer, crew: Crew) -> None:
    children = crew(PROCESSES)
    for number in range(ROUNDS // 3):
        session_id = paused(cp, f"round {number}")
        calls = PeerCall.objects.filter(session__session_id=session_id)
        calls.update(deadline=F("created_at") - timedelta(seconds=1))
        for child in children[:4]:
            order(child, "sweep")
        for child, call_id in zip(children[4:], call_ids(session_id)[:2], strict=True):
            order(child, "accept", call=call_id)
        swept = [child.expect("did") for child in children[:4]]
        answers = [child.expect("did") for child in children[4:]]

        # A sweep that found the session locked leaves it to the next one.
        order(children[0], "sweep")
        swept.append(children[0].expect("did"))
        answered = [
            call_id for call_id, answer in zip(call_ids(session_id), answers, strict=False) if answer[0] == "Accepted"
        ]
        assert sorted([*answered, *(call for expired, _ in swept for call in expired)]) == call_ids(session_id)
        told = [each for _, complete in swept for each in complete]
        assert len(told) + sum(bool(answer[1]) for answer in answers) == 1
        assert JoinRow.objects.get(session__session_id=session_id).completed == PROCESSES


def test_cancel_notices_reach_all_peers_despite_killed_senders(cp: SyncCheckpointer, crew: Crew, log: Path) -> None:
    """The canceller dies while it notifies the third peer, and the next process at the fifth."""
    session_id = paused(cp, "s")
    calls = call_ids(session_id)
    first, second, third = crew(3)
    order(first, "cancel", session_id=session_id, deadly=calls[2])
    assert first.died_by() == signal.SIGKILL
    assert Session.objects.get().status == "cancelled"
    _time_for_another_attempt()
    order(second, "tell", deadly=calls[4])
    assert second.died_by() == signal.SIGKILL
    _time_for_another_attempt()
    order(third, "tell")

    assert third.expect("did") == calls[4:]
    told = log.read_text().splitlines()
    assert sorted(set(told)) == [f"cancel {call_id}" for call_id in calls]
    assert [told.count(f"cancel {call_id}") for call_id in calls] == [1, 1, 2, 1, 2, 1]


def _time_for_another_attempt() -> None:
    PeerCall.objects.exclude(tell_after=None).update(tell_after=F("created_at"))


def test_concurrent_senders_notify_each_peer_once(cp: SyncCheckpointer, crew: Crew, log: Path) -> None:
    children = crew(PROCESSES)
    for number in range(5):
        paused(cp, f"round {number}", sent=False)
    told = at_once(children, "tell", *[{}] * PROCESSES)

    expected = sorted(f"round {number} call {each}" for number in range(5) for each in range(PROCESSES))
    order(children[0], "tell")
    told.append(children[0].expect("did"))
    assert sorted(call for each in told for call in each) == expected
    assert sorted(log.read_text().splitlines()) == [f"request {call_id}" for call_id in expected]
