"""Operations of a client on sessions in a database; `remote/http_client_backend.py` has them over HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import connections

from checkpoints import open_and_migrate, server_or_database_url
from checkpoints.archive import session_export, session_import
from checkpoints.archive.archive_results import ExportedFile, ImportedSession
from checkpoints.calls import (
    call_queries,
    calls_awaiting_decision,
    intent_log,
    unfinished_call_queries,
    write_outcomes_and_interruptions,
)
from checkpoints.client_backend import ClientOptions, Closable
from checkpoints.database_backend.database_call_log import DatabaseCallLog
from checkpoints.database_backend.database_workflow_step_log import DatabaseStepLog
from checkpoints.db import clock
from checkpoints.db.connection import get_supported_connection
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.decisions import decide, decision_withdrawal, record_verify_hook_answers
from checkpoints.decisions.actors import Actor, to_actor
from checkpoints.decisions.decision_target import DecisionTarget
from checkpoints.enums import DecisionKind
from checkpoints.integrity import quarantine
from checkpoints.loop_state.phase_details import PhaseDetails
from checkpoints.loop_state.resumable_loop_snapshot import RuntimeSnapshot
from checkpoints.models import Run, Session, ToolCall
from checkpoints.peers import (
    accept_agent_response,
    cancel_paused_session,
    deliver_notices,
    extend_and_sweep_agent_deadlines,
    list_paused_tasks_and_calls,
    pause_run_for_agent_calls,
    take_paused_task,
)
from checkpoints.peers.accept_agent_response import PeerResponse
from checkpoints.peers.agent_call_and_result_types import Deadline, Join, Paused, Swept, TakenTask, Told
from checkpoints.peers.agent_notice_outbox import DatabaseOutbox
from checkpoints.peers.deliver_notices import SendNotice
from checkpoints.peers.response_acceptance_outcomes import Answer
from checkpoints.resume import resume_preview, start_or_resume
from checkpoints.resume.resume_point import ResumePoint
from checkpoints.sessions import (
    append_without_lease,
    create_finish_release,
    fork,
    prune_versions_and_delete_sessions,
    session_listing,
    sweep_lost_runs,
)
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.sessions.version_retention_rule import RemovalCounts, RetentionRule
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.call_intent_and_outcome_types import CallIntent
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.store.version_state_types import Unchanged, VersionChange
from checkpoints.sync_and_async_flow_runners import Flow, Transact
from checkpoints.versions import load_version, save_imported_phase_record, save_phase_version, save_version
from checkpoints.versions.imported_phase_records import ImportedRecord
from checkpoints.workflows.step_log_protocol import StepLog

#: Threads, and therefore connections, that one async client uses at most. SQLite takes one writer at a time: more
#: threads would only wait for each other there.
WORKERS = {"postgresql": 8, "sqlite": 3}


def open_database_backend(options: ClientOptions, *, on_event_loop: bool) -> DatabaseBackend:
    """Open the database that a client was opened with; Django is configured."""
    server_or_database_url.require_no_token(options.url, options.token)
    using = options.using
    if options.url is not None and on_event_loop:
        with ThreadPoolExecutor(1) as opener:  # Django refuses to open databases on an event loop's thread
            using = opener.submit(_open_database_and_close_connection, options).result()
    elif options.url is not None:
        using = open_and_migrate.open_database_and_get_alias(options.url, migrate=options.migrate)
    store = Store(using, options.workspace, options.lease_seconds, options.idle_release_seconds)
    return DatabaseBackend(store)


def _open_database_and_close_connection(options: ClientOptions) -> str:
    alias = open_and_migrate.open_database_and_get_alias(str(options.url), migrate=options.migrate)
    connections[alias].close()
    return alias


def _share_and_collect_worker_connection(using: str, opened: list[Closable]) -> None:
    """Allow another thread to close a worker's connection once the worker has ended."""
    connection = connections[using]
    connection.inc_thread_sharing()
    opened.append(connection)


class DatabaseBackend:
    """Operations of a client on its store's database."""

    def __init__(self, store: Store) -> None:
        self.checkpointer_state = store
        store.open_call_log = DatabaseCallLog

    def close(self) -> None:
        create_finish_release.interrupt_calls_and_release_all_sessions(self.checkpointer_state)

    def create_thread_pool(self, opened: list[Closable]) -> ThreadPoolExecutor:
        using = self.checkpointer_state.using
        return ThreadPoolExecutor(
            WORKERS[get_supported_connection(using).vendor],
            thread_name_prefix="harness",
            initializer=_share_and_collect_worker_connection,
            initargs=(using, opened),
        )

    # sessions

    def start_session_flow(
        self, session_id: str, description: NewSessionFields, *, takeover: bool | str = False
    ) -> Flow[Run]:
        return start_or_resume.start_session_flow(self.checkpointer_state, session_id, description, takeover=takeover)

    def resume_session_flow(
        self,
        session_id: str,
        description: NewSessionFields | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool | str = False,
    ) -> Flow[ResumePoint]:
        if description is None:
            return start_or_resume.resume_session_flow(
                self.checkpointer_state, session_id, wait=wait, timeout=timeout, takeover=takeover
            )
        return start_or_resume.create_or_resume_session_flow(
            self.checkpointer_state, session_id, description, wait=wait, timeout=timeout, takeover=takeover
        )

    def get_session_id_of_run(self, run_id: object) -> str:
        return look_up_and_lock_rows.get_session_id_of_run(self.checkpointer_state, run_id)

    def flush_and_require_owned_session(self, session_id: str) -> OwnedSession:
        return look_up_and_lock_rows.flush_and_require_owned_session(self.checkpointer_state, session_id)

    def find_or_predict_heartbeat_and_lease_end(self, session_id: str) -> tuple[datetime, datetime]:
        store = self.checkpointer_state
        with database_operation(store.using, writes=False):
            rows = Session.objects.using(store.using).filter(workspace_id=store.workspace_id, session_id=session_id)
            row = rows.select_related("owner").first()
            now = clock.read_database_time(store.using)
        if row is None or row.owner is None:
            return now, now + store.lease
        return row.owner.heartbeat_at, row.owner.lease_expires_at

    def release_session(self, session_id: str) -> bool:
        return create_finish_release.interrupt_calls_and_release_session(self.checkpointer_state, session_id)

    def finish_session(self, session_id: str, status: str, result: Any) -> None:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            create_finish_release.finish_session(self.checkpointer_state, session_id, status, result)

    def list_sessions(
        self,
        *,
        status: str | None,
        agent: str | None,
        label: str | None,
        updated_before: datetime | None,
        after: str | None,
        limit: int,
    ) -> list[dict[str, Any]]:
        with quarantine.quarantine_on_error_of_any_session(self.checkpointer_state):
            return session_listing.list_sessions(
                self.checkpointer_state,
                status=status,
                agent=agent,
                label=label,
                updated_before=updated_before,
                after=after,
                limit=limit,
            )

    def fork_session(
        self,
        session_id: str,
        new_session_id: str,
        *,
        version: int | None,
        title: str | None,
        actor: Actor | str | None,
    ) -> int:
        if actor is None:
            return fork.fork_session(self.checkpointer_state, session_id, new_session_id, version=version, title=title)
        deciding_actor = to_actor(actor)
        deciding_actor.require_may_decide("fork a session")
        return fork.fork_session(
            self.checkpointer_state,
            session_id,
            new_session_id,
            version=version,
            title=title,
            actor=deciding_actor.name,
            actor_kind=deciding_actor.kind,
            actor_details=deciding_actor.audit_details,
        )

    def export_session(self, session_id: str, path: str | Path) -> ExportedFile:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            return session_export.export_session(self.checkpointer_state, session_id, path)

    def import_session(self, path: str | Path, *, session_id: str | None) -> ImportedSession:
        return session_import.import_session_file(self.checkpointer_state, path, session_id=session_id)

    def delete_session(self, session_id: str, *, dry_run: bool) -> RemovalCounts:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            return prune_versions_and_delete_sessions.delete_session(
                self.checkpointer_state, session_id, dry_run=dry_run
            )

    def release_quarantine(self, session_id: str, *, actor: Actor | str, reason: str, accept_altered: bool) -> int:
        admin = to_actor(actor)
        if isinstance(actor, Actor):
            admin.require_admin("release this session")
        return quarantine.release_quarantine(
            self.checkpointer_state,
            session_id,
            actor=admin.name,
            actor_kind=admin.kind,
            actor_details=admin.audit_details,
            reason=reason,
            accept_altered=accept_altered,
        )

    def preview_resume(self, session_id: str) -> dict[str, Any]:
        return resume_preview.preview_resume(self.checkpointer_state, session_id)

    def sweep_lost_runs(self, *, limit: int) -> list[str]:
        return sweep_lost_runs.sweep_lost_runs(self.checkpointer_state, limit=limit)

    # versions

    def save_version(
        self,
        session_id: str,
        transcript: Sequence[dict[str, Any]],
        change: VersionChange,
        expected_version: int | None = None,
    ) -> int:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            return save_version.save_next_version_of_transcript(
                self.checkpointer_state, session_id, transcript, change, expected_version=expected_version
            )

    def append_version(
        self, session_id: str, messages: Sequence[dict[str, Any]], change: VersionChange, *, expected_version: int
    ) -> int:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            return save_version.save_next_version_of_new_messages(
                self.checkpointer_state, session_id, messages, change, expected_version=expected_version
            )

    def append_version_with_or_without_run(
        self, session_id: str, messages: Sequence[dict[str, Any]], change: VersionChange, *, expected_version: int
    ) -> int:
        return append_without_lease.append_version_with_or_without_run(
            self.checkpointer_state, session_id, messages, change, expected_version=expected_version
        )

    def save_phase(
        self,
        session_id: str,
        details: PhaseDetails,
        snapshot: RuntimeSnapshot | None,
        transcript: Sequence[dict[str, Any]] | None,
        plan: dict[str, Any] | Unchanged | None,
        expected_version: int | None,
    ) -> int:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            return save_phase_version.save_phase_version(
                self.checkpointer_state,
                session_id,
                details,
                snapshot=snapshot,
                transcript=transcript,
                plan=plan,
                expected_version=expected_version,
            )

    def import_record(self, session_id: str, record: dict[str, Any], *, run_id: str | None) -> ImportedRecord:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            return save_imported_phase_record.import_phase_record(
                self.checkpointer_state, session_id, record, run_id=run_id
            )

    def load_latest(self, session_id: str) -> dict[str, Any] | None:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            return load_version.load_latest_version(self.checkpointer_state, session_id)

    def load(self, session_id: str, version: int) -> dict[str, Any]:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            return load_version.load_version(self.checkpointer_state, session_id, version)

    def list_checkpoints(self, session_id: str, *, before: int | None, limit: int) -> list[dict[str, Any]]:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            return load_version.list_checkpoints(self.checkpointer_state, session_id, before=before, limit=limit)

    def list_messages(self, session_id: str, after: int, limit: int, version: int | None) -> list[dict[str, Any]]:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            return load_version.list_messages(
                self.checkpointer_state, session_id, after=after, limit=limit, version=version
            )

    def delete_checkpoint(self, session_id: str, version: int) -> RemovalCounts:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            return prune_versions_and_delete_sessions.delete_version(self.checkpointer_state, session_id, version)

    def prune(self, session_id: str, retention: RetentionRule, *, dry_run: bool) -> RemovalCounts:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            return prune_versions_and_delete_sessions.prune_versions(
                self.checkpointer_state, session_id, retention, dry_run=dry_run
            )

    # calls and steps

    def record_issued_call(self, session_id: str, intent: CallIntent) -> None:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            intent_log.record_issued_call(self.checkpointer_state, session_id, intent)

    def record_call_result(
        self, session_id: str, call_id: str, result_text: str, success: bool, *, step: int | None
    ) -> None:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            write_outcomes_and_interruptions.record_call_result(
                self.checkpointer_state, session_id, call_id, result_text, success, step=step
            )

    def find_completed_call(self, idempotency_key: str) -> dict[str, Any] | None:
        with quarantine.quarantine_on_error_of_any_session(self.checkpointer_state):
            return call_queries.find_completed_call(self.checkpointer_state, idempotency_key)

    def list_unfinished_calls(self, session_id: str) -> list[dict[str, Any]]:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            return unfinished_call_queries.list_unfinished_calls(self.checkpointer_state, session_id)

    def list_calls_awaiting_decision(self, *, agent: str | None, after: int | None, limit: int) -> list[dict[str, Any]]:
        with quarantine.quarantine_on_error_of_any_session(self.checkpointer_state):
            return calls_awaiting_decision.list_calls_awaiting_decision(
                self.checkpointer_state, agent=agent, after=after, limit=limit
            )

    def open_or_create_step_log(self, session_id: str, workflow_id: str) -> StepLog:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            return DatabaseStepLog.open_or_create(self.checkpointer_state, session_id, workflow_id)

    # decisions

    def verify_call_flow(self, target: DecisionTarget, actor: Actor | str) -> Flow[str]:
        store = self.checkpointer_state
        call: ToolCall = yield Transact(
            lambda: record_verify_hook_answers.request_verify_hook_run(store, target, to_actor(actor))
        )
        probe = record_verify_hook_answers.build_probe_with_registered_hook(store, target.session_id, call)
        return (
            "requested"
            if probe is None
            else (yield from record_verify_hook_answers.ask_hook_and_record_answer_flow(store, probe))
        )

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
    ) -> None:
        decide.record_decision(
            self.checkpointer_state,
            target,
            kind,
            actor=actor,
            reason=reason,
            evidence=evidence,
            result=result,
            new_args=new_args,
        )

    def withdraw_decision(
        self,
        target: DecisionTarget,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None,
    ) -> None:
        decision_withdrawal.withdraw_decision(
            self.checkpointer_state, target, actor=actor, reason=reason, evidence=evidence
        )

    # other agents

    def pause_for_peers(self, session_id: str, state: dict[str, Any], joins: Iterable[Join]) -> Paused:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            return pause_run_for_agent_calls.pause_run(self.checkpointer_state, session_id, state, joins)

    def accept_response(
        self, peer_call_id: str, result: Any, *, session_id: str | None, peer: str | None, token: str | None
    ) -> Answer:
        response = PeerResponse.from_arguments(peer_call_id, result, session_id, peer, token)
        with quarantine.quarantine_on_error_of_any_session(self.checkpointer_state):
            return accept_agent_response.accept_response(self.checkpointer_state, response)

    def take_paused_task_flow(
        self, session_id: str, *, wait: bool = False, timeout: float | None = None, takeover: bool | str = False
    ) -> Flow[TakenTask]:
        return take_paused_task.take_paused_task_flow(
            self.checkpointer_state, session_id, wait=wait, timeout=timeout, takeover=takeover
        )

    def extend_deadline(self, peer_call_id: str, deadline: Deadline) -> datetime:
        with quarantine.quarantine_on_error_of_any_session(self.checkpointer_state):
            return extend_and_sweep_agent_deadlines.extend_deadline(self.checkpointer_state, peer_call_id, deadline)

    def cancel_paused_session_and_notify_agents_flow(
        self, session_id: str, *, tell: SendNotice | None, reason: str
    ) -> Flow[Told]:
        return cancel_paused_session.cancel_paused_session_and_notify_agents_flow(
            self.checkpointer_state, session_id, tell=tell, reason=reason
        )

    def deliver_agent_notices_flow(self, tell: SendNotice, *, limit: int) -> Flow[Told]:
        return deliver_notices.deliver_due_notices_and_collect_errors_flow(
            DatabaseOutbox(self.checkpointer_state), tell, limit=limit
        )

    def sweep_deadlines(self, *, limit: int) -> Swept:
        return extend_and_sweep_agent_deadlines.expire_overdue_calls_and_early_responses(
            self.checkpointer_state, limit=limit
        )

    def list_paused(self, *, ready: bool | None, agent: str | None, limit: int) -> list[dict[str, Any]]:
        with quarantine.quarantine_on_error_of_any_session(self.checkpointer_state):
            return list_paused_tasks_and_calls.list_paused_sessions(
                self.checkpointer_state, ready=ready, agent=agent, limit=limit
            )

    def list_peer_calls(self, session_id: str) -> list[dict[str, Any]]:
        with quarantine.quarantine_on_integrity_error(self.checkpointer_state, session_id):
            return list_paused_tasks_and_calls.list_calls_to_other_agents(self.checkpointer_state, session_id)
