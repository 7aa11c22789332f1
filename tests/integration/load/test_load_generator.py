"""The load generator writes what the library would have written."""

from datetime import UTC, datetime
from itertools import count

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test import Client

from benchmarks.load.generate_sessions_command import Command
from benchmarks.load.generated_session_rows import MESSAGE_FIELDS, SessionBuilder, compute_session_duration
from benchmarks.load.generated_session_sizes import HUGE, SessionSize, SessionSizePlan
from benchmarks.load.random_sentences import SentenceGenerator
from checkpoints import SyncCheckpointer
from checkpoints.calls import require_unaltered_call
from checkpoints.models import Decision, Message, Session, ToolCall, Workspace
from tests.integration.search.conftest import complete
from tests.support.factories import make_session, make_user

pytestmark = pytest.mark.django_db(transaction=True)


def generate(sessions: int = 60, seed: int = 1, *more: str) -> None:
    sizes = (f"--sessions={sessions}", f"--messages={sessions * 12}", f"--calls={sessions * 3}", f"--seed={seed}")
    call_command(Command(), *sizes, "--until=2026-01-31T12:00:00Z", *more)


@pytest.fixture
def filled() -> bool:
    """Return whether this database can be filled; SQLite is refused and stays empty."""
    if connection.vendor == "postgresql":
        return True
    with pytest.raises(CommandError, match="Only PostgreSQL"):
        generate()
    assert not Session.objects.exists()
    return False


def facts() -> list[tuple[object, ...]]:
    fields = ("session_id", "agent", "title", "status", "labels", "message_count", "budget_spent_usd", "head_chain")
    rows = Session.objects.order_by("session_id").values_list(*fields)
    return [(*row[:-1], bytes(row[-1])) for row in rows]


def test_sizes_match_the_plan_and_a_few_sessions_are_huge() -> None:
    plan = SessionSizePlan(sessions=1000, messages=200_000, calls=20_000, seed=1)
    sizes = [plan.get_session_size(number) for number in range(1000)]
    huge = [size for size in sizes if size.messages >= HUGE]
    assert len(huge) == plan.huge_session_count == 5
    assert all(size.calls == 2_000 for size in huge)
    assert abs(sum(size.messages for size in sizes) - 200_000) < 2_000
    assert abs(sum(size.calls for size in sizes) - 20_000) < 2_000
    assert all(2 * size.calls < size.messages for size in sizes)


def test_events_of_a_session_are_within_its_duration() -> None:
    size, began, keys = SessionSize(400, 199), datetime(2026, 1, 31, tzinfo=UTC), count(1)
    builder = SessionBuilder(Workspace(pk=1, slug="default"), SentenceGenerator(1), 1, lambda model: next(keys))
    built = builder.build_session(1, size, began)
    times = [row[MESSAGE_FIELDS.index("created_at")] for row in built.messages]
    times += [call.settled_at for call in built.calls if call.settled_at is not None]
    assert max(*times, built.session.updated_at) <= began + compute_session_duration(size)


def test_library_reads_and_continues_generated_sessions(filled: bool) -> None:
    if not filled:
        return
    generate(150)
    with SyncCheckpointer() as cp:
        for session in Session.objects.order_by("pk")[:40]:
            latest = cp.load_latest(session.session_id)
            assert latest is not None
            assert len(latest["transcript"]) == latest["version"] == session.message_count
            for found in cp.list_checkpoints(session.session_id):
                assert len(cp.load(session.session_id, found["version"])["transcript"]) == found["version"]
        Session.objects.filter(pk=session.pk).update(status="active")
        going = Session.objects.get(pk=session.pk)
        cp.resume(going.session_id)
        more = {"id": "new", "role": "user", "content": "And then?"}
        assert cp.append_checkpoint(going.session_id, [more], expected_version=going.latest_version)
        for call in ToolCall.objects.exclude(status="interrupted")[:50]:
            require_unaltered_call.require_matching_digests(call)
    assert Message.objects.count() > 1500
    assert Decision.objects.exists()
    new = make_session()
    assert new.pk > 150


def test_same_seed_generates_the_same_sessions(filled: bool) -> None:
    if not filled:
        return
    generate(30)
    first = facts()
    Session.objects.update(head_segment=None)
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE checkpoints_session CASCADE")
    generate(30)
    assert facts() == first


def test_existing_rows_are_kept_unless_requested(filled: bool) -> None:
    if not filled:
        return
    make_session(session_id="mine")
    with pytest.raises(CommandError, match="--add"):
        generate(10)
    generate(10, 1, "--add")
    with pytest.raises(CommandError, match="seed 1"):
        generate(10, 1, "--add")
    generate(10, 2, "--add")
    assert Session.objects.count() == 21


def test_pages_show_generated_sessions(client: Client, filled: bool) -> None:
    if not filled:
        return
    generate(20)
    complete()
    client.force_login(make_user())
    session = Session.objects.filter(tool_calls__isnull=False).first()
    assert session is not None
    for address in (
        "/sessions/?q=order-1-7",
        f"/sessions/{session.pk}/",
        f"/sessions/{session.pk}/calls/",
        "/overview/",
    ):
        assert client.get(address).status_code == 200, address
