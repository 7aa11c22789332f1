"""Number of statements of the hot operations, independent of the transcript length.

On PostgreSQL each operation is one statement. On SQLite it is one transaction with a few statements.
"""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.seals.decision_keys import get_decision_keys
from tests.integration.checkpoints.session_setups import conversation, start_session, text_message


def statements(work: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as captured:
        work()
    return len(captured)


def expected(*, postgresql: int, sqlite: int) -> int:
    return {"postgresql": postgresql, "sqlite": sqlite}[connection.vendor]


@pytest.fixture(params=[1, 200])
def length(request: pytest.FixtureRequest) -> int:
    """Number of messages that the session already has."""
    chosen: int = request.param
    return chosen


@pytest.fixture
def long(cp: SyncCheckpointer, length: int) -> SyncCheckpointer:
    start_session(cp).save_checkpoint(
        "s", [text_message(f"message {number}") for number in range(length)], {"goal": 1}, 0
    )
    return cp


def grown(length: int) -> list[dict[str, object]]:
    return [text_message(f"message {number}") for number in range(length + 3)]


def test_save(long: SyncCheckpointer, length: int) -> None:
    transcript = grown(length)

    assert statements(lambda: long.save_checkpoint("s", transcript, {}, 0.5)) == expected(postgresql=1, sqlite=5)


def test_save_with_nothing_new(long: SyncCheckpointer, length: int) -> None:
    transcript = grown(length)[:length]

    assert statements(lambda: long.save_checkpoint("s", transcript, {}, 0.5)) == expected(postgresql=1, sqlite=4)


def test_append(long: SyncCheckpointer) -> None:
    work = lambda: long.append_checkpoint("s", conversation("ab"), expected_version=1)  # noqa: E731

    assert statements(work) == expected(postgresql=1, sqlite=5)


def test_issue_and_settle(long: SyncCheckpointer) -> None:
    issue = lambda: long.record_tool_call_issued("s", "call_1", "pay", {}, "key")  # noqa: E731
    settle = lambda: long.record_tool_call_result("s", "call_1", "paid", True)  # noqa: E731

    assert statements(issue) == expected(postgresql=1, sqlite=4)
    assert statements(settle) == expected(postgresql=1, sqlite=4)


def test_dispatch(long: SyncCheckpointer) -> None:
    registry = ToolRegistry(checkpointer=long, session_id="s")
    registry.tool(name="pay")(lambda order: "paid")

    assert statements(lambda: registry.dispatch("pay", {"order": 1}, "call_1")) == expected(postgresql=2, sqlite=8)


def test_reading_call(long: SyncCheckpointer) -> None:
    registry = ToolRegistry(checkpointer=long, session_id="s")
    registry.tool(name="look", side_effects={"read"})(lambda order: "found")

    assert statements(lambda: registry.dispatch("look", {"order": 1}, "call_1")) == 0


def test_load(long: SyncCheckpointer) -> None:
    assert statements(lambda: long.load_latest("s")) == 2
    assert statements(lambda: long.load("s", 1)) == 2


def test_list(long: SyncCheckpointer) -> None:
    for _ in range(5):
        long.save_checkpoint("s", [], None, 0)

    assert statements(lambda: long.list_checkpoints("s")) == 2


def test_preview(long: SyncCheckpointer) -> None:
    for number in range(5):
        long.record_tool_call_issued("s", f"call_{number}", "pay", {"n": number}, f"key {number}")

    of_signatures = 0 if get_decision_keys() is None else 1
    assert statements(lambda: long.preview_resume("s")) == 5 + of_signatures
