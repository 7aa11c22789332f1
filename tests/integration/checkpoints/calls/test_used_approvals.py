"""An approval is used up in the database, whatever a lookup has shown of it."""

from contextlib import suppress

from django.db import connection

from checkpoints.exceptions import ApprovalRequired, IntegrityError
from checkpoints.models import ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.integrity.test_altered_database import make_registry, run_sql
from tests.integration.checkpoints.integrity.test_hidden_operations import (
    Hidden,
    build_update_from_copy,
    copy_used_columns,
)
from tests.integration.checkpoints.session_setups import start_session


def test_used_approval_that_a_lookup_finds_unused_runs_nothing(open_checkpointer: Open) -> None:
    paid: list[int] = []
    cp = start_session(open_checkpointer())
    registry = make_registry(cp, paid, requires_approval=True)
    with suppress(ApprovalRequired):
        registry.dispatch("pay", {"order": 17}, "call_1")
    cp.approve_call("s", "call_1", actor="alice", reason="I looked.", revision=1)
    copy_used_columns("former")
    registry.dispatch("pay", {"order": 17}, "call_1")
    copy_used_columns("newest")
    in_lookup = Hidden(
        lambda sql: '"idempotency_key" = %s' in sql, build_update_from_copy("former"), build_update_from_copy("newest")
    )
    try:
        with suppress(IntegrityError), connection.execute_wrapper(in_lookup):
            registry.dispatch("pay", {"order": 17}, "call_1")
        assert paid == [17]
        assert ToolCall.objects.get().status == "completed"
    finally:
        run_sql("DROP TABLE former", "DROP TABLE newest")
