"""Deadlines of peer calls: extension, expiry by the sweep, and concurrent sweepers."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F

from checkpoints import SyncCheckpointer
from checkpoints.db.clock import read_database_time
from checkpoints.exceptions import InvalidInput, PeerCallNotFound, PeerCallOver
from checkpoints.models import AuditEvent, PeerCall, Session, Workspace
from checkpoints.peers import Swept
from tests.conftest import Open
from tests.integration.checkpoints.peers.paused_agents import (
    accepted,
    expire_deadlines,
    join,
    pause,
    peer_call_statuses,
)


def deadline(call_id: str = "c1") -> datetime:
    return PeerCall.objects.get(call_id=call_id).deadline


def test_call_of_a_silent_peer_expires(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    """The sweep expires the call, its join becomes complete, and the run continues."""
    pause(cp, join("j", "c1", "c2", deadline=3600))
    accepted(cp, "c1", "yes")
    assert cp.sweep_deadlines() == Swept()
    expire_deadlines("c2")

    assert open_checkpointer().sweep_deadlines() == Swept(("c2",), (("s", "j"),))
    assert open_checkpointer().sweep_deadlines() == Swept()
    results = cp.take_paused("s").results
    assert [(result.status, result.answered, result.result) for result in results.values()] == [
        ("answered", True, "yes"),
        ("expired", False, None),
    ]
    assert AuditEvent.objects.filter(kind="peer_expired").count() == 1


def test_answered_call_does_not_expire(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1", "c2"))
    accepted(cp, "c1")
    expire_deadlines("c1", "c2")

    assert cp.sweep_deadlines() == Swept(("c2",), (("s", "j"),))
    assert peer_call_statuses() == {"c1": "answered", "c2": "expired"}


def test_expired_calls_of_one_join_complete_it_once(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1", "c2", "c3"), join("k", "c4", "c5"))
    expire_deadlines("c1", "c2", "c3", "c4")

    assert cp.sweep_deadlines() == Swept(("c1", "c2", "c3", "c4"), (("s", "j"),))
    assert accepted(cp, "c5") == (True, 2, 2)


@pytest.mark.unsealed("its number of statements is that without seals")
def test_call_extended_during_the_sweep_does_not_expire(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    """The deadline is extended after the sweep has selected the call and before it expires it."""
    pause(cp, join("j", "c1"))
    expire_deadlines("c1")
    pending_revision: list[str] = []

    def extend(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("UPDATE") and "checkpoints_peercall" in sql:
            pending_revision.append(sql)
            if len(pending_revision) == 1:
                PeerCall.objects.update(deadline=F("deadline") + timedelta(days=1))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(extend):
        assert cp.sweep_deadlines() == Swept()
    assert len(pending_revision) == 2
    assert peer_call_statuses() == {"c1": "waiting"}


def test_extend_deadline(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1", deadline=60))
    first = deadline()
    before = read_database_time("default")
    make_notices_due = cp.extend_deadline("c1", 3600)

    assert make_notices_due == deadline() >= before + timedelta(seconds=3600)
    assert cp.extend_deadline("c1", timedelta(seconds=1)) == make_notices_due > first
    moment = make_notices_due + timedelta(hours=1)
    assert cp.extend_deadline("c1", moment) == deadline() == moment
    assert cp.extend_deadline("c1", first) == moment


def test_deadline_that_has_passed_can_be_extended_until_the_sweep(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1", "c2"))
    expire_deadlines("c1", "c2")
    cp.extend_deadline("c1", 60)

    assert cp.sweep_deadlines() == Swept(("c2",))
    with pytest.raises(PeerCallOver, match="expired"):
        cp.extend_deadline("c2", 60)


def test_deadline_of_an_answered_call_is_not_extended(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1", "c2"))
    accepted(cp, "c1")

    with pytest.raises(PeerCallOver, match="answered"):
        cp.extend_deadline("c1", 60)
    with pytest.raises(PeerCallNotFound):
        cp.extend_deadline("c9", 60)
    with pytest.raises(InvalidInput):
        cp.extend_deadline("c2", -1)
    cp.cancel_paused("s")
    with pytest.raises(PeerCallOver, match="cancelled"):
        cp.extend_deadline("c2", 60)


def test_sweep_has_a_limit_and_completes_a_started_session(cp: SyncCheckpointer) -> None:
    for number in range(3):
        pause(cp, join("j", f"a{number}", f"b{number}"), session_id=f"s{number}")
        expire_deadlines(f"a{number}", f"b{number}")

    assert [len(cp.sweep_deadlines(limit=3).expired) for _ in range(3)] == [4, 2, 0]


def test_sweep_is_limited_to_its_workspace(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    Workspace.objects.create(slug="other", name="Other")
    pause(cp, join("j", "c1"))
    expire_deadlines("c1")

    assert open_checkpointer(workspace="other").sweep_deadlines() == Swept()
    assert cp.sweep_deadlines().expired == ("c1",)


def test_sweep_during_a_run_that_works_on_another_join(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1"), join("k", "c2"))
    accepted(cp, "c1")
    cp.take_paused("s")
    expire_deadlines("c2")

    assert cp.sweep_deadlines() == Swept(("c2",), (("s", "k"),))
    assert cp.append_checkpoint("s", [], expected_version=1) == 2
    assert Session.objects.get().status == "active"
