"""Backend of a client: what a database of this process and a server each do in their own way.

`database_backend` and `remote` have one each; `open_backend` chooses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from checkpoints.archive.archive_results import ExportedFile, ImportedSession
from checkpoints.decisions.actors import Actor
from checkpoints.decisions.decision_target import DecisionTarget
from checkpoints.enums import DecisionKind
from checkpoints.exceptions import NotOverHttp
from checkpoints.loop_state.phase_details import PhaseDetails
from checkpoints.loop_state.resumable_loop_snapshot import RuntimeSnapshot
from checkpoints.peers.agent_call_and_result_types import Deadline, Join, Paused, Swept, TakenTask, Told
from checkpoints.peers.deliver_notices import SendNotice
from checkpoints.peers.response_acceptance_outcomes import Answer
from checkpoints.resume.resume_point import ResumePoint
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.sessions.version_retention_rule import RemovalCounts, RetentionRule
from checkpoints.store.call_intent_and_outcome_types import CallIntent
from checkpoints.store.checkpointer_state import CheckpointerState, OwnedSession
from checkpoints.store.owning_run_protocol import OwningRun
from checkpoints.store.version_state_types import Unchanged, VersionChange
from checkpoints.sync_and_async_flow_runners import Flow
from checkpoints.versions.imported_phase_records import ImportedRecord
from checkpoints.workflows.step_log_protocol import StepLog

if TYPE_CHECKING:
    from checkpoints.store.database_client_state import Store


@dataclass(frozen=True)
class ClientOptions:
    """Arguments with which a client was opened, as `SyncCheckpointer` describes them."""

    url: str | Path | None
    workspace: str
    lease_seconds: float
    using: str
    migrate: bool | None
    idle_release_seconds: float | None
    token: str | None


class ClientOfBackend:
    """Client whose operations are those of a backend."""

    backend: ClientBackend
    #: State that this client has in any case; `store` is the same object.
    checkpointer_state: CheckpointerState

    def _set_backend_and_client_state(self, backend: ClientBackend) -> None:
        self.backend, self.checkpointer_state = backend, backend.checkpointer_state

    @property
    def store(self) -> Store:
        """State of a client of a database, which the functions that work on a database take.

        Raises:
            NotOverHttp: The client is one of a server.
        """
        if not self.checkpointer_state.has_database:
            raise NotOverHttp("Work on the database")
        return cast("Store", self.checkpointer_state)


class Closable(Protocol):
    """Connection of a worker thread."""

    def close(self) -> object: ...


class ClientBackend(Protocol):
    """Operations of a client; each raises what the client's method of the name raises."""

    @property
    def checkpointer_state(self) -> CheckpointerState:
        """State of the client."""

    def close(self) -> None:
        """Release the sessions that the client owns, and close what it has opened."""

    def create_thread_pool(self, opened: list[Closable]) -> ThreadPoolExecutor:
        """Create the threads of an async client; they add to `opened` what has to be closed after they have ended."""

    # sessions

    def start_session_flow(
        self, session_id: str, description: NewSessionFields, *, takeover: bool | str = False
    ) -> Flow[OwningRun]: ...

    def resume_session_flow(
        self,
        session_id: str,
        description: NewSessionFields | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool | str = False,
    ) -> Flow[ResumePoint]:
        """Resume the session. With a `description` one that does not exist is created."""

    def get_session_id_of_run(self, run_id: object) -> str: ...

    def flush_and_require_owned_session(self, session_id: str) -> OwnedSession:
        """Return the state of an owned session that may be written to."""

    def find_or_predict_heartbeat_and_lease_end(self, session_id: str) -> tuple[datetime, datetime]:
        """Find the last heartbeat of the session's owner and the end of its lease; if it is being opened, those to
        come."""

    def release_session(self, session_id: str) -> bool: ...

    def finish_session(self, session_id: str, status: str, result: Any) -> None: ...

    def list_sessions(
        self,
        *,
        status: str | None,
        agent: str | None,
        label: str | None,
        updated_before: datetime | None,
        after: str | None,
        limit: int,
    ) -> list[dict[str, Any]]: ...

    def fork_session(
        self,
        session_id: str,
        new_session_id: str,
        *,
        version: int | None,
        title: str | None,
        actor: Actor | str | None,
    ) -> int: ...

    def export_session(self, session_id: str, path: str | Path) -> ExportedFile: ...

    def import_session(self, path: str | Path, *, session_id: str | None) -> ImportedSession: ...

    def delete_session(self, session_id: str, *, dry_run: bool) -> RemovalCounts: ...

    def release_quarantine(self, session_id: str, *, actor: Actor | str, reason: str, accept_altered: bool) -> int: ...

    def preview_resume(self, session_id: str) -> dict[str, Any]: ...

    def sweep_lost_runs(self, *, limit: int) -> list[str]: ...

    # versions

    def save_version(
        self,
        session_id: str,
        transcript: Sequence[dict[str, Any]],
        change: VersionChange,
        expected_version: int | None = None,
    ) -> int:
        """Save the next version of an owned session from its whole transcript."""

    def append_version(
        self, session_id: str, messages: Sequence[dict[str, Any]], change: VersionChange, *, expected_version: int
    ) -> int:
        """Save the next version of an owned session from its new messages."""

    def append_version_with_or_without_run(
        self, session_id: str, messages: Sequence[dict[str, Any]], change: VersionChange, *, expected_version: int
    ) -> int:
        """Save the next version of a session from its new messages; it may be one that nobody owns."""

    def save_phase(
        self,
        session_id: str,
        details: PhaseDetails,
        snapshot: RuntimeSnapshot | None,
        transcript: Sequence[dict[str, Any]] | None,
        plan: dict[str, Any] | Unchanged | None,
        expected_version: int | None,
    ) -> int: ...

    def import_record(self, session_id: str, record: dict[str, Any], *, run_id: str | None) -> ImportedRecord: ...

    def load_latest(self, session_id: str) -> dict[str, Any] | None: ...

    def load(self, session_id: str, version: int) -> dict[str, Any]: ...

    def list_checkpoints(self, session_id: str, *, before: int | None, limit: int) -> list[dict[str, Any]]: ...

    def list_messages(self, session_id: str, after: int, limit: int, version: int | None) -> list[dict[str, Any]]: ...

    def delete_checkpoint(self, session_id: str, version: int) -> RemovalCounts: ...

    def prune(self, session_id: str, retention: RetentionRule, *, dry_run: bool) -> RemovalCounts: ...

    # calls and steps

    def record_issued_call(self, session_id: str, intent: CallIntent) -> None: ...

    def record_call_result(
        self, session_id: str, call_id: str, result_text: str, success: bool, *, step: int | None
    ) -> None: ...

    def find_completed_call(self, idempotency_key: str) -> dict[str, Any] | None: ...

    def list_unfinished_calls(self, session_id: str) -> list[dict[str, Any]]: ...

    def list_calls_awaiting_decision(
        self, *, agent: str | None, after: int | None, limit: int
    ) -> list[dict[str, Any]]: ...

    def open_or_create_step_log(self, session_id: str, workflow_id: str) -> StepLog:
        """Open the journal of a workflow, or create it."""

    # decisions

    def verify_call_flow(self, target: DecisionTarget, actor: Actor | str) -> Flow[str]: ...

    def record_decision(
        self,
        target: DecisionTarget,
        kind: DecisionKind,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None,
        result: str | None = None,
        new_args: dict[str, Any] | None = None,
    ) -> None: ...

    def withdraw_decision(
        self,
        target: DecisionTarget,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None,
    ) -> None: ...

    # other agents

    def pause_for_peers(self, session_id: str, state: dict[str, Any], joins: Iterable[Join]) -> Paused: ...

    def accept_response(
        self, peer_call_id: str, result: Any, *, session_id: str | None, peer: str | None, token: str | None
    ) -> Answer: ...

    def take_paused_task_flow(
        self, session_id: str, *, wait: bool = False, timeout: float | None = None, takeover: bool | str = False
    ) -> Flow[TakenTask]: ...

    def extend_deadline(self, peer_call_id: str, deadline: Deadline) -> datetime: ...

    def cancel_paused_session_and_notify_agents_flow(
        self, session_id: str, *, tell: SendNotice | None, reason: str
    ) -> Flow[Told]: ...

    def deliver_agent_notices_flow(self, tell: SendNotice, *, limit: int) -> Flow[Told]: ...

    def sweep_deadlines(self, *, limit: int) -> Swept: ...

    def list_paused(self, *, ready: bool | None, agent: str | None, limit: int) -> list[dict[str, Any]]: ...

    def list_peer_calls(self, session_id: str) -> list[dict[str, Any]]: ...
