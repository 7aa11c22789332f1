"""Number of files on the call stack between a public write and its SQL."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.db import connection
from django.test import Client

from checkpoints import SyncCheckpointer
from checkpoints.enums import SessionStatus
from checkpoints.models import Checkpoint, ToolCall
from tests.integration.checkpoints.session_setups import conversation, start_session
from tests.support.factories import make_call, make_run, make_session, make_user

ROOT = Path(__file__).parents[3]
#: The query set of every sealed model, which lies below the models as Django's own does.
QUERY_SET = "checkpoints/seals/sealed_model.py"


def files_above(statement: str, work: Callable[[], object]) -> list[str]:
    """Return the product files on the stack, outermost first, when a statement with this prefix is executed."""
    files: list[str] = []

    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if sql.startswith(statement) and not files:
            paths = [Path(frame.filename) for frame in traceback.extract_stack()]
            own = [path.relative_to(ROOT).as_posix() for path in paths if path.is_relative_to(ROOT)]
            shown = (path for path in own if path.startswith(("checkpoints/", "harness_site/")) and path != QUERY_SET)
            files.extend(dict.fromkeys(shown))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        work()
    return files


def test_save_passes_few_files(cp: SyncCheckpointer) -> None:
    start_session(cp).save_checkpoint("s", conversation("a"), None, 0)
    table = f'"{Checkpoint._meta.db_table}"'
    statement = f"INSERT INTO {table}" if connection.vendor == "sqlite" else "WITH head AS"

    files = files_above(statement, lambda: cp.save_checkpoint("s", conversation("ab"), None, 0))

    assert files == [
        "checkpoints/sync_client.py",
        "checkpoints/database_backend/database_client_backend.py",
        "checkpoints/versions/save_version.py",
        "checkpoints/db/hot_statements.py",
    ]


def test_decision_passes_few_files(client: Client, db: None) -> None:
    client.force_login(make_user(name="alice"))
    session = make_session(status=SessionStatus.NEEDS_REVIEW)
    make_run(session=session)
    call = make_call(session=session)
    form = {"kind": "mark_failed", "reason": "Not in the export.", "revision": 1}

    files = files_above(f'UPDATE "{ToolCall._meta.db_table}"', lambda: client.post(f"/review/calls/{call.pk}/", form))

    view = files.index("harness_site/review/views/decision_card.py")
    assert files[view:] == [
        "harness_site/review/views/decision_card.py",
        "harness_site/review/record_decision_from_form.py",
        "checkpoints/decisions/decide.py",
    ]
