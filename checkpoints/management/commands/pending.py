"""`manage.py pending`: list the unfinished calls of one session, or of all sessions of a workspace.

Unfinished is a call that is issued (running, or left by a run that died), interrupted, or awaiting approval. The calls
that wait for a person are fewer: a running one does not.
"""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.enums import UNDECIDED_CALL_STATUSES, CallStatus
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import ToolCall
from checkpoints.sync_client import SyncCheckpointer


class Command(BaseCommand):
    help = (
        "List the unfinished tool calls: running, issued by a run that has died, interrupted (outcome unknown), or "
        "awaiting approval. Approved calls that have not run yet and calls of imported transcripts are not listed."
    )
    #: Checks load the views of the site, which takes longer than the work of this command.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("session_id", nargs="?", help="one session; without it, all sessions of the workspace")
        parser.add_argument("--workspace", default=DEFAULT_WORKSPACE)
        parser.add_argument("--database", default="default", help="connection alias")
        parser.add_argument("--json", action="store_true", help="one JSON object for each call")

    def handle(self, *args: Any, **options: Any) -> None:
        checkpointer = SyncCheckpointer(workspace=options["workspace"], using=options["database"])
        session_id = options["session_id"]
        try:
            for listed_id in (
                [session_id] if session_id is not None else _list_session_ids_with_unfinished_calls(checkpointer)
            ):
                for call in checkpointer.pending_tool_calls(listed_id):
                    self._print_call(listed_id, call, as_json=options["json"])
        except CheckpointsError as error:
            raise CommandError(str(error)) from error

    def _print_call(self, session_id: str, call: dict[str, Any], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps({"session_id": session_id, **call}))
            return
        state = "running" if call["alive"] else str(CallStatus(call["status"]).label).lower()
        columns = (session_id, call["call_id"], f"{call['tool_name']} {call['args_json']}")
        self.stdout.write("  ".join([*map(_escape_control_characters, columns), state]))


def _escape_control_characters(text: str) -> str:
    """Escape control characters, so that text of agents cannot move the cursor of a terminal or start a line."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def _list_session_ids_with_unfinished_calls(checkpointer: SyncCheckpointer) -> list[str]:
    store = checkpointer.store
    calls = ToolCall.objects.using(store.using).filter(
        workspace_id=store.workspace_id, status__in=sorted({CallStatus.ISSUED, *UNDECIDED_CALL_STATUSES})
    )
    return list(calls.order_by("session__session_id").values_list("session__session_id", flat=True).distinct())
