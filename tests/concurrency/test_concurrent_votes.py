"""People who approve a call that needs several of them, at the same moment and with what changes the call."""

from __future__ import annotations

from functools import partial

import pytest

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import AlreadyDecided, ApprovalRequired, StaleRevision
from checkpoints.models import Decision, ToolCall
from tests.concurrency.test_threads import together
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import start_session
from tests.support.exhaustive_mode import count_examples

ROUNDS = count_examples(6)


def request_approval(agent: SyncCheckpointer, session_id: str, approvals: int) -> None:
    registry = ToolRegistry(checkpointer=agent, session_id=session_id)

    @registry.tool(requires_approval=True, approvals=approvals)
    def pay(order: int) -> str:
        return "paid"

    with pytest.raises(ApprovalRequired):
        registry.dispatch("pay", {"order": 17}, "call_1")


def is_approval_recorded(person: SyncCheckpointer, session_id: str, name: str) -> bool:
    """Approve the call as somebody who saw it before anybody decided."""
    try:
        person.approve_call(session_id, "call_1", actor=name, reason="It fits.", revision=1)
    except (AlreadyDecided, StaleRevision):
        return False
    return True


def test_simultaneous_approvals_all_count(open_checkpointer: Open) -> None:
    people = {name: open_checkpointer() for name in ("alice", "bob", "carol", "dora")}
    for number in range(ROUNDS):
        session_id = f"s{number}"
        request_approval(start_session(open_checkpointer(), session_id), session_id, approvals=3)
        recorded = together(*(partial(is_approval_recorded, cp, session_id, name) for name, cp in people.items()))

        decisions = Decision.objects.filter(session__session_id=session_id).order_by("pk")
        assert sorted(recorded) == [False, True, True, True]
        assert list(decisions.values_list("final", "revision")) == [(False, 1), (False, 2), (True, 3)]
        assert ToolCall.objects.get(session__session_id=session_id).status == "approved"


def test_approval_that_races_with_an_edit_never_counts_for_the_edited_arguments(open_checkpointer: Open) -> None:
    voter, editor = open_checkpointer(), open_checkpointer()
    for number in range(ROUNDS):
        session_id = f"s{number}"
        request_approval(start_session(open_checkpointer(), session_id), session_id, approvals=2)
        assert is_approval_recorded(voter, session_id, "alice")

        def is_edited(session_id: str = session_id) -> bool:
            try:
                editor.edit_call(session_id, "call_1", {"order": 18}, actor="dora", reason="Wrong order.", revision=2)
            except AlreadyDecided:
                return False
            return True

        edited, approved = together(is_edited, partial(is_approval_recorded, voter, session_id, "bob"))
        assert edited != approved
        call = ToolCall.objects.get(session__session_id=session_id)
        expected = ("awaiting_approval", '{"order":18}') if edited else ("approved", '{"order":17}')
        assert (call.status, call.args) == expected
