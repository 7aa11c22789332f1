from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, models
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from checkpoints.exceptions import SealKeyMissing
from checkpoints.integrity import quarantine, verify_and_quarantine_sessions, verify_session_rows
from checkpoints.integrity.verify_session_rows import (
    IntegrityProblem,
    VerificationCounts,
    iterate_problems_of_sessions,
    iterate_session_problems,
)
from checkpoints.models import Blob, Checkpoint, Decision, Message, Segment, Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.integrity.sealed_history import (
    SEALED_TABLES,
    change,
    create_sealed_session,
    plain,
    rolled_back,
)
from tests.integration.checkpoints.session_setups import conversation, start_session
from tests.support.exhaustive_mode import EXHAUSTIVE, choose_each

UNKNOWN_SEAL = bytes(32)
#: Rows that are verified together: each by itself, parts of what a session has, and all of it.
BATCH_SIZES = (1, 2, 1000)


def list_sessions() -> list[Session]:
    return list(Session.objects.order_by("pk"))


def find_together() -> tuple[dict[int, list[IntegrityProblem]], int]:
    found, counts = defaultdict[int, list[IntegrityProblem]](list), VerificationCounts()
    for session_pk, problem in iterate_problems_of_sessions("default", list_sessions(), counts):
        found[session_pk].append(problem)
    return dict(found), counts.rows


def find_one_by_one() -> tuple[dict[int, list[IntegrityProblem]], int]:
    counts = VerificationCounts()
    found = {session.pk: list(iterate_session_problems("default", session, counts)) for session in list_sessions()}
    return {pk: problems for pk, problems in found.items() if problems}, counts.rows


def save_branches(open_checkpointer: Open, session_id: str) -> None:
    """Save transcripts that branch, and forks of their versions and of a fork, each with a message of its own."""
    cp = start_session(open_checkpointer(), session_id)
    for texts in ("abcd", "ax", "ay", "abz"):
        cp.save_checkpoint(session_id, conversation(texts), {}, 0)
    for version in (1, 2, 3):
        cp.fork_session(session_id, f"{session_id} fork {version}", version=version)
    cp.fork_session(f"{session_id} fork 1", f"{session_id} fork of a fork")
    for name in [*(f"fork {version}" for version in (1, 2, 3)), "fork of a fork"]:
        fork = open_checkpointer()
        fork.resume(f"{session_id} {name}")
        fork.save_checkpoint(f"{session_id} {name}", [*conversation("abcd"), *conversation("q")], {}, 0)


def alter_row(model: type[models.Model], name: str) -> Callable[[Session], Any]:
    def alter(session: Session) -> None:
        row = plain(model).filter(session=session).latest("pk")
        field: Any = model._meta.get_field(name)
        plain(model).filter(pk=row.pk).update(**{field.attname: change(getattr(row, field.attname), field)})

    return alter


ALTERATIONS: tuple[Callable[[Session], Any], ...] = (
    alter_row(Message, "body"),
    alter_row(Message, "role"),
    alter_row(Checkpoint, "plan"),
    alter_row(ToolCall, "tool"),
    alter_row(Decision, "reason"),
    lambda session: plain(Message).filter(session=session, position=1).delete(),
    lambda session: plain(ToolCall).filter(pk=plain(ToolCall).filter(session=session).latest("pk").pk).delete(),
    lambda session: plain(Session).filter(pk=session.pk).update(message_count=1),
    lambda session: plain(Session).filter(pk=session.pk).update(result='"forged"'),
    lambda session: plain(Session).filter(pk=session.pk).update(row_sum=None),
    lambda session: plain(Segment).filter(session=session, parent__isnull=False).update(parent_length=0),
)


@pytest.fixture
def histories(open_checkpointer: Open) -> None:
    for name in ("r", "s", "t"):
        create_sealed_session(open_checkpointer, name)
    save_branches(open_checkpointer, "u")


def find_in_batches(monkeypatch: pytest.MonkeyPatch, size: int) -> tuple[dict[int, list[IntegrityProblem]], int]:
    with monkeypatch.context() as patch:
        patch.setattr(verify_session_rows, "BATCH_SIZE", size)
        patch.setattr(verify_session_rows, "_GROUPS_PER_STATEMENT", size)
        return find_together()


@pytest.mark.usefixtures("histories")
def test_problems_of_sessions_verified_together_are_those_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sum(plain(model).exclude(session=None).count() for model in SEALED_TABLES if model is not Session)
    rows += plain(Session).count() + Blob.objects.count()
    for size in BATCH_SIZES:
        assert (size, find_in_batches(monkeypatch, size)) == (size, ({}, rows))
    sessions = [Session.objects.get(session_id=name) for name in ("r", "s", "t")]
    for number, alter in choose_each(2, [*enumerate(ALTERATIONS)]):  # each with the one before it
        with rolled_back():
            alter(sessions[number % 3])
            ALTERATIONS[number - 1](sessions[(number + 1) % 3])
            found, verified = find_one_by_one()
            assert set(found) == {sessions[number % 3].pk, sessions[(number + 1) % 3].pk}
            for size in BATCH_SIZES if EXHAUSTIVE else [BATCH_SIZES[number // 2 % len(BATCH_SIZES)]]:
                together = find_in_batches(monkeypatch, size)
                assert (number, size, together) == (number, size, (found, verified))


def test_statements_are_shared_by_sessions(open_checkpointer: Open) -> None:
    def verify() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert find_together()[0] == {}
        return len(captured)

    def add_session(name: str) -> None:
        cp = start_session(open_checkpointer(), name)
        cp.save_checkpoint(name, conversation("abc"), {}, 0)
        cp.record_tool_call_issued(name, "call_1", "pay", {"order": 17}, f"key {name}")

    add_session("s")
    of_one_session = verify()
    for number in range(5):
        add_session(f"s{number}")
    assert verify() == of_one_session


@pytest.mark.parametrize("rows", [1, 4, 6000])
def test_every_session_of_a_workspace_is_verified(
    open_checkpointer: Open, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(verify_and_quarantine_sessions, "_MAX_ROWS_TOGETHER", rows)
    for name in ("s", "t", "u"):
        start_session(open_checkpointer(), name).save_checkpoint(name, conversation("abc"), {}, 0)
    plain(Message).filter(session__session_id="t", position=1).update(role="system")
    checked = verify_and_quarantine_sessions.iterate_checked_sessions_and_quarantine_altered(
        "default", list_sessions(), VerificationCounts()
    )
    assert [(each.session_id, len(each.problems)) for each in checked] == [("s", 0), ("t", 1), ("u", 0)]


def test_row_by_an_unknown_key_hides_no_other_session(open_checkpointer: Open) -> None:
    for name in ("s", "t", "u"):
        start_session(open_checkpointer(), name).save_checkpoint(name, conversation("abc"), {}, 0)
    plain(Message).filter(session__session_id="s", position=1).update(row_seal=UNKNOWN_SEAL)
    plain(Checkpoint).filter(session__session_id="s").update(row_seal=UNKNOWN_SEAL)
    plain(Message).filter(session__session_id="u", position=1).update(role="system")
    checked = list(
        verify_and_quarantine_sessions.iterate_checked_sessions_and_quarantine_altered(
            "default", list_sessions(), VerificationCounts()
        )
    )
    assert [(each.session_id, len(each.problems)) for each in checked] == [("s", 1), ("t", 0), ("u", 1)]
    (problem,) = checked[0].problems
    assert (problem.table, problem.unknown_key, problem.is_alteration) == ("checkpoints_checkpoint", "00000000", False)
    assert [session.session_id for session in list_sessions() if session.quarantined_at] == ["u"]


def test_altered_row_beside_one_by_an_unknown_key_quarantines_the_session(open_checkpointer: Open) -> None:
    start_session(open_checkpointer(), "s").save_checkpoint("s", conversation("abc"), {}, 0)
    plain(Message).filter(position=0).update(row_seal=UNKNOWN_SEAL)
    plain(Message).filter(position=1).update(role="system")
    (checked,) = verify_and_quarantine_sessions.iterate_checked_sessions_and_quarantine_altered(
        "default", list_sessions(), VerificationCounts()
    )
    assert [problem.unknown_key for problem in checked.problems] == ["00000000", None]
    assert Session.objects.get().quarantined_at is not None


def test_session_with_a_row_by_an_unknown_key_is_not_exported_or_released(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer(), "s")
    cp.save_checkpoint("s", conversation("abc"), {}, 0)
    plain(Message).filter(position=0).update(row_seal=UNKNOWN_SEAL)
    with pytest.raises(SealKeyMissing, match=r"row .* of checkpoints_message: it is sealed with the key 00000000"):
        verify_session_rows.require_session_unaltered("default", Session.objects.get())
    plain(Session).update(quarantined_at=Now())
    with pytest.raises(SealKeyMissing):
        quarantine.release_quarantine(cp.store, "s", actor="alice", reason="Seen.", accept_altered=True)


@pytest.mark.parametrize("rows", ["message_count", "latest_version", "head_number"])
def test_sessions_with_many_rows_are_verified_alone(rows: str) -> None:
    small, large = [Session(head_number=1) for _ in range(3)], [Session(**{rows: 10_000}) for _ in range(2)]
    assert verify_and_quarantine_sessions._group_small_sessions([*large, *small]) == [
        [large[0]],
        [large[1]],
        small,
    ]


def test_session_that_changes_while_others_are_read_is_not_altered(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("abc"), {}, 0)
    before = list_sessions()
    cp.save_checkpoint("s", conversation("axyz"), {}, 0)
    cp.prune("s", keep_last=1)
    (checked,) = verify_and_quarantine_sessions.iterate_checked_sessions_and_quarantine_altered(
        "default", before, VerificationCounts()
    )
    assert checked.problems == []
    assert Session.objects.get().quarantined_at is None


def test_versions_that_are_removed_while_others_are_read_are_no_problem(
    open_checkpointer: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("abc"), {}, 0)
    cp.save_checkpoint("s", conversation("axyz"), {}, 0)
    find_messages = verify_session_rows._iterate_message_problems_and_collect_chains

    def prune_before(*arguments: Any) -> Any:
        monkeypatch.setattr(verify_session_rows, "_iterate_message_problems_and_collect_chains", find_messages)
        cp.prune("s", keep_last=1)
        return find_messages(*arguments)

    monkeypatch.setattr(verify_session_rows, "_iterate_message_problems_and_collect_chains", prune_before)
    assert find_together()[0] != {}
    cp.save_checkpoint("s", conversation("axw"), {}, 0)
    monkeypatch.setattr(verify_session_rows, "_iterate_message_problems_and_collect_chains", prune_before)
    (checked,) = verify_and_quarantine_sessions.iterate_checked_sessions_and_quarantine_altered(
        "default", list_sessions(), VerificationCounts()
    )
    assert checked.problems == []
