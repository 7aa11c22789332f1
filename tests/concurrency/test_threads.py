"""Concurrent threads of one process, on one checkpointer and on several."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from threading import Barrier
from typing import Any

from django.db import connection

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import LateResultRefused
from checkpoints.models import Checkpoint, LateResult, Message, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import conversation, lose_run, start_session


def together(*works: Callable[[], Any]) -> list[Any]:
    """Run functions concurrently in threads; return their results, or raise the first error."""
    barrier = Barrier(len(works))

    def begin(work: Callable[[], Any]) -> Any:
        barrier.wait(60)
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(works)) as threads:
        return [future.result() for future in [threads.submit(begin, work) for work in works]]


def test_concurrent_saves_create_one_version_each(cp: SyncCheckpointer) -> None:
    start_session(cp)
    letters = "abcd"

    def save(letter: str) -> list[int]:
        return [cp.save_checkpoint("s", conversation(letter * length), {"by": letter}, 0) for length in range(6)]

    versions = together(*[lambda letter=letter: save(letter) for letter in letters])

    assert sorted(chain.from_iterable(versions)) == list(range(1, 25))
    for letter, mine in zip(letters, versions, strict=True):
        for length, version in enumerate(mine):
            loaded = cp.load("s", version)
            assert (loaded["transcript"], loaded["plan"]) == (conversation(letter * length), {"by": letter})


def test_one_of_several_appends_to_a_version_succeeds(cp: SyncCheckpointer) -> None:
    start_session(cp)

    def append(letter: str) -> list[str]:
        taken = []
        for expected in range(10):
            try:
                cp.append_checkpoint("s", conversation(letter), expected_version=expected)
                taken.append(letter)
            except Exception as error:
                taken.append(type(error).__name__)
        return taken

    first, second = together(lambda: append("a"), lambda: append("b"))

    newest = cp.load_latest("s")
    assert newest is not None
    assert newest["version"] == Checkpoint.objects.count() == Message.objects.count()
    assert len(newest["transcript"]) == newest["version"]
    assert {*first, *second} <= {"a", "b", "VersionConflict"}
    assert [*first, *second].count("VersionConflict") == 20 - newest["version"]


def test_calls_of_a_batch_run_concurrently(cp: SyncCheckpointer) -> None:
    registry, meeting = ToolRegistry(checkpointer=start_session(cp), session_id="s"), Barrier(4)
    registry.tool(name="pay")(lambda order: f"paid {order} with {meeting.wait(60) >= 0}")

    results = together(
        *[lambda number=number: registry.dispatch("pay", {"order": number}, f"call_{number}") for number in range(4)]
    )
    assert [result.content for result in results] == [f"paid {number} with True" for number in range(4)]


def test_late_results_and_decisions_do_not_deadlock(open_checkpointer: Open) -> None:
    stale = start_session(open_checkpointer())
    ids = [f"call_{number}" for number in range(25)]
    for call_id in ids:
        stale.record_tool_call_issued("s", call_id, "pay", {"id": call_id}, call_id)
    taker = lose_run(open_checkpointer)

    def report() -> int:
        refused = 0
        for call_id in ids:
            try:
                stale.record_tool_call_result("s", call_id, "paid", True)
            except LateResultRefused:
                refused += 1
        return refused

    def decide() -> None:
        for call_id in ids:
            taker.mark_failed("s", call_id, actor="alice", reason="no", revision=2)

    assert together(report, decide) == [25, None]
    assert set(ToolCall.objects.values_list("status", flat=True)) == {"failed"}
    assert LateResult.objects.count() == 25


def test_heartbeats_and_saves_do_not_block_each_other(open_checkpointer: Open) -> None:
    cp = open_checkpointer(lease_seconds=0.3)
    start_session(cp)

    versions = together(
        *[lambda: [cp.save_checkpoint("s", conversation("ab"), None, 0) for _ in range(20)] for _ in range(3)]
    )
    assert sorted(chain.from_iterable(versions)) == list(range(1, 61))
