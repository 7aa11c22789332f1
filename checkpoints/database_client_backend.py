"""Operations of a client on sessions in a database; `remote/http_client_backend.py` has them over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from checkpoints.db import clock
from checkpoints.db.database_operation import database_operation
from checkpoints.integrity import quarantine
from checkpoints.models import Run, Session
from checkpoints.peers import agent_notice_outbox, cancel_paused_task, take_paused_task
from checkpoints.peers.agent_notice_outbox import DatabaseOutbox, SendNotice
from checkpoints.peers.requests_to_other_agents import TakenTask, Told
from checkpoints.resume import start_or_resume
from checkpoints.resume.resume_point import ResumePoint
from checkpoints.sansio import Flow
from checkpoints.sessions import create_finish_release
from checkpoints.sessions.create_finish_release import SessionDescription
from checkpoints.store import row_lookups
from checkpoints.store.database_client_state import OwnedSession, Store
from checkpoints.store.version_state_columns import VersionChange
from checkpoints.versions import load_version, save_version
from checkpoints.workflows.step_log import DatabaseStepLog, StepLog


class DatabaseBackend:
    """Operations of a client on its store's database; each raises what the client's method of the name raises."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def start_session_flow(
        self, session_id: str, description: SessionDescription, *, takeover: bool | str = False
    ) -> Flow[Run]:
        return start_or_resume.start_session_flow(self.store, session_id, description, takeover=takeover)

    def resume_flow(
        self,
        session_id: str,
        description: SessionDescription | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool | str = False,
    ) -> Flow[ResumePoint]:
        """Resume the session. With a `description` one that does not exist is created."""
        if description is None:
            return start_or_resume.resume_flow(self.store, session_id, wait=wait, timeout=timeout, takeover=takeover)
        return start_or_resume.create_or_resume_session_flow(
            self.store, session_id, description, wait=wait, timeout=timeout, takeover=takeover
        )

    def take_paused_flow(
        self, session_id: str, *, wait: bool = False, timeout: float | None = None, takeover: bool | str = False
    ) -> Flow[TakenTask]:
        return take_paused_task.take_paused_task_flow(
            self.store, session_id, wait=wait, timeout=timeout, takeover=takeover
        )

    def cancel_paused_task_flow(
        self, session_id: str, *, tell: SendNotice | None = None, reason: str = ""
    ) -> Flow[Told]:
        return cancel_paused_task.cancel_paused_task_flow(self.store, session_id, tell=tell, reason=reason)

    def deliver_agent_notices_flow(
        self, tell: SendNotice, *, limit: int = agent_notice_outbox.DEFAULT_LIMIT
    ) -> Flow[Told]:
        return agent_notice_outbox.deliver_notices_flow(DatabaseOutbox(self.store), tell, limit=limit)

    def open_step_log(self, session_id: str, workflow_id: str) -> StepLog:
        """Open the journal of a workflow, or create it."""
        return DatabaseStepLog.open(self.store, session_id, workflow_id)

    def find_session_id_of_run(self, run_id: object) -> str:
        return row_lookups.find_session_id_of_run(self.store, run_id)

    def flush_and_require_owned_session(self, session_id: str) -> OwnedSession:
        """Return the state of an owned session that may be written to."""
        return row_lookups.flush_and_require_owned_session(self.store, session_id)

    def find_heartbeat_and_lease_end(self, session_id: str) -> tuple[datetime, datetime]:
        """Find the last heartbeat of the session's owner and the end of its lease; if it is being opened, those to
        come."""
        store = self.store
        with database_operation(store.using, writes=False):
            rows = Session.objects.using(store.using).filter(workspace_id=store.workspace_id, session_id=session_id)
            row = rows.select_related("owner").first()
            now = clock.database_now(store.using)
        if row is None or row.owner is None:
            return now, now + store.lease
        return row.owner.heartbeat_at, row.owner.lease_expires_at

    def append_version(
        self, session_id: str, messages: Sequence[dict[str, Any]], change: VersionChange, *, expected_version: int
    ) -> int:
        """Save the next version of an owned session from its new messages."""
        with quarantine.quarantine_on_integrity_error(self.store, session_id):
            return save_version.save_next_version_of_new_messages(
                self.store, session_id, messages, change, expected_version=expected_version
            )

    def save_version(self, session_id: str, transcript: Sequence[dict[str, Any]], change: VersionChange) -> int:
        """Save the next version of an owned session from its whole transcript."""
        with quarantine.quarantine_on_integrity_error(self.store, session_id):
            return save_version.save_next_version_of_transcript(self.store, session_id, transcript, change)

    def list_messages(self, session_id: str, after: int, limit: int, version: int | None) -> list[dict[str, Any]]:
        with quarantine.quarantine_on_integrity_error(self.store, session_id):
            return load_version.list_messages(self.store, session_id, after=after, limit=limit, version=version)

    def finish_session(self, session_id: str, status: str, result: Any) -> None:
        create_finish_release.finish_session(self.store, session_id, status, result)

    def release_session(self, session_id: str) -> bool:
        return create_finish_release.release_session(self.store, session_id)
