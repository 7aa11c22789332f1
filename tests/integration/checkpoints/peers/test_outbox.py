"""Cancellation, and notices to peers, which are delivered at least once despite crashes and failures."""

from datetime import timedelta

import pytest
from django.db.models import F

from checkpoints import SyncCheckpointer
from checkpoints.db.clock import read_database_time
from checkpoints.exceptions import NotPaused, SessionBusy, SessionFinished, SessionNotFound, StillNeeded
from checkpoints.models import AuditEvent, PausedTask, PeerCall, Session, Workspace
from checkpoints.peers import Join, Notice, Told
from checkpoints.peers import PeerCall as Call
from tests.conftest import Open
from tests.integration.checkpoints.peers.paused_agents import (
    accepted,
    expire_deadlines,
    join,
    lose_run,
    pause,
    peer_call_statuses,
)
from tests.integration.checkpoints.session_setups import start_session


class Peers:
    """Peers that record the notices they get, and may be unreachable."""

    def __init__(self, *, unreachable: bool = False) -> None:
        self.told: list[tuple[str, str, str]] = []
        self.unreachable = unreachable

    def __call__(self, notice: Notice) -> None:
        if self.unreachable:
            raise ConnectionError("no route to host")
        self.told.append((notice.kind, notice.peer, notice.call_id))


def make_notices_due() -> None:
    """Make the next attempts due."""
    PeerCall.objects.exclude(tell_after=None).update(tell_after=F("created_at"))


def test_cancel_notifies_all_peers_with_open_requests(cp: SyncCheckpointer) -> None:
    peers = Peers()
    pause(cp, Join("j", [Call("c1", "stock"), Call("c2", "courier"), Call("c3", "bank")]))
    accepted(cp, "c3")

    assert cp.cancel_paused("s", tell=peers, reason="The customer left.") == Told(("c1", "c2"))
    assert peers.told == [("cancel", "stock", "c1"), ("cancel", "courier", "c2")]
    assert (Session.objects.get().status, PausedTask.objects.get().status) == ("cancelled", "cancelled")
    assert peer_call_statuses() == {"c1": "cancelled", "c2": "cancelled", "c3": "answered"}
    event = AuditEvent.objects.get(kind="peers_cancelled")
    assert event.details == '{"calls":2,"reason":"The customer left."}'
    make_notices_due()
    assert cp.tell_peers(peers) == Told()


def test_cancel_of_a_task_without_open_calls_creates_no_notices(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1"))
    accepted(cp, "c1")

    assert cp.cancel_paused("s", tell=Peers()) == Told()
    assert (cp.list_paused(), PausedTask.objects.get().status) == ([], "cancelled")
    with pytest.raises(SessionFinished):
        cp.take_paused("s")
    cp.delete_session("s")
    assert not PausedTask.objects.exists()


def test_cancel_notices_are_sent_after_the_canceller_was_killed(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    pause(cp, join("j", "c1", "c2"))
    cp.cancel_paused("s")
    peers = Peers()

    assert open_checkpointer().tell_peers(peers) == Told(("c1", "c2"))
    assert [call_id for _, _, call_id in peers.told] == ["c1", "c2"]


def test_notice_to_an_unreachable_peer_is_retried(cp: SyncCheckpointer) -> None:
    peers = Peers(unreachable=True)
    pause(cp, join("j", "c1"))

    assert cp.cancel_paused("s", tell=peers).failed == {"c1": "ConnectionError: no route to host"}
    peers.unreachable = False
    assert cp.tell_peers(peers) == Told()
    make_notices_due()
    assert cp.tell_peers(peers) == Told(("c1",))


def test_unreachable_peer_does_not_block_notices_to_others(cp: SyncCheckpointer) -> None:
    pause(cp, Join("j", [Call("c1", "stock"), Call("c2", "courier")]))

    def tell(notice: Notice) -> None:
        if notice.peer == "stock":
            raise TimeoutError

    told = cp.cancel_paused("s", tell=tell)
    assert (told.told, list(told.failed)) == (("c2",), ["c1"])


def test_attempts_are_counted_with_growing_delays(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1"))
    cp.cancel_paused("s")
    pauses, attempts = [], []

    def tell(notice: Notice) -> None:
        attempts.append(notice.attempt)
        raise ConnectionError

    for _ in range(3):
        make_notices_due()
        before = read_database_time("default")
        cp.tell_peers(tell)
        after = PeerCall.objects.get().tell_after
        assert after is not None
        pauses.append((after - before).total_seconds())
    assert attempts == [1, 2, 3]
    assert pauses[0] >= 1
    assert pauses[1] >= 2
    assert pauses[2] >= 4


def test_delay_between_attempts_is_at_most_one_hour(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1"))
    cp.cancel_paused("s", tell=Peers(unreachable=True))
    PeerCall.objects.update(tell_attempts=1000)
    make_notices_due()
    cp.tell_peers(Peers(unreachable=True))
    after = PeerCall.objects.get().tell_after

    assert after is not None
    assert after <= read_database_time("default") + timedelta(hours=1)


def test_notice_claimed_by_a_dead_sender_is_sent_after_its_lease(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    pause(cp, join("j", "c1"))
    cp.cancel_paused("s")

    def die(notice: Notice) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cp.tell_peers(die)
    assert open_checkpointer().tell_peers(Peers()) == Told()
    make_notices_due()
    assert open_checkpointer().tell_peers(Peers()) == Told(("c1",))


def test_two_senders_do_not_send_the_same_notice(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    pause(cp, join("j", "c1"))
    cp.cancel_paused("s")
    other = open_checkpointer()
    meanwhile = []

    cp.tell_peers(lambda notice: meanwhile.append(other.tell_peers(Peers())))
    assert meanwhile == [Told()]


def test_expired_call_is_cancelled_at_its_peer(cp: SyncCheckpointer) -> None:
    peers = Peers()
    pause(cp, join("j", "c1", "c2"))
    expire_deadlines("c1")
    cp.sweep_deadlines()

    cp.tell_peers(peers)
    assert peers.told == [("cancel", "stock", "c1")]


def test_finish_with_an_open_join_cancels_its_calls_at_the_peers(cp: SyncCheckpointer) -> None:
    peers = Peers()
    pause(cp, join("j", "c1"), join("k", "c2"))
    accepted(cp, "c1")
    cp.take_paused("s")
    cp.finish_session("s", "completed")

    cp.tell_peers(peers)
    assert peers.told == [("cancel", "stock", "c2")]


def test_unsent_requests_are_sent_after_a_crash(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    pause(cp, Join("j", [Call("c1", "stock", {"ask": "c1"}, sent=False), Call("c2", "stock")]))
    requests = []

    assert open_checkpointer().tell_peers(lambda notice: requests.append(notice)) == Told(("c1",))
    (notice,) = requests
    assert (notice.kind, notice.session_id, notice.request, notice.attempt) == ("request", "s", {"ask": "c1"}, 1)
    assert notice.deadline == PeerCall.objects.get(call_id="c1").deadline


def test_unsent_request_that_is_answered_or_cancelled(cp: SyncCheckpointer) -> None:
    peers = Peers()
    pause(cp, join("j", "c1", "c2", sent=False))
    accepted(cp, "c1")
    cp.cancel_paused("s")

    cp.tell_peers(peers)
    assert peers.told == [("cancel", "stock", "c2")]


def test_request_that_is_cancelled_while_it_is_sent(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    pause(cp, join("j", "c1", sent=False))
    other = open_checkpointer()
    peers = Peers()

    cp.tell_peers(lambda notice: other.cancel_paused("s"))
    make_notices_due()
    cp.tell_peers(peers)
    assert peers.told == [("cancel", "stock", "c1")]


def test_sending_notices_has_a_limit_and_is_limited_to_its_workspace(
    cp: SyncCheckpointer, open_checkpointer: Open
) -> None:
    Workspace.objects.create(slug="other", name="Other")
    pause(cp, join("j", "c1", "c2", "c3", sent=False))

    assert open_checkpointer(workspace="other").tell_peers(Peers()) == Told()
    assert [cp.tell_peers(Peers(), limit=2).told for _ in range(2)] == [("c1", "c2"), ("c3",)]


def test_cancel_is_refused_without_a_paused_task(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    with pytest.raises(SessionNotFound):
        cp.cancel_paused("s")
    start_session(cp)
    with pytest.raises(NotPaused):
        cp.cancel_paused("s")
    pause(cp, join("j", "c1"), join("k", "c2"))
    accepted(cp, "c1")
    cp.take_paused("s")
    with pytest.raises(SessionBusy):
        open_checkpointer().cancel_paused("s")
    cp.finish_session("s", "completed")
    with pytest.raises(SessionFinished):
        cp.cancel_paused("s")


def test_task_of_a_lost_run_can_be_cancelled(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    pause(cp, join("j", "c1"), join("k", "c2"))
    accepted(cp, "c1")
    cp.take_paused("s")
    lose_run()

    other, peers = open_checkpointer(), Peers()
    other.cancel_paused("s", tell=peers)
    assert peers.told == [("cancel", "stock", "c2")]
    assert (Session.objects.get().status, Session.objects.get().owner) == ("cancelled", None)


def test_notices_of_a_deleted_session_are_dropped(cp: SyncCheckpointer) -> None:
    peers = Peers()
    pause(cp, join("j", "c1"))
    cp.cancel_paused("s")
    cp.delete_session("s")
    assert cp.tell_peers(peers) == Told()
    assert peers.told == []


def test_paused_session_is_not_deleted(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1"))
    with pytest.raises(StillNeeded):
        cp.delete_session("s")
    assert peer_call_statuses() == {"c1": "waiting"}
