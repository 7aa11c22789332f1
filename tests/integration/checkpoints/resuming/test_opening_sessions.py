"""One flow starts a session or resumes it, and it always passes the gate."""

from __future__ import annotations

from typing import Any

import pytest

from checkpoints import SyncCheckpointer, flows
from checkpoints.exceptions import InvalidIdentifier, ReviewRequired
from checkpoints.models import Session
from checkpoints.resuming import gate
from checkpoints.resuming.gate import ResumePoint
from checkpoints.resuming.starting import Description
from tests.conftest import Open
from tests.integration.checkpoints.situations import started, statuses, talk


def open_session(cp: SyncCheckpointer, session_id: str = "s", **options: Any) -> ResumePoint:
    return flows.drive(gate.open_flow(cp.store, session_id, Description("Refund order 17", "desk"), **options))


def test_session_that_does_not_exist_is_created(cp: SyncCheckpointer) -> None:
    point = open_session(cp)

    assert (point.transcript, point.version, point.finished) == ([], 0, False)
    assert point.run is not None
    assert (point.run.number, Session.objects.get().title) == (1, "Refund order 17")


def test_session_that_exists_is_resumed_and_keeps_its_description(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        first.start_session("s", "Where is my parcel?")
        first.save_checkpoint("s", talk("ab"), {"goal": 1}, 0.5)
    point = open_session(open_checkpointer())

    assert (point.transcript, point.plan, point.version) == (talk("ab"), {"goal": 1}, 1)
    assert Session.objects.get().title == "Where is my parcel?"


def test_session_with_an_undecided_call_is_held_and_released(open_checkpointer: Open) -> None:
    with started(open_checkpointer()) as first:
        first.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    second = open_checkpointer()
    with pytest.raises(ReviewRequired):
        open_session(second)

    assert statuses() == [("call_1", 1, "interrupted")]
    assert Session.objects.get().owner is None


def test_finished_session_gives_its_result(open_checkpointer: Open) -> None:
    started(open_checkpointer()).finish_session("s", "completed", {"refunded": 40})
    point = open_session(open_checkpointer())

    assert (point.finished, point.result, point.run) == (True, {"refunded": 40}, None)


def test_unusable_id_is_refused(cp: SyncCheckpointer) -> None:
    with pytest.raises(InvalidIdentifier):
        open_session(cp, "")
    assert not Session.objects.exists()
