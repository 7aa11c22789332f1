"""The duration of a session is the time until its work ended, and grows only while a process works on it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, RunStatus
from harness_site.sessions.selectors.session_rows import SessionHead, load_session_head
from tests.support.factories import make_call, make_run, make_session, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

#: The database's clock gives the present, so these tests use it too.
NOW = datetime.now(UTC)
START = NOW - timedelta(hours=3)


def load_head(*, run: dict[str, Any] | None = None, call: dict[str, Any] | None = None) -> SessionHead:
    session = make_session(created_at=START, updated_at=START + timedelta(minutes=2))
    stored = None
    if run is not None:
        stored = make_run(session=session, started_at=START, heartbeat_at=START + timedelta(minutes=4), **run)
    if call is not None:
        make_call(session=session, run=stored, issued_at=START + timedelta(minutes=1), **call)
    head = load_session_head(session.workspace_id, session.pk)
    assert head is not None
    return head


def test_duration_ends_with_the_last_run_while_nothing_runs() -> None:
    ended = {"owner": False, "status": RunStatus.COMPLETED, "ended_at": START + timedelta(minutes=1)}
    assert load_head(run=ended).row.duration == timedelta(minutes=1)
    assert load_head().row.duration == timedelta(minutes=2)


def test_duration_of_an_orphaned_session_ends_with_the_last_sign_of_life() -> None:
    assert load_head(run={"lease": -timedelta(hours=1)}).row.duration == timedelta(minutes=4)


def test_duration_grows_while_a_process_works_and_not_while_it_waits() -> None:
    assert load_head(run={}).row.duration >= timedelta(hours=3)
    assert load_head(run={"status": RunStatus.WAITING}).row.duration == timedelta(minutes=2)


def test_time_of_waiting_for_a_decision_stands_apart(client: Client) -> None:
    client.force_login(make_user(name="alice"))
    ended = {"owner": False, "status": RunStatus.COMPLETED, "ended_at": START + timedelta(minutes=5)}
    head = load_head(run=ended, call={"status": CallStatus.AWAITING_APPROVAL})
    assert head.waiting_time is not None
    assert timedelta(hours=2, minutes=58) < head.waiting_time < timedelta(hours=3, minutes=30)
    words = visible_text(client.get(f"/sessions/{head.row.pk}/"))
    assert re.search("Duration 5 min Waiting for a decision [23] h", words)  # it goes on while other tests run
    assert load_head().waiting_time is None
