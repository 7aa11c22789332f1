"""Concurrent recording and sealing: recording never waits, and each event is sealed once."""

import threading

from django.db import connection, transaction

from checkpoints import SyncCheckpointer, audit
from checkpoints.models import AuditChain, AuditEvent, Workspace
from tests.conftest import StartChild
from tests.integration.checkpoints.audit import audit_processes
from tests.integration.checkpoints.audit.conftest import RecordEvents
from tests.support.processes import database_url

_ROUNDS = 6


def test_concurrent_writers_and_sealers_build_one_chain_without_gaps(
    start_child: StartChild, workspace: Workspace
) -> None:
    url = database_url()
    writers = [
        start_child(audit_processes.run_sessions, url=url, name=f"w{number}", rounds=_ROUNDS) for number in range(3)
    ]
    sealers = [start_child(audit_processes.seal_repeatedly, url=url, workspace=workspace.pk) for _ in range(2)]
    for child in (*writers, *sealers):
        child.expect("ready")
    for child in (*writers, *sealers):
        child.tell()
    for writer in writers:
        writer.result()
    sealed = sum(sealer.result() for sealer in sealers)
    sealed += audit.seal_events_of_workspace(workspace.pk)

    verdict = audit.seal_and_verify_chain_and_store_result(workspace.pk)
    assert (verdict.flaws, verdict.checked) == ((), sealed)
    assert sealed == AuditEvent.objects.count()
    numbers = AuditEvent.objects.order_by("number").values_list("number", flat=True)
    assert list(numbers) == list(range(1, sealed + 1))


def test_sealing_does_not_wait_for_open_transactions(workspace: Workspace, record_events: RecordEvents) -> None:
    """On PostgreSQL, sealing does not wait. On SQLite, which has one writer at a time, it waits for the commit."""
    record_events(1)
    sealed: list[int] = []
    sealing = threading.Thread(target=lambda: sealed.append(seal_on_another_connection(workspace.pk)))
    with transaction.atomic():
        record_events(1)
        sealing.start()
        if connection.vendor == "postgresql":
            sealing.join()
            assert sealed == [1]
    sealing.join()
    audit.seal_events_of_workspace(workspace.pk)
    assert audit.seal_and_verify_chain_and_store_result(workspace.pk).checked == 2


def test_agent_does_not_wait_for_sealing(cp: SyncCheckpointer, workspace: Workspace) -> None:
    """No operation of an agent uses the lock of sealing."""
    audit.seal_events_of_workspace(workspace.pk)
    done: list[str] = []

    def run_sessions() -> None:
        cp.start_session("s", "Work")
        cp.finish_session("s", "completed")
        connection.close()
        done.append("done")

    working = threading.Thread(target=run_sessions)
    with transaction.atomic():
        AuditChain.objects.select_for_update().get(workspace=workspace)
        if connection.vendor == "postgresql":
            working.start()
            working.join()
            assert done == ["done"]
    if connection.vendor == "sqlite":
        working.start()
        working.join()
    assert done == ["done"]


def seal_on_another_connection(workspace: int) -> int:
    try:
        return audit.seal_events_of_workspace(workspace)
    finally:
        connection.close()
