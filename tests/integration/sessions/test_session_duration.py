"""The duration of a session is the time until its work ended, and grows only while a process works on it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, RunStatus, SessionStatus
from harness_site.sessions.selectors.session_head import SessionHead, load_session_head
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


LOST: dict[str, Any] = {"owner": False, "status": RunStatus.LOST, "ended_at": NOW - timedelta(minutes=4)}


def test_duration_does_not_count_the_time_until_a_lost_run_is_noticed() -> None:
    head = load_head(run=LOST)
    assert head.row.duration == timedelta(minutes=4)
    assert head.row.last_active_at == START + timedelta(minutes=4)


def test_pages_say_when_an_orphaned_session_was_last_active_not_when_that_was_noticed(client: Client) -> None:
    client.force_login(make_user(name="alice"))
    session = make_session(created_at=START, updated_at=NOW - timedelta(minutes=4))
    make_run(session=session, started_at=START, heartbeat_at=START + timedelta(minutes=4), **LOST)
    words = visible_text(client.get(f"/sessions/{session.pk}/"))
    assert re.search("Duration 4 min Last active [23] h", words)
    assert "4 min ago" not in words
    listed = visible_text(client.get("/sessions/"))
    assert re.search("Orphaned last active [23] h ago, resume it to continue", listed)


def test_newest_activity_of_a_session_that_waits_for_people_is_its_last_change() -> None:
    session = make_session(created_at=START, updated_at=NOW, status=SessionStatus.NEEDS_REVIEW)
    make_run(session=session, started_at=START, heartbeat_at=START + timedelta(minutes=4), **LOST)
    head = load_session_head(session.workspace_id, session.pk)
    assert head is not None
    assert (head.row.last_active_at, head.row.duration) == (NOW, timedelta(minutes=4))


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


def test_fork_waits_since_it_was_made_and_not_since_its_original_was_interrupted() -> None:
    fork = make_session(created_at=NOW - timedelta(minutes=1), forked_version=3)
    times: dict[str, Any] = {"issued_at": START, "interrupted_at": START + timedelta(minutes=1)}
    make_call(session=fork, step=-1, status=CallStatus.INTERRUPTED, **times)
    head = load_session_head(fork.workspace_id, fork.pk)
    assert head is not None
    assert head.waiting_since == fork.created_at
