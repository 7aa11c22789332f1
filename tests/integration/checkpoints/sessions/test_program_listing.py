"""Listing methods: sessions, messages and pending calls."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints import Checkpointer, SyncCheckpointer, ToolRegistry, Unknown
from checkpoints.exceptions import (
    ApprovalRequired,
    CheckpointCorrupted,
    InvalidInput,
    ReviewRequired,
    SessionNotFound,
    VersionNotFound,
)
from checkpoints.models import Message, Run, Session, Workspace
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import conversation, interrupt_call, start_session

# sessions


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [each["session_id"] for each in found]


def test_session_is_listed_with_its_owner(cp: SyncCheckpointer) -> None:
    run = cp.start_session("s", "Refund order 17", agent="desk", metadata={"order": 17}, labels=["vip", "de"])
    cp.save_checkpoint("s", conversation("ab"), None, 0.25, usage={"total_tokens": 9})
    (found,) = cp.list_sessions()

    owner = found.pop("owner")
    assert found.pop("cursor")
    assert datetime.fromisoformat(found.pop("created_at")) <= datetime.fromisoformat(found.pop("updated_at"))
    assert found == {
        "session_id": "s",
        "title": "Refund order 17",
        "agent": "desk",
        "status": "active",
        "finished": False,
        "quarantined_at": None,
        "labels": ["vip", "de"],
        "metadata": {"order": 17},
        "version": 1,
        "message_count": 2,
        "budget_spent_usd": Decimal("0.25"),
        "cost_basis": "stated",
        "total_tokens": 9,
    }
    assert (owner["run_id"], owner["pid"], owner["alive"]) == (str(run.pk), run.pid, True)
    Run.objects.update(lease_expires_at="2020-01-01T00:00:00Z")
    assert cp.list_sessions()[0]["owner"]["alive"] is False
    cp.release_session("s")
    assert cp.list_sessions()[0]["owner"] is None


def test_sessions_are_paged_by_newest_activity(cp: SyncCheckpointer) -> None:
    for number in range(7):
        with cp.session(f"s{number}", agent="desk" if number % 2 else "clerk") as session:
            if number % 3 == 0:
                session.finish("completed")
    with cp.session("s1") as session:
        session.append(conversation("a"))
    order = ["s1", "s6", "s5", "s4", "s3", "s2", "s0"]

    assert ids(cp.list_sessions()) == order
    for wanted, expected in (
        ({}, order),
        ({"agent": "desk"}, ["s1", "s5", "s3"]),
        ({"status": "completed"}, ["s6", "s3", "s0"]),
        ({"status": "active", "agent": "desk"}, ["s1", "s5"]),
    ):
        pending_revision: list[str] = []
        after: str | None = None
        while page := cp.list_sessions(limit=2, after=after, **wanted):  # type: ignore[arg-type]
            pending_revision += ids(page)
            after = page[-1]["cursor"]
        assert pending_revision == expected


def test_sessions_of_a_label(cp: SyncCheckpointer) -> None:
    labels = {"s0": ["vip"], "s1": ["de", "vip"], "s2": ["vip2"], "s3": ['x"vip'], "s4": ['x,"vip'], "s5": ["VIP"]}
    for session_id, given in labels.items():
        cp.start_session(session_id, labels=given)

    assert sorted(ids(cp.list_sessions(label="vip"))) == ["s0", "s1"]
    assert ids(cp.list_sessions(label='x"vip')) == ["s3"]


def test_sessions_before_a_time(cp: SyncCheckpointer) -> None:
    for session_id in ("old", "new"):
        cp.start_session(session_id)
    Session.objects.filter(session_id="old").update(updated_at=datetime(2020, 1, 1, tzinfo=UTC))

    assert ids(cp.list_sessions(updated_before=datetime.now(UTC) - timedelta(days=1))) == ["old"]


def test_sessions_of_other_workspaces_are_not_listed(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    Workspace.objects.create(slug="other", name="Other")
    start_session(open_checkpointer(workspace="other"))

    assert (cp.list_sessions(), cp.pending_decisions()) == ([], [])


@pytest.mark.parametrize(
    "wanted",
    [
        {"status": "running"},
        {"limit": 0},
        {"limit": 1001},
        {"after": "yesterday"},
        {"updated_before": datetime(2026, 1, 1)},  # noqa: DTZ001 - without a zone
    ],
    ids=str,
)
def test_invalid_filters_are_refused(cp: SyncCheckpointer, wanted: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        cp.list_sessions(**wanted)


# messages


def test_messages_are_paged(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint("s", conversation("abcdefg"), None, 0)
    pending_revision: list[dict[str, Any]] = []
    while page := cp.messages("s", after=len(pending_revision), limit=3):
        assert [each["position"] for each in page] == list(
            range(len(pending_revision), len(pending_revision) + len(page))
        )
        pending_revision += page

    assert [each["message"] for each in pending_revision] == conversation("abcdefg")
    assert pending_revision[0]["created_at"] == "2026-01-02T03:04:05+00:00"


def test_messages_of_an_earlier_version_and_of_a_branch(cp: SyncCheckpointer) -> None:
    start_session(cp)
    for texts in ("abc", "abcd", "abX", "abXY"):
        cp.save_checkpoint("s", conversation(texts), None, 0)

    for version, texts in ((None, "abXY"), (1, "abc"), (2, "abcd"), (3, "abX")):
        for after in range(5):
            page = cp.messages("s", after=after, limit=2, version=version)
            assert [each["message"] for each in page] == conversation(texts)[after : after + 2]


@pytest.mark.unsealed("its number of statements is that without seals")
def test_messages_read_no_more_than_their_page(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint("s", [{"n": n} for n in range(500)], None, 0)
    cp.messages("s")
    with CaptureQueriesContext(
        connection,
    ) as queries:
        (page,) = cp.messages("s", after=490, limit=1)

    assert (page["position"], page["message"], len(queries)) == (490, {"n": 490}, 2)
    Message.objects.exclude(position=490).update(body="damaged")
    assert cp.messages("s", after=490, limit=1) == [page]


def test_messages_of_unknown_sessions_and_versions(cp: SyncCheckpointer) -> None:
    with pytest.raises(SessionNotFound):
        cp.messages("s")
    start_session(cp)
    assert cp.messages("s") == []
    cp.save_checkpoint("s", conversation("a"), None, 0)
    assert cp.messages("s", after=10) == []
    with pytest.raises(VersionNotFound):
        cp.messages("s", version=2)
    for wanted in ({"after": -1}, {"limit": 0}, {"limit": 5000}, {"version": "1"}):
        with pytest.raises(InvalidInput):
            cp.messages("s", **wanted)


@pytest.mark.unsealed("with seals, the chain of the message is wrong before its text is read")
def test_damaged_message_is_named(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint("s", conversation("abc"), None, 0)
    Message.objects.filter(position=1).update(body="{")
    with pytest.raises(CheckpointCorrupted, match="message 1"):
        cp.messages("s")
    Message.objects.filter(position=1).delete()
    with pytest.raises(CheckpointCorrupted, match="2 of 3"):
        cp.messages("s")


# what waits for a decision


def test_pending_calls_of_all_sessions(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    cp.start_session("s", agent="desk")
    interrupt_call(cp, open_checkpointer)
    cp.start_session("t", agent="clerk")
    registry = ToolRegistry(checkpointer=cp, session_id="t")
    registry.tool(name="mail", requires_approval=True, decide_within=60, sentence="Mail {to}")(lambda to: "sent")
    with pytest.raises(ApprovalRequired):
        registry.dispatch("mail", {"to": "alice"}, "call_1")

    first, second = cp.pending_decisions()
    asked = cp.pending_tool_calls("s")[0]
    assert {name: first[name] for name in asked} == asked
    assert (first["session_id"], first["agent"], first["deadline"]) == ("s", "desk", None)
    assert (second["session_id"], second["status"], second["sentence"]) == ("t", "awaiting_approval", "Mail alice")
    waits = datetime.fromisoformat(second["deadline"]) - datetime.fromisoformat(second["waits_since"])
    assert waits == timedelta(seconds=60)
    assert cp.pending_decisions(limit=1) == [first]
    assert cp.pending_decisions(after=first["cursor"]) == cp.pending_decisions(agent="clerk") == [second]
    assert cp.pending_decisions(after=second["cursor"]) == []
    with pytest.raises(InvalidInput):
        cp.pending_decisions(limit=0)


def test_pending_call_contains_the_answer_of_its_hook(cp: SyncCheckpointer) -> None:
    cp.start_session("s")
    registry = ToolRegistry(checkpointer=cp, session_id="s")

    @registry.tool(verify=lambda args: Unknown("the provider answered 503"))
    def pay() -> str:
        raise ConnectionError("the line was cut")

    with pytest.raises(ReviewRequired):
        registry.dispatch("pay", {}, "call_1")
    assert [each["verify_reason"] for each in cp.pending_decisions()] == ["the provider answered 503"]


@pytest.mark.asyncio
async def test_lists_from_an_event_loop(workspace: Workspace) -> None:
    async with Checkpointer() as cp, cp.session("s", agent="desk") as session:
        await session.append(conversation("ab"))
        assert ids(await cp.list_sessions(agent="desk", status="active", limit=5)) == ["s"]
        assert [each["message"] for each in await cp.messages("s", after=1)] == conversation("ab")[1:]
        assert await cp.pending_decisions(agent="desk") == []
