"""A write whose answer is lost is found again or reported as unknown, and never performed twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, TypeVar

import psycopg
import pytest

from checkpoints import SyncCheckpointer, ToolRegistry, database_url
from checkpoints.enums import PeerCallStatus
from checkpoints.exceptions import (
    ConnectionFailed,
    PeerCallExists,
    ResultNotRecorded,
    SessionFinished,
    StorageUnavailable,
)
from checkpoints.models import Checkpoint, PausedTask, PeerCall, Session, ToolCall
from checkpoints.peers import Join
from checkpoints.peers import PeerCall as Asked
from tests.integration.failures.conftest import OpenAt
from tests.support.cluster import cluster
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.postgres_proxy import Wire
from tests.support.processes import PATIENCE, wait_until

T = TypeVar("T")
SAVE = 'INSERT INTO "checkpoints_checkpoint"'
MAX_STATEMENTS = 40  # questions of one operation; the longest has about half as many
MESSAGES = [{"id": f"m{number}", "role": "user"} for number in range(3)]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with cluster() as url:
        yield url


@pytest.fixture(autouse=True)
def short_connection_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time that a checkpointer waits for a connection."""
    monkeypatch.setattr(database_url, "POOL_TIMEOUT_SECONDS", 0.3)


@dataclass(frozen=True)
class Attempt:
    """Write operation, a count of its stored effects, and the errors that its repetition may raise."""

    act: Callable[[], Any]
    count: Callable[[], int]
    again: tuple[type[Exception], ...] = ()


@pytest.fixture
def attempt(request: pytest.FixtureRequest) -> Callable[..., Attempt]:
    chosen: Callable[..., Attempt] = request.param
    return chosen


def append(desk: SyncCheckpointer, session_id: str, using: str) -> Attempt:
    desk.save_checkpoint(session_id, MESSAGES[:1], None, 0.0)
    versions = Checkpoint.objects.using(using).filter(session__session_id=session_id)
    return Attempt(
        lambda: desk.append_checkpoint(session_id, MESSAGES[1:2], expected_version=1),
        lambda: versions.count() - 1,
    )


def append_without_a_run(desk: SyncCheckpointer, session_id: str, using: str) -> Attempt:
    tried = append(desk, session_id, using)
    desk.release_session(session_id)
    return tried


def save(desk: SyncCheckpointer, session_id: str, using: str) -> Attempt:
    desk.save_checkpoint(session_id, MESSAGES[:1], None, 0.0)
    versions = Checkpoint.objects.using(using).filter(session__session_id=session_id)
    return Attempt(lambda: desk.save_checkpoint(session_id, MESSAGES[:2], None, 0.0), lambda: versions.count() - 1)


def save_another_past(desk: SyncCheckpointer, session_id: str, using: str) -> Attempt:
    desk.save_checkpoint(session_id, MESSAGES[:2], None, 0.0)
    versions = Checkpoint.objects.using(using).filter(session__session_id=session_id)
    return Attempt(lambda: desk.save_checkpoint(session_id, MESSAGES[1:], None, 0.0), lambda: versions.count() - 1)


def dispatch(desk: SyncCheckpointer, session_id: str, using: str) -> Attempt:
    registry = ToolRegistry(checkpointer=desk, session_id=session_id)
    charged: list[int] = []

    @registry.tool
    def charge(order: int) -> str:
        charged.append(order)
        return "charged"

    def act() -> None:
        assert registry.dispatch("charge", {"order": 7}, "call_1").content == "charged"

    def count() -> int:
        assert len(charged) <= ToolCall.objects.using(using).filter(session__session_id=session_id).count() <= 1
        return len(charged)

    return Attempt(act, count)


def finish(desk: SyncCheckpointer, session_id: str, using: str) -> Attempt:
    sessions = Session.objects.using(using).filter(session_id=session_id)
    ended = sessions.filter(status="completed", result='"done"')
    return Attempt(lambda: desk.finish_session(session_id, "completed", "done"), ended.count, (SessionFinished,))


def pause(desk: SyncCheckpointer, session_id: str, using: str) -> Attempt:
    tasks = PausedTask.objects.using(using).filter(session__session_id=session_id)
    join = Join("quote", [Asked(f"peer-{session_id}", "courier")])
    return Attempt(lambda: desk.pause_for_peers(session_id, {"turn": 1}, [join]), tasks.count, (PeerCallExists,))


def accept(desk: SyncCheckpointer, session_id: str, using: str) -> Attempt:
    call_id = f"peer-{session_id}"
    desk.pause_for_peers(session_id, {"turn": 1}, [Join("quote", [Asked(call_id, "courier")])])
    calls = PeerCall.objects.using(using).filter(call_id=call_id, status=PeerCallStatus.ANSWERED)
    return Attempt(lambda: desk.accept_response(call_id, {"cents": 3600}), calls.count)


WRITES = [append, append_without_a_run, save, save_another_past, dispatch, finish, pause, accept]


@pytest.mark.parametrize(
    ("mended", "attempt"), mark_all_but_each(3, product([True, False], WRITES)), indirect=["attempt"]
)
def test_lost_answer_of_every_statement(
    attempt: Callable[..., Attempt], mended: bool, server: str, open_at: OpenAt, request: pytest.FixtureRequest
) -> None:
    """For each lost answer the error is true, and a repetition ends as if nothing had been lost."""
    watching = open_at(server).store.using
    with Wire(server) as wire:
        desk = open_at(wire.url)
        for number in range(1, MAX_STATEMENTS):
            session_id = f"{request.node.callspec.id}-{number}"
            retry_until_connected(partial(desk.start_session, session_id))
            tried = retry_until_connected(partial(attempt, desk, session_id, watching))
            wire.lose_answer(number=number, mended=mended)
            said = outcome(tried.act)
            wire.mend()
            if not isinstance(said, StorageUnavailable):
                assert tried.count() == 1
            elif not said.may_have_happened:
                assert tried.count() == 0
            if said is not None:
                wait_until(partial(succeeds, tried))
            assert tried.count() == 1
            if not wire.cut.is_set():
                assert number > 1
                return
    raise AssertionError("the answers had no end")


def retry_until_connected(prepare: Callable[[], T]) -> T:
    """Call `prepare` until a connection is there: on a busy machine, the pool has none yet when the wire is mended."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return prepare()
        except ConnectionFailed:
            assert time.monotonic() < deadline, "There is still no connection."


def outcome(act: Callable[[], Any], *allowed: type[Exception]) -> Exception | None:
    try:
        act()
    except allowed:
        return None
    except (StorageUnavailable, ResultNotRecorded) as error:
        return error
    return None


def succeeds(tried: Attempt) -> bool:
    return outcome(tried.act, *tried.again) is None


def test_statement_of_a_lost_connection_is_awaited(server: str, open_at: OpenAt) -> None:
    """The statement of the broken connection waits for a lock, and the check for its version waits behind it."""
    with Wire(server) as wire:
        desk = open_at(wire.url)
        desk.start_session("waiting")
        with psycopg.connect(server) as other, ThreadPoolExecutor() as beside:
            other.execute("SELECT 1 FROM checkpoints_session WHERE session_id = 'waiting' FOR UPDATE")
            wire.lose_answer(to=SAVE, answered=False, mended=True)
            saving = beside.submit(desk.save_checkpoint, "waiting", MESSAGES[:1], None, 0.0)
            wait_until(lambda: waiting(server) >= 2)  # on a busy machine the renewal of the lease waits too
            other.commit()
            assert saving.result() == 1
        latest = desk.load_latest("waiting")
        assert latest is not None
        assert latest["version"] == 1


def waiting(server: str) -> int:
    """Return the number of backends that wait for a lock."""
    with psycopg.connect(server) as admin:
        row = admin.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone()
    return 0 if row is None else int(row[0])


def test_unknown_save_is_not_mistaken_for_the_next_one(server: str, open_at: OpenAt) -> None:
    """Another save after the one whose answer was lost creates a version of its own."""
    with Wire(server) as wire:
        desk = open_at(wire.url)
        desk.start_session("another")
        wire.lose_answer(to=SAVE)
        with pytest.raises(StorageUnavailable) as raised:
            desk.save_checkpoint("another", MESSAGES[:1], None, 0.0)
        assert raised.value.may_have_happened is True
        wire.mend()
        wait_until(lambda: outcome(lambda: desk.load_latest("another")) is None)
        assert desk.save_checkpoint("another", MESSAGES[:2], None, 0.0) == 2
        assert desk.load("another", 1)["transcript"] == MESSAGES[:1]
