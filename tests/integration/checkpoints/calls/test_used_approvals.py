"""An approval is used up in the database, whatever a lookup has shown of it."""

from contextlib import suppress

from django.db import connection

from checkpoints.exceptions import IntegrityError
from checkpoints.models import ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.integrity.test_altered_database import run_sql
from tests.integration.checkpoints.integrity.test_hidden_operations import (
    Hidden,
    build_update_from_copy,
    use_approval_and_copy_columns,
)
from tests.integration.checkpoints.session_setups import start_session


def test_used_approval_that_a_lookup_finds_unused_runs_nothing(open_checkpointer: Open) -> None:
    paid: list[int] = []
    registry = use_approval_and_copy_columns(start_session(open_checkpointer()), paid)
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
