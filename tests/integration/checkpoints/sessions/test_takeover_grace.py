"""A run that has just taken over a session cannot be replaced for a moment."""

import pytest

from checkpoints.exceptions import OwnershipLost
from checkpoints.sessions import take_and_release_ownership
from tests.conftest import Open


def test_takeover_is_refused_just_after_a_takeover(open_checkpointer: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = open_checkpointer(), open_checkpointer(), open_checkpointer()
    first.start_session("s")
    second.start_session("s", takeover=True)
    with monkeypatch.context() as patched:
        patched.setattr(take_and_release_ownership, "GRACE", 3600)
        with pytest.raises(take_and_release_ownership._TakenTooRecently):
            take_and_release_ownership._take_ownership_in_transaction(third.store, "s", takeover=True, paused=False)
        assert second.save_checkpoint("s", [], None, 0) == 1

    third.start_session("s", takeover=True)
    with pytest.raises(OwnershipLost):
        second.save_checkpoint("s", [], None, 0)
