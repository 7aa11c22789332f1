"""Who has just taken a session from another keeps it for a moment."""

import pytest

from checkpoints.exceptions import OwnershipLost
from checkpoints.sessions import ownership
from tests.conftest import Open


def test_who_has_just_taken_over_is_not_ousted_at_once(
    open_checkpointer: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = open_checkpointer(), open_checkpointer(), open_checkpointer()
    first.start_session("s")
    second.start_session("s", takeover=True)
    with monkeypatch.context() as patched:
        patched.setattr(ownership, "GRACE", 3600)
        with pytest.raises(ownership._TakenTooRecently):
            ownership._try_to_take_session(third.store, "s", takeover=True, paused=False)
        assert second.save_checkpoint("s", [], None, 0) == 1

    third.start_session("s", takeover=True)
    with pytest.raises(OwnershipLost):
        second.save_checkpoint("s", [], None, 0)
