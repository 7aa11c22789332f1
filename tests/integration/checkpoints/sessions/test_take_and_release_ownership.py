"""Ownership: one live run for each session."""

import gc
import json
from typing import Any

import pytest
from django.db.models import F

from checkpoints import SyncCheckpointer
from checkpoints.db.clock import read_database_time
from checkpoints.exceptions import (
    InvalidIdentifier,
    InvalidInput,
    NotOwner,
    NotRepresentable,
    OwnershipLost,
    SessionBusy,
    WorkspaceNotFound,
)
from checkpoints.models import AuditEvent, Checkpoint, Run, Session, ToolCall
from checkpoints.sessions import heartbeat
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import lose_run, start_session


def runs() -> list[tuple[int, str]]:
    return list(Run.objects.order_by("number").values_list("number", "status"))


def audited(kind: str) -> int:
    return AuditEvent.objects.filter(kind=kind).count()


def test_start_creates_a_session_and_a_run(cp: SyncCheckpointer) -> None:
    run = cp.start_session("s", "Where is\n my  parcel?", "You help.", agent="desk", metadata={"a": 1}, labels=["vip"])
    row = Session.objects.get()

    assert (row.session_id, row.title, row.agent, row.status) == ("s", "Where is my parcel?", "desk", "active")
    assert (json.loads(row.metadata), json.loads(row.labels)) == ({"a": 1}, ["vip"])
    assert (run.number, run.status, row.owner_id, row.fence) == (1, "running", run.pk, run.fence)


def test_second_start_returns_the_same_run(cp: SyncCheckpointer) -> None:
    assert cp.start_session("s").pk == cp.start_session("s").pk
    assert runs() == [(1, "running")]


def test_existing_session_keeps_its_description(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        first.start_session("s", "first question", agent="desk")
    open_checkpointer().start_session("s", "second question", agent="other")

    assert Session.objects.values_list("title", "agent").get() == ("first question", "desk")


@pytest.mark.parametrize(
    "session_id",
    ["x" * 255, "世" * 255, "../../etc/passwd", "a/b:c.d e", "..", "🌍", "O'Brien\"; --", "%00", "<b>", "e\u0301"],
    ids=ascii,
)
def test_session_id_of_any_language_works_everywhere(open_checkpointer: Open, session_id: str) -> None:
    cp = open_checkpointer()
    cp.start_session(session_id)
    cp.save_checkpoint(session_id, [{"a": 1}], {}, 0)
    cp.record_tool_call_issued(session_id, session_id, "pay", {}, session_id)
    cp.record_tool_call_result(session_id, session_id, "paid", True)
    cp.close()

    point = open_checkpointer().resume(session_id)
    assert (point.version, point.transcript) == (1, [{"a": 1}])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"session_id": ""}, InvalidIdentifier),
        ({"session_id": "x" * 256}, InvalidIdentifier),
        ({"session_id": 5}, InvalidIdentifier),
        ({"user_message": 5}, InvalidInput),
        ({"user_message": None}, InvalidInput),
        ({"title": ["a"]}, InvalidInput),
        ({"agent": b"desk"}, InvalidInput),
        ({"metadata": {"a": {1}}}, NotRepresentable),
        ({"metadata": ["a"]}, NotRepresentable),
        ({"labels": ["ok", ""]}, InvalidIdentifier),
        ({"labels": "vip"}, InvalidInput),
    ],
    ids=repr,
)
def test_invalid_description_starts_nothing(
    cp: SyncCheckpointer, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        cp.start_session(**({"session_id": "s"} | arguments))
    assert Session.objects.count() == 0


def test_unknown_workspace_is_named(open_checkpointer: Open) -> None:
    with pytest.raises(WorkspaceNotFound):
        open_checkpointer(workspace="nowhere").start_session("s")


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_lease_without_length_is_refused(open_checkpointer: Open, seconds: float) -> None:
    with pytest.raises(InvalidInput):
        open_checkpointer(lease_seconds=seconds)


# busy


def test_session_of_a_live_run_is_busy(open_checkpointer: Open) -> None:
    run = open_checkpointer().start_session("s")
    rival = open_checkpointer()

    for attempt in (rival.start_session, rival.resume):
        with pytest.raises(SessionBusy) as caught:
            attempt("s")
        row = Run.objects.get(pk=run.pk)
        assert (caught.value.last_seen, caught.value.lease_ends) == (row.heartbeat_at, row.lease_expires_at)
        assert caught.value.owner == f"run 1 on {run.host} (pid {run.pid})"
        advice = str(caught.value).partition(" UTC. ")[2]
        assert advice.startswith("Try again when that run has finished or, if its process was killed, when the lease")
    assert runs() == [(1, "running")]


def test_session_of_a_closed_checkpointer_is_free_at_once(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        first.start_session("s")
    second = open_checkpointer().start_session("s")

    assert (second.number, second.resumed_from_id) == (2, Run.objects.get(number=1).pk)
    assert runs() == [(1, "released"), (2, "running")]


def test_session_of_a_forgotten_checkpointer_is_free_at_once(workspace: object, open_checkpointer: Open) -> None:
    forgotten = SyncCheckpointer()
    forgotten.start_session("s")
    del forgotten
    gc.collect()

    assert open_checkpointer().start_session("s").number == 2
    assert (runs(), audited("run_lost")) == ([(1, "lost"), (2, "running")], 1)


def test_session_with_an_expired_lease_is_free(open_checkpointer: Open) -> None:
    first = start_session(open_checkpointer())
    Run.objects.update(lease_expires_at=F("started_at"))
    second = open_checkpointer().start_session("s")

    assert (second.number, runs()) == (2, [(1, "lost"), (2, "running")])
    with pytest.raises(OwnershipLost):
        first.save_checkpoint("s", [], None, 0)


def test_takeover_ends_a_live_run(open_checkpointer: Open) -> None:
    first = start_session(open_checkpointer())
    lose_run(open_checkpointer)

    assert (runs(), audited("takeover"), audited("run_lost")) == ([(1, "lost"), (2, "running")], 1, 0)
    with pytest.raises(OwnershipLost):
        first.save_checkpoint("s", [], None, 0)


def test_call_without_an_outcome_is_a_sign_of_life(open_checkpointer: Open) -> None:
    first = start_session(open_checkpointer())
    first.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    Run.objects.update(heartbeat_at=F("started_at"))
    lose_run(open_checkpointer)

    seen_at = Run.objects.get(number=1).heartbeat_at
    assert seen_at == ToolCall.objects.get().issued_at
    assert json.loads(AuditEvent.objects.get(kind="takeover").details)["last_seen"] == seen_at.isoformat()


def test_version_is_a_sign_of_life(open_checkpointer: Open) -> None:
    start_session(open_checkpointer()).save_checkpoint("s", [], None, 0)
    Run.objects.update(heartbeat_at=F("started_at"))
    lose_run(open_checkpointer)
    assert Run.objects.get(number=1).heartbeat_at == Checkpoint.objects.get().created_at


@pytest.mark.parametrize(
    ("takeover", "why"), [(True, None), ("worker-3 hangs,\nsays the pager", "worker-3 hangs, says the pager")]
)
def test_takeover_is_recorded_with_who_took_it_and_why(
    open_checkpointer: Open, takeover: bool | str, why: str | None
) -> None:
    start_session(open_checkpointer())
    run = open_checkpointer().start_session("s", takeover=takeover)

    event = AuditEvent.objects.get(kind="takeover")
    details = json.loads(event.details)
    assert (event.actor, details["taken_by"], details["host"]) == ("run 1", "run 2", run.host)
    assert (details["pid"], details["why"]) == (run.pid, why)


def test_lost_run_raises_ownership_lost_once(open_checkpointer: Open) -> None:
    first = start_session(open_checkpointer())
    lose_run(open_checkpointer)

    with pytest.raises(OwnershipLost):
        first.save_checkpoint("s", [], None, 0)
    with pytest.raises(NotOwner):
        first.save_checkpoint("s", [], None, 0)
    with pytest.raises(SessionBusy):
        first.start_session("s")


def test_fence_only_grows(open_checkpointer: Open) -> None:
    fences = []
    for _ in range(4):
        with open_checkpointer() as cp:
            fences.append(cp.start_session("s").fence)
        fences.append(Session.objects.get().fence)

    assert fences == sorted(set(fences))


def test_one_checkpointer_owns_many_sessions(cp: SyncCheckpointer) -> None:
    for session_id in ("a", "b", "c"):
        cp.start_session(session_id)
    cp.close()

    assert set(Run.objects.values_list("status", flat=True)) == {"released"}
    with pytest.raises(NotOwner):
        cp.save_checkpoint("a", [], None, 0)


def test_heartbeat_renews_by_the_databases_clock(cp: SyncCheckpointer) -> None:
    start_session(cp)
    Run.objects.update(heartbeat_at=F("started_at"), lease_expires_at=F("started_at"))
    before = read_database_time("default")
    heartbeat.renew_store_leases_and_count_owned_runs(cp.store)
    run = Run.objects.get()

    assert run.heartbeat_at >= before
    assert run.lease_expires_at - run.heartbeat_at == cp.store.lease


def test_heartbeat_does_not_revive_a_lost_run(open_checkpointer: Open) -> None:
    first = start_session(open_checkpointer())
    lose_run(open_checkpointer)
    before = Run.objects.get(number=1).lease_expires_at
    heartbeat.renew_store_leases_and_count_owned_runs(first.store)

    assert Run.objects.get(number=1).lease_expires_at == before
