"""Calls that a lookup by their arguments does not find, because they are hidden for a moment, do not run again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from django.db import connection

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import ApprovalRequired, IntegrityError
from checkpoints.models import ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.integrity.sealed_history import plain
from tests.integration.checkpoints.integrity.test_altered_database import (
    keys_of_live_calls_may_repeat,
    make_registry,
    run_sql,
)
from tests.integration.checkpoints.session_setups import conversation, start_session

#: Moves the calls of one of two sessions to the other one.
MOVE_CALLS = (
    "UPDATE checkpoints_toolcall SET session_id = (SELECT min(id) + max(id) FROM checkpoints_session) - session_id"
)


#: Columns of a call that change when its approval is used.
USED = "status, revision, result, result_digest, settled_at, issued_at, row_seal"


def copy_used_columns(table: str) -> None:
    run_sql(f"CREATE TABLE {table} AS SELECT {USED} FROM checkpoints_toolcall")  # noqa: S608 - literals of this file


def build_update_from_copy(table: str) -> str:
    return f"UPDATE checkpoints_toolcall SET ({USED}) = (SELECT {USED} FROM {table})"  # noqa: S608


class Hidden:
    """Change rows before each statement of a kind, and put them back before the next statement of another kind."""

    def __init__(self, is_deceived: Callable[[str], bool], hide: str, show: str) -> None:
        self.is_deceived, self.hide, self.show = is_deceived, hide, show
        self.is_hidden = self.is_own = False

    def __call__(self, execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        if not self.is_own and self.is_deceived(sql) != self.is_hidden:
            self.is_own, self.is_hidden = True, not self.is_hidden
            run_sql(self.hide if self.is_hidden else self.show)
            self.is_own = False
        return execute(sql, *more)


def hide_calls_from_lookups_of_operations() -> Hidden:
    """Let calls look answered to the statements that list unanswered ones."""
    update = "UPDATE checkpoints_toolcall SET answered_version ="
    return Hidden(lambda sql: '"answered_version" IS NULL' in sql, f"{update} 1", f"{update} NULL")


def hide_calls_from_all_but_the_sum() -> Hidden:
    """Let calls be in another session for the statements that read them, but not for the one that adds up seals."""
    return Hidden(lambda sql: sql.startswith('SELECT "checkpoints_toolcall"."id"'), MOVE_CALLS, MOVE_CALLS)


def hide_from_lists_of_decisions(kind: str) -> Hidden:
    """Let decisions of a kind be about another call for the statements that list them."""
    update = "UPDATE checkpoints_decision SET session_id = -session_id, tool_call_id = -tool_call_id"
    update += f" WHERE kind = '{kind}'"
    return Hidden(lambda sql: sql.startswith('SELECT "checkpoints_decision"."id"') and "JOIN" in sql, update, update)


def test_operation_that_is_hidden_from_the_lookup_does_not_run_again(open_checkpointer: Open) -> None:
    paid: list[int] = []
    cp = start_session(open_checkpointer())
    make_registry(cp, paid, idempotency="unanswered").dispatch("pay", {"order": 17}, "call_1")
    cp.save_checkpoint("s", conversation("ab"), {}, 0)
    cp.release_session("s")
    again = open_checkpointer()
    again.resume("s")
    registry = make_registry(again, paid, idempotency="unanswered")
    with connection.execute_wrapper(hide_calls_from_lookups_of_operations()):
        assert registry.dispatch("pay", {"order": 17}, "call_2").replayed
    assert (paid, plain(ToolCall).count()) == ([17], 1)


def test_operation_of_a_call_that_is_altered_for_its_lookup_does_not_run_again(open_checkpointer: Open) -> None:
    paid: list[int] = []
    cp = start_session(open_checkpointer())
    make_registry(cp, paid, idempotency="unanswered").dispatch("pay", {"order": 17}, "call_1")
    cp.release_session("s")
    again = open_checkpointer()
    again.resume("s")
    registry = make_registry(again, paid, idempotency="unanswered")
    plain(ToolCall).update(args_digest="0" * 64)
    with pytest.raises(IntegrityError):
        registry.dispatch("pay", {"order": 17}, "call_2")
    assert (paid, plain(ToolCall).count()) == ([17], 1)


@pytest.mark.parametrize("policy", ["once", "unanswered"])
def test_call_that_is_hidden_from_its_verification_does_not_run_again(open_checkpointer: Open, policy: str) -> None:
    paid: list[int] = []
    cp = start_session(start_session(open_checkpointer()), "beside it")
    make_registry(cp, paid, idempotency=policy).dispatch("pay", {"order": 17}, "call_1")
    cp.save_checkpoint("s", conversation("ab"), {}, 0)
    cp.release_session("s")
    again = open_checkpointer()
    again.resume("s")
    registry = make_registry(again, paid, idempotency=policy)
    with (
        keys_of_live_calls_may_repeat(),
        connection.constraint_checks_disabled(),
        connection.execute_wrapper(hide_calls_from_all_but_the_sum()),
    ):
        with pytest.raises(IntegrityError):
            registry.dispatch("pay", {"order": 17}, "call_2")
        assert (paid, plain(ToolCall).count()) == ([17], 1)


@pytest.mark.parametrize("hidden", ["withdraw", "edit"])
def test_vote_does_not_count_if_a_decision_is_hidden_from_the_list_of_votes(
    open_checkpointer: Open, hidden: str
) -> None:
    paid: list[int] = []
    cp = start_session(open_checkpointer())
    with suppress(ApprovalRequired):
        make_registry(cp, paid, requires_approval=True, approvals=2).dispatch("pay", {"order": 17}, "call_1")
    if hidden == "withdraw":
        acts, last = [(cp.approve_call, "alice"), (cp.withdraw_decision, "alice")], "bob"
    else:
        acts, last = [(partial(cp.edit_call, new_args={"order": 18}), "alice"), (cp.approve_call, "bob")], "alice"
    for revision, (act, actor) in enumerate(acts, 1):
        act("s", "call_1", actor=actor, reason="I looked.", revision=revision)
    with (
        connection.constraint_checks_disabled(),
        connection.execute_wrapper(hide_from_lists_of_decisions(hidden)),
        pytest.raises(IntegrityError),
    ):
        cp.approve_call("s", "call_1", actor=last, reason="I looked.", revision=3)
    assert plain(ToolCall).get().status == "awaiting_approval"


def use_approval_and_copy_columns(cp: SyncCheckpointer, paid: list[int]) -> ToolRegistry:
    """Approve a payment and run it. The tables `former` and `newest` have its columns before and after it ran."""
    registry = make_registry(cp, paid, requires_approval=True)
    with suppress(ApprovalRequired):
        registry.dispatch("pay", {"order": 17}, "call_1")
    cp.approve_call("s", "call_1", actor="alice", reason="I looked.", revision=1)
    copy_used_columns("former")
    registry.dispatch("pay", {"order": 17}, "call_1")
    copy_used_columns("newest")
    return registry


@pytest.mark.parametrize("hidden_from", ["lookup", "all but the sum"])
def test_approval_that_was_used_and_is_shown_again_for_a_moment_does_not_run_again(
    open_checkpointer: Open, hidden_from: str
) -> None:
    paid: list[int] = []
    registry = use_approval_and_copy_columns(start_session(open_checkpointer()), paid)

    def is_deceived(sql: str) -> bool:
        is_of_verification = " UNION ALL " in sql or '"checkpoints_toolcall"."id" ASC LIMIT' in sql
        return '"idempotency_key" = %s' in sql or (hidden_from != "lookup" and not is_of_verification)

    try:
        with (
            connection.execute_wrapper(
                Hidden(is_deceived, build_update_from_copy("former"), build_update_from_copy("newest"))
            ),
            pytest.raises(IntegrityError),
        ):
            registry.dispatch("pay", {"order": 17}, "call_1")
        assert paid == [17]
    finally:
        run_sql("DROP TABLE former", "DROP TABLE newest")


def test_call_that_is_hidden_from_the_gate_does_not_run_without_a_decision(open_checkpointer: Open) -> None:
    paid: list[int] = []
    cp = start_session(start_session(open_checkpointer()), "beside it")
    with suppress(ApprovalRequired):
        make_registry(cp, paid, requires_approval=True).dispatch("pay", {"order": 17}, "call_1")
    cp.release_session("s")
    again = open_checkpointer()
    is_of_gate = '"checkpoints_toolcall"."status" IN ('
    with connection.execute_wrapper(Hidden(lambda sql: is_of_gate in sql, MOVE_CALLS, MOVE_CALLS)):
        again.resume("s")
    with pytest.raises(ApprovalRequired):
        make_registry(again, paid, requires_approval=True).dispatch("pay", {"order": 17}, "call_1")
    assert paid == []
