"""Lists show which sessions are altered, and do not offer what cannot be taken."""

from __future__ import annotations

import pytest

from checkpoints.exceptions import IntegrityError
from checkpoints.models import Join, PeerCall, Session
from tests.conftest import Open
from tests.integration.checkpoints.integrity.sealed_history import create_sealed_session, plain, rolled_back
from tests.integration.checkpoints.session_setups import start_session


@pytest.mark.parametrize("column", ["status", "result", "session_id", "key_space", "latest_version"])
def test_altered_session_is_listed_as_quarantined(open_checkpointer: Open, column: str) -> None:
    cp = start_session(start_session(open_checkpointer()), "other")
    before = {entry["cursor"].rpartition(":")[2]: entry["status"] for entry in cp.list_sessions()}
    assert set(before.values()) == {"active"}
    forged = {"latest_version": 7, "status": "completed"}.get(column, "forged")
    plain(Session).filter(session_id="s").update(**{column: forged})

    assert sorted(entry["status"] for entry in cp.list_sessions()) == ["active", "quarantined"]


@pytest.mark.parametrize("model", [Session, Join], ids=lambda model: model.__name__)
def test_altered_paused_task_is_not_ready(open_checkpointer: Open, model: type[Session | Join]) -> None:
    create_sealed_session(open_checkpointer, "s")
    cp = open_checkpointer()
    cp.accept_response("s p2", {"left": 0})
    assert [(task["session_id"], task["ready"]) for task in cp.list_paused()] == [("s", True)]
    with rolled_back():
        seal = bytes(plain(model).values_list("row_seal", flat=True)[0])
        plain(model).update(row_seal=seal[:31] + bytes([seal[31] ^ 1]))
        assert [(task["ready"], task["complete"]) for task in cp.list_paused()] == [
            (False, [] if model is Join else ["j"])
        ]
        assert cp.list_paused(ready=True) == []


def test_altered_call_to_another_agent_is_not_listed(open_checkpointer: Open) -> None:
    create_sealed_session(open_checkpointer, "s")
    cp = open_checkpointer()
    assert len(cp.peer_calls("s")) == 2
    plain(PeerCall).filter(call_id="s p1").update(result='{"left":9}')
    with pytest.raises(IntegrityError):
        cp.peer_calls("s")
