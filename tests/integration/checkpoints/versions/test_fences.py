"""Every write of a run names its fence: where that has grown, nothing is written, even if all else is as before."""

import pytest
from django.db.models import F

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import LateResultRefused, OwnershipLost
from checkpoints.models import Checkpoint, Session, ToolCall
from tests.integration.checkpoints.session_setups import call_statuses, start_session


def outrun() -> None:
    Session.objects.update(fence=F("fence") + 1)


def test_save_under_a_fence_that_has_grown_is_refused(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint("s", [{"turn": 1}], None, 0)
    outrun()

    with pytest.raises(OwnershipLost):
        cp.save_checkpoint("s", [{"turn": 1}, {"turn": 2}], None, 0)
    assert (Checkpoint.objects.count(), Session.objects.get().latest_version) == (1, 1)


def test_intent_under_a_fence_that_has_grown_is_refused(cp: SyncCheckpointer) -> None:
    start_session(cp)
    outrun()

    with pytest.raises(OwnershipLost):
        cp.record_tool_call_issued("s", "call_1", "pay", {}, "key")
    assert ToolCall.objects.count() == 0


def test_outcome_under_a_fence_that_has_grown_is_refused(cp: SyncCheckpointer) -> None:
    start_session(cp).record_tool_call_issued("s", "call_1", "pay", {}, "key")
    outrun()

    with pytest.raises(LateResultRefused):
        cp.record_tool_call_result("s", "call_1", "paid", True)
    assert call_statuses() == [("call_1", 1, "issued")]
