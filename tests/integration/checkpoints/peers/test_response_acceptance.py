"""Responses of peers: each is counted once, and each kind of rejected response has its own result."""

from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.db.models import F

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import InvalidIdentifier, NotRepresentable
from checkpoints.models import EarlyResponse, Session, Workspace
from checkpoints.models import Join as JoinRow
from checkpoints.models import PeerCall as PeerCallRow
from checkpoints.peers import (
    Accepted,
    Cancelled,
    Duplicate,
    Early,
    Foreign,
    Join,
    Late,
    Paused,
    PeerCall,
    Unknown,
)
from tests.conftest import Open
from tests.integration.checkpoints.peers.paused_agents import accepted, expire_deadlines, join, pause
from tests.integration.checkpoints.session_setups import start_session


def test_last_response_completes_the_join(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1", "c2", "c3"))

    assert cp.accept_response("c1", {"stock": 3}) == Accepted("c1", "s", "j", False, 1, 3)
    assert cp.accept_response("c3", None) == Accepted("c3", "s", "j", False, 2, 3)
    assert cp.accept_response("c2", [1, 2]) == Accepted("c2", "s", "j", True, 3, 3)
    results = {call_id: result.result for call_id, result in cp.take_paused("s").results.items()}
    assert results == {"c1": {"stock": 3}, "c2": [1, 2], "c3": None}


def test_response_is_accepted_by_any_process(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    pause(cp, join("j", "c1", "c2"))
    cp.close()

    assert accepted(open_checkpointer(), "c1") == (False, 1, 2)
    assert accepted(open_checkpointer(), "c2") == (True, 2, 2)


def test_accepted_response_deletes_no_row(cp: SyncCheckpointer) -> None:
    """The row of the call keeps its result, so that no crash can lose it."""
    pause(cp, join("j", "c1", "c2"))
    accepted(cp, "c1", {"stock": 3})

    call = PeerCallRow.objects.get(call_id="c1")
    assert (call.status, call.result) == ("answered", '{"stock":3}')
    assert JoinRow.objects.get().completed == 1


@pytest.mark.parametrize(("again", "same"), [("yes", True), ("no", False)])
def test_repeated_response_counts_once(cp: SyncCheckpointer, again: str, same: bool) -> None:
    pause(cp, join("j", "c1", "c2"))
    accepted(cp, "c1")

    assert [cp.accept_response("c1", again) for _ in range(2)] == [Duplicate("c1", "s", same=same, ready=False)] * 2
    assert JoinRow.objects.get().completed == 1
    assert PeerCallRow.objects.get(call_id="c1").result == '"yes"'


def test_duplicate_response_reports_that_the_task_is_ready(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1"))
    accepted(cp, "c1")

    assert cp.accept_response("c1", "yes") == Duplicate("c1", "s", same=True, ready=True)
    cp.take_paused("s")
    cp.append_checkpoint("s", [], expected_version=1)
    assert cp.accept_response("c1", "yes") == Duplicate("c1", "s", same=True, ready=False)


def test_late_response_is_stored_as_evidence_and_not_counted(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1", "c2"))
    expire_deadlines("c1")
    cp.sweep_deadlines()
    deadline = PeerCallRow.objects.get(call_id="c1").deadline

    assert cp.accept_response("c1", "at last") == Late("c1", "s", deadline)
    assert cp.accept_response("c1", "again") == Late("c1", "s", deadline)
    (call, _) = cp.peer_calls("s")
    assert (call["status"], call["result_json"], call["late_result_json"]) == ("expired", None, '"at last"')
    assert accepted(cp, "c2") == (True, 2, 2)


def test_response_after_the_deadline_counts_until_the_sweep(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1"))
    expire_deadlines("c1")

    assert accepted(cp, "c1") == (True, 1, 1)
    assert cp.sweep_deadlines().expired == ()


def test_response_after_the_cancellation(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1", "c2"))
    accepted(cp, "c1")
    cp.cancel_paused("s")

    assert cp.accept_response("c2", "yes") == Cancelled("c2", "s")
    assert cp.accept_response("c1", "yes") == Duplicate("c1", "s", same=True, ready=False)
    assert Session.objects.get().status == "cancelled"


def test_response_after_the_end_of_the_session(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1"), join("k", "c2"))
    accepted(cp, "c1")
    cp.take_paused("s")
    cp.finish_session("s", "completed", "done")

    assert cp.accept_response("c2", "yes") == Cancelled("c2", "s")


def test_response_of_another_peer_changes_nothing(cp: SyncCheckpointer) -> None:
    start_session(cp, "t")
    pause(cp, Join("j", [PeerCall("c1", "stock", token="sesame")]))

    foreign = Foreign("c1", "s")
    assert cp.accept_response("c1", "yes", token="sesame", peer="courier") == foreign
    assert cp.accept_response("c1", "yes", token="sesame", session_id="t") == foreign
    assert cp.accept_response("c1", "yes", token="guess") == foreign
    assert cp.accept_response("c1", "yes") == foreign
    right = cp.accept_response("c1", "yes", token="sesame", peer="stock", session_id="s")
    assert right == Accepted("c1", "s", "j", True, 1, 1)


def test_response_to_an_unknown_call_completes_no_join(cp: SyncCheckpointer) -> None:
    """An unknown call must not count as a complete join of zero calls."""
    start_session(cp, "t")
    cp.finish_session("t", "completed")

    assert cp.accept_response("c9", "yes", session_id="nobody") == Unknown("c9")
    assert cp.accept_response("c9", "yes", session_id="t") == Unknown("c9")
    assert cp.accept_response("c9", "yes") == Early("c9")
    assert isinstance(cp.accept_response("c9", "yes"), Unknown)
    assert cp.list_paused() == []


def test_early_response_is_counted_by_the_pause(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    """The response arrives at another process before the pause is stored, is acknowledged, and is not lost."""
    start_session(cp)
    assert open_checkpointer().accept_response("c1", "early", session_id="s", peer="stock") == Early("c1")
    assert EarlyResponse.objects.count() == 1

    assert pause(cp, join("j", "c1", "c2")) == Paused("s", 1, (), ready=False)
    assert (accepted(cp, "c2"), EarlyResponse.objects.count()) == ((True, 2, 2), 0)
    assert cp.take_paused("s").results["c1"].result == "early"


def test_pause_reports_a_join_completed_by_early_responses(cp: SyncCheckpointer) -> None:
    for call_id in ("c1", "c2"):
        cp.accept_response(call_id, "early")

    assert pause(cp, join("j", "c1", "c2"), join("k", "c3")) == Paused("s", 1, ("j",), ready=True)
    assert cp.accept_response("c1", "early") == Duplicate("c1", "s", same=True, ready=True)
    assert list(cp.take_paused("s").results) == ["c1", "c2"]


def test_repeated_early_response_is_stored_once(cp: SyncCheckpointer) -> None:
    for _ in range(3):
        assert cp.accept_response("c1", "early") == Early("c1")

    assert EarlyResponse.objects.count() == 1


def test_early_response_with_a_wrong_token_is_ignored(cp: SyncCheckpointer) -> None:
    start_session(cp)
    cp.accept_response("c1", "forged", peer="stock", token="guess")
    cp.accept_response("c1", "forged", peer="courier", token="sesame")
    cp.accept_response("c1", "true", peer="stock", token="sesame")
    call = PeerCall("c1", "stock", token="sesame")

    assert pause(cp, Join("j", [call])).complete == ("j",)
    assert cp.take_paused("s").results["c1"].result == "true"
    assert EarlyResponse.objects.count() == 0


def test_unclaimed_early_response_is_removed_after_a_day(cp: SyncCheckpointer) -> None:
    cp.accept_response("c1", "early")
    cp.accept_response("c2", "early")
    cp.sweep_deadlines()
    assert EarlyResponse.objects.count() == 2
    EarlyResponse.objects.filter(call_id="c1").update(received_at=F("received_at") - timedelta(days=1, seconds=1))
    cp.sweep_deadlines()

    assert list(EarlyResponse.objects.values_list("call_id", flat=True)) == ["c2"]


def test_early_responses_are_limited_to_their_workspace(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    Workspace.objects.create(slug="other", name="Other")
    open_checkpointer(workspace="other").accept_response("c1", "elsewhere")

    assert pause(cp, join("j", "c1")).complete == ()


def test_invalid_response_is_refused_and_may_be_sent_again(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1"))

    with pytest.raises(NotRepresentable):
        cp.accept_response("c1", float("nan"))
    with pytest.raises(InvalidIdentifier):
        cp.accept_response("", "yes")
    assert accepted(cp, "c1") == (True, 1, 1)


def test_only_changing_responses_update_the_session_for_live_pages(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1", "c2"))
    before = Session.objects.get().revision
    accepted(cp, "c1")
    after = Session.objects.get().revision
    cp.accept_response("c1", "yes")

    assert (after, Session.objects.get().revision) == (before + 1, after)


def test_lost_commit_answer_of_a_response_is_recovered(cp: SyncCheckpointer) -> None:
    """The caller learns of the complete join although the answer to its commit was lost."""
    pause(cp, join("j", "c1"))
    original = connection.commit
    lost: list[bool] = []

    def commit() -> None:
        original()
        if not lost:
            lost.append(True)
            raise OperationalError("server closed the connection unexpectedly")

    connection.commit = commit  # type: ignore[method-assign]
    try:
        answer = cp.accept_response("c1", "yes")
    finally:
        connection.commit = original  # type: ignore[method-assign]

    assert (answer, lost) == (Accepted("c1", "s", "j", True, 1, 1), [True])
