"""Blocking client: the public interface of the library, one method for each action of an agent or a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from checkpoints import conf, database_setup, sansio
from checkpoints.archive import session_export, session_import
from checkpoints.archive.session_export import ExportedFile
from checkpoints.archive.session_import import ImportedSession
from checkpoints.calls import call_queries, manual_log
from checkpoints.decisions import decide, verification
from checkpoints.decisions.actors import Actor, to_actor
from checkpoints.decisions.decide import DecisionTarget
from checkpoints.enums import DecisionKind, Phase
from checkpoints.models import DEFAULT_WORKSPACE, Run
from checkpoints.peers import cancel_task, deadlines, outbox, pause_run, response_acceptance, resume_task
from checkpoints.peers import paused_tasks as peer_listing
from checkpoints.peers.outbox import SendNotice
from checkpoints.peers.peer_requests import Deadline, Join, Paused, Swept, TakenTask, Told
from checkpoints.peers.response_acceptance import PeerResponse
from checkpoints.peers.response_outcomes import Answer
from checkpoints.resume import gate
from checkpoints.resume.gate import ResumePoint
from checkpoints.runtime_state.phase_details import PhaseDetails
from checkpoints.runtime_state.runtime_snapshot import RuntimeSnapshot
from checkpoints.session_handle import OpenOptions, SyncSessionHandle
from checkpoints.sessions import append_without_lease, fork, lifecycle, listing, lost_runs
from checkpoints.sessions import retention as sessions_retention
from checkpoints.sessions.lifecycle import SessionDescription
from checkpoints.sessions.retention import RemovalCounts, RetentionRule
from checkpoints.store import call_records
from checkpoints.store.store import Store
from checkpoints.store.version_state import UNCHANGED, Unchanged, VersionChange
from checkpoints.tools.registry import ToolRegistry
from checkpoints.versions import load_version, phases, save_version
from checkpoints.versions.phases import ImportedRecord
from checkpoints.workflows.workflow import SyncWorkflow


class SyncCheckpointer:
    """Client for the sessions in one workspace of one database, blocking.

    Inside a Django project it uses the connection `using`; with a path or URL as first argument it is the same as
    `open`. Sessions it has started or resumed are its own until `release_session` or `close`; a `with` block closes
    it. Safe to use from many threads; a child process needs its own.

    All errors derive from `CheckpointsError`. Not repeated below: every method can raise `StorageError` and its
    subclasses, among them `StorageUnavailable`, `StorageBusy` and `MigrationsMissing`, `WorkspaceNotFound`, and
    `BlockingCallInAsyncCode` on the thread of an event loop; methods that write can raise `InsideTransaction`.
    """

    def __init__(
        self,
        url: str | Path | None = None,
        *,
        workspace: str = DEFAULT_WORKSPACE,
        lease_seconds: float = conf.LEASE_SECONDS,
        using: str = "default",
        migrate: bool | None = None,
        idle_release_seconds: float | None = None,
    ) -> None:
        """Create a client for one workspace.

        Args:
            url: Path or URL of a database, as in `open`. None uses the Django connection `using`.
            workspace: Name (slug) of the workspace whose sessions this client sees.
            lease_seconds: Time in seconds without a heartbeat after which a run counts as lost.
            using: Alias of the Django database connection. Ignored when `url` is given.
            migrate: Whether to create and update the tables of the database at `url`. None: SQLite yes, PostgreSQL no.
            idle_release_seconds: Time in seconds after which an unused session is released automatically; the next
                write to it raises `ReleasedWhenIdle`. None never releases one.

        Raises:
            InvalidInput: A time is not a positive number.
            InvalidDatabaseUrl: `url` names no database that can be opened.
            DriverMissing: The database driver is not installed.
            DatabaseNotConfigured: The project has no connection `using`.
        """
        if url is not None:
            using = database_setup.open_database(url, migrate=migrate)
        self.store = Store(using, workspace, lease_seconds, idle_release_seconds)

    @classmethod
    def open(
        cls,
        url: str | Path,
        *,
        workspace: str = DEFAULT_WORKSPACE,
        lease_seconds: float = conf.LEASE_SECONDS,
        migrate: bool | None = None,
        idle_release_seconds: float | None = None,
    ) -> Self:
        """Open a database by path or URL, in a Django project or a plain script.

        Args:
            url: `sqlite:///path`, a path, or `postgresql://…`.
            workspace: Name (slug) of the workspace whose sessions this client sees.
            lease_seconds: Time in seconds without a heartbeat after which a run counts as lost.
            migrate: Whether to create and update the tables. None: SQLite yes, PostgreSQL no.
            idle_release_seconds: Time in seconds after which an unused session is released automatically. None: never.

        Returns:
            A client. A SQLite file is created where there is none.

        Raises:
            InvalidInput: A time is not a positive number.
            InvalidDatabaseUrl: `url` names no database that can be opened.
            DriverMissing: The database driver is not installed.
            ConnectionFailed: The PostgreSQL server refuses the connection.
        """
        return cls(
            url,
            workspace=workspace,
            lease_seconds=lease_seconds,
            migrate=migrate,
            idle_release_seconds=idle_release_seconds,
        )

    def close(self) -> None:
        """Release all sessions this client owns, so that another process can continue them at once.

        Raises:
            NotDurable: Versions that were written behind could not be saved; the sessions are released all the same.
        """
        lifecycle.release_all_sessions(self.store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ---- sessions

    def start_session(
        self,
        session_id: str,
        user_message: str = "",
        system_prompt: str | None = None,
        *,
        agent: str = "",
        title: str | None = None,
        scratchpad_root: str | None = None,
        metadata: dict[str, Any] | None = None,
        labels: Iterable[str] = (),
        takeover: bool | str = False,
    ) -> Run:
        """Create the session, or continue an unfinished one through the same gate as `resume`, and own it.

        What earlier runs left undecided is settled by the verify hooks of bound registries. What remains raises
        `ReviewRequired` or `ApprovalRequired`, and the session is released. An existing session keeps its description.

        Args:
            session_id: Identifier of the session, unique in the workspace: 1 to 255 characters.
            user_message: First message of the user; becomes the title where none is given.
            system_prompt: Accepted for compatibility and not stored: it belongs to the transcript.
            agent: Name of the agent, for lists and filters.
            title: Title of the session.
            scratchpad_root: Path of the agent's working directory, stored as text.
            metadata: JSON object stored with the session.
            labels: Labels of the session, for filters.
            takeover: True, or a reason for the audit trail, ends a run that still gives signs of life.

        Returns:
            The run that now owns the session.

        Raises:
            InvalidIdentifier: `session_id` is empty, too long or has control characters.
            NotRepresentable: `metadata` has no exact JSON form.
            SessionBusy: Another run owns the session and is alive.
            SessionFinished: The session has ended.
            ReviewRequired: A person has to decide about interrupted calls first.
            ApprovalRequired: A person has to approve calls first.
            PausedForPeers: The session waits for other agents; `take_paused` continues it.
            SchemaFromFuture: A newer version of this library wrote the session.
        """
        description = SessionDescription(user_message, agent, title, scratchpad_root, metadata, labels)
        return sansio.drive(gate.start_session_flow(self.store, session_id, description, takeover=takeover))

    def session(
        self,
        session_id: str,
        user_message: str = "",
        *,
        agent: str = "",
        title: str | None = None,
        scratchpad_root: str | None = None,
        metadata: dict[str, Any] | None = None,
        labels: Iterable[str] = (),
        registry: ToolRegistry | None = None,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool | str = False,
    ) -> SyncSessionHandle:
        """Create a handle that starts or resumes the session in a `with` block and releases it at its end.

            with cp.session("order-17", "Where is my refund?", registry=registry) as session:
                session.append(messages)

        Entering the block passes the gate as `resume` does and raises what `resume` raises, and `SessionBusy` also
        while another handle of this client is open on the session. An existing session keeps its description.

        Args:
            session_id: Identifier of the session, unique in the workspace: 1 to 255 characters.
            user_message: First message of the user; becomes the title where none is given.
            agent: Name of the agent, for lists and filters.
            title: Title of the session.
            scratchpad_root: Path of the agent's working directory, stored as text.
            metadata: JSON object stored with the session.
            labels: Labels of the session, for filters.
            registry: Tools of the agent. It stays as it is: the handle binds the tools to this session for itself.
            wait: Whether to wait at the gate until people have decided, instead of raising `ReviewRequired`.
            timeout: Longest wait at the gate in seconds. None waits without limit.
            takeover: True, or a reason for the audit trail, ends a run that still gives signs of life.

        Returns:
            The handle, not entered yet.
        """
        description = SessionDescription(user_message, agent, title, scratchpad_root, metadata, labels)
        return SyncSessionHandle(self, session_id, OpenOptions(description, registry, wait, timeout, takeover))

    def release_session(self, session_id: str) -> bool:
        """Release one session, so that another process can continue it at once; the client stays open.

        Versions that wait to be written behind are written first. Calls that were issued and have no outcome become
        interrupted.

        Args:
            session_id: Identifier of the session.

        Returns:
            Whether this client owned the session. Releasing one that it does not own does nothing.

        Raises:
            NotDurable: Versions that were written behind could not be saved; the session is released all the same.
        """
        return lifecycle.release_session(self.store, session_id)

    def list_sessions(
        self,
        *,
        status: str | None = None,
        agent: str | None = None,
        label: str | None = None,
        updated_before: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> list[dict[str, Any]]:
        """List sessions of the workspace, newest activity first.

        Args:
            status: Only sessions with this status, a value of `SessionStatus`.
            agent: Only sessions of this agent.
            label: Only sessions with this label.
            updated_before: Only sessions without activity since this time (with a time zone).
            after: `cursor` of the last entry of the previous page. None starts at the beginning.
            limit: Largest number of entries.

        Returns:
            One dict per session: session_id, title, agent, status, finished, labels, metadata, version,
            message_count, budget_spent_usd, total_tokens, created_at, updated_at, owner, cursor. `owner` is None, or
            the run that owns the session: run_id, host, pid, last_seen, lease_ends, alive.

        Raises:
            InvalidInput: An argument cannot be a filter, cursor or limit.
        """
        return listing.list_sessions(
            self.store,
            status=status,
            agent=agent,
            label=label,
            updated_before=updated_before,
            after=after,
            limit=limit,
        )

    def finish_session(self, session_id: str, status: str, result: Any = None) -> None:
        """End a session this client owns. A later resume returns its result and runs nothing.

        Args:
            session_id: Identifier of the session.
            status: `completed`, `failed` or `cancelled`.
            result: JSON value that is the result of the session.

        Raises:
            ReviewRequired: A call is undecided, except for `cancelled`.
            CallInProgress: A call is running, except for `cancelled`.
            NotOwner: This client does not own the session.
            OwnershipLost: Another run has taken the session over.
            SessionFinished: The session has ended already.
            NotRepresentable: `result` has no exact JSON form.
            InvalidInput: `status` is none of the three.
        """
        lifecycle.finish_session(self.store, session_id, status, result)

    def fork_session(
        self,
        session_id: str,
        new_session_id: str,
        *,
        version: int | None = None,
        actor: Actor | str | None = None,
    ) -> int:
        """Create a new session that continues from a version of another one.

        No message is copied. Calls that had an effect come along, so that the fork replays them instead of repeating
        the effect.

        Args:
            session_id: Identifier of the session to fork.
            new_session_id: Identifier of the new session.
            version: Version to continue from. None: the newest.
            actor: Person or token that asks for the fork, for the audit trail; has to be permitted to decide.

        Returns:
            The version of the new session: 1.

        Raises:
            SessionNotFound: There is no session `session_id`.
            VersionNotFound: It has no such version.
            SessionExists: There is a session `new_session_id` already.
            NotPermitted: `actor` may not decide.
            InvalidIdentifier: `new_session_id` cannot be an identifier.
        """
        if actor is None:
            return fork.fork_session(self.store, session_id, new_session_id, version=version)
        deciding_actor = to_actor(actor)
        deciding_actor.require_may_decide("fork a session")
        return fork.fork_session(
            self.store,
            session_id,
            new_session_id,
            version=version,
            actor=deciding_actor.name,
            actor_kind=deciding_actor.kind,
        )

    def export_session(self, session_id: str, path: str | Path) -> ExportedFile:
        """Write a session with all its data to one file, atomically.

        Args:
            session_id: Identifier of the session.
            path: Path of the file; an existing one is replaced.

        Returns:
            The path of the file, the session and its newest version, the size in bytes and the digest.

        Raises:
            SessionNotFound: There is no such session.
            FileNotWritten: The file could not be written; one that was there is unchanged.
        """
        return session_export.export_session(self.store, session_id, path)

    def import_session(self, path: str | Path, *, session_id: str | None = None) -> ImportedSession:
        """Import a session from a file that `export_session` wrote, into this database or another one.

        Calls that may have happened since the export are undecided, as after a crash. On any error nothing is imported.

        Args:
            path: Path of the file.
            session_id: Identifier the session must have. None accepts any.

        Returns:
            The identifier of the session, its newest version, and how many calls a person has to decide about.

        Raises:
            FileNotReadable: The file cannot be read.
            FileDamaged: The file is not a complete session.
            SchemaFromFuture: A newer version of this library wrote the file.
            WrongSession: The file holds another session than `session_id`.
            WrongWorkspace: The file comes from a workspace of another name.
            SessionExists: The session is in the database already.
            ImportConflict: Part of it is in the database already, under another session.
        """
        return session_import.import_session_file(self.store, path, session_id=session_id)

    def delete_session(self, session_id: str, *, dry_run: bool = False) -> RemovalCounts:
        """Delete a session and all its data.

        Args:
            session_id: Identifier of the session.
            dry_run: Whether to only count what would be deleted.

        Returns:
            The number of versions and messages that were, or would be, deleted.

        Raises:
            SessionNotFound: There is no such session.
            StillNeeded: A run owns the session, or a person has to decide about it.
        """
        return sessions_retention.delete_session(self.store, session_id, dry_run=dry_run)

    # ---- versions

    def save_checkpoint(
        self,
        session_id: str,
        transcript: list[dict[str, Any]],
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        budget_spent_usd: float | Decimal | Unchanged = UNCHANGED,
        *,
        phase: str = Phase.TURN,
        usage: dict[str, Any] | None = None,
        payload: dict[str, Any] | None = None,
        expected_version: int | None = None,
    ) -> int:
        """Save the whole transcript as the next version; only its new messages are stored.

        The version is durable when this returns.

        Args:
            session_id: Identifier of a session this client owns.
            transcript: All messages, oldest first.
            plan: JSON object with the agent's plan. Left out, it stays as in the previous version, at first None.
            budget_spent_usd: Money spent so far in the whole session, in US dollars. Left out, it stays as in the
                previous version, at first 0.
            phase: Phase of the run, a value of `Phase`.
            usage: Token usage of this version alone, a JSON object.
            payload: JSON object that belongs to this version alone.
            expected_version: Version the session has to be at. None: any.

        Returns:
            The number of the new version.

        Raises:
            SessionNotFound: There is no such session.
            NotOwner: This client does not own the session.
            OwnershipLost: Another run has taken the session over.
            SessionFinished: The session has ended.
            NotRepresentable: A value has no exact JSON form.
            TooLarge: A message or value is larger than its limit.
            VersionConflict: The session is not at `expected_version`.
        """
        change = VersionChange(plan, budget_spent_usd, usage, phase, payload)
        return save_version.save_transcript(
            self.store, session_id, transcript, change, expected_version=expected_version
        )

    def append_checkpoint(
        self,
        session_id: str,
        new_messages: list[dict[str, Any]],
        *,
        expected_version: int,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        budget_spent_usd: float | Decimal | Unchanged = UNCHANGED,
        usage: dict[str, Any] | Unchanged | None = UNCHANGED,
        phase: str = Phase.TURN,
        payload: dict[str, Any] | None = None,
    ) -> int:
        """Save the next version from the messages that are new since `expected_version`.

        It needs no run: where this client does not own the session and no living run does, it compares the version
        and appends in one transaction. What is left out stays as in the previous version, except `payload`.

        Args:
            session_id: Identifier of the session.
            new_messages: Messages to append, oldest first.
            expected_version: Version the session has to be at.
            plan: JSON object with the agent's plan.
            budget_spent_usd: Money spent so far in the whole session, in US dollars.
            usage: Token usage, a JSON object.
            phase: Phase of the run, a value of `Phase`.
            payload: JSON object that belongs to this version alone.

        Returns:
            The number of the new version.

        Raises:
            SessionNotFound: There is no such session.
            VersionConflict: The session is not at `expected_version`.
            SessionBusy: Another run owns the session and is alive.
            OwnershipLost: Another run has taken the session over.
            ReviewRequired: Without a run: a person has to decide about interrupted calls first.
            ApprovalRequired: Without a run: a person has to approve calls first.
            PausedForPeers: Without a run: the session waits for other agents.
            SessionFinished: The session has ended.
            NotRepresentable: A value has no exact JSON form.
            TooLarge: A message or value is larger than its limit.
        """
        change = VersionChange(plan, budget_spent_usd, usage, phase, payload)
        return append_without_lease.append_version(
            self.store, session_id, new_messages, change, expected_version=expected_version
        )

    def save_phase(
        self,
        session_id: str,
        details: PhaseDetails,
        *,
        snapshot: RuntimeSnapshot | None = None,
        transcript: list[dict[str, Any]] | None = None,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        expected_version: int | None = None,
    ) -> int:
        """Save the next version at a phase of the run; what is left out stays as it was.

        Args:
            session_id: Identifier of a session this client owns.
            details: Phase with its details, such as `PostLlm(model=…)`.
            snapshot: State of the loop, valid until the next one. Its usage and cost become those of the version; its
                `replayed_effect_count` is counted by the library.
            transcript: All messages, oldest first. None: as in the previous version.
            plan: JSON object with the agent's plan.
            expected_version: Version the session has to be at. None: any.

        Returns:
            The number of the new version.

        Raises:
            SessionNotFound: There is no such session.
            NotOwner: This client does not own the session.
            OwnershipLost: Another run has taken the session over.
            SessionFinished: The session has ended.
            NotRepresentable: A value has no exact JSON form.
            TooLarge: A message or value is larger than its limit.
            VersionConflict: The session is not at `expected_version`.
        """
        return phases.save_phase_version(
            self.store,
            session_id,
            details,
            snapshot=snapshot,
            transcript=transcript,
            plan=plan,
            expected_version=expected_version,
        )

    def import_record(self, session_id: str, record: dict[str, Any], *, run_id: str | None = None) -> ImportedRecord:
        """Save a phase record that another system or an older version wrote. On any error nothing is written.

        Args:
            session_id: Identifier of a session this client owns.
            record: The record as a JSON object.
            run_id: Identifier of the run the record has to belong to. None accepts any.

        Returns:
            The new version, and in `applied` each change that was made to the record, such as `runId → run_id`.

        Raises:
            CheckpointCorrupted: A field of the record, which the error names, cannot be used.
            SchemaFromFuture: A newer version of this library wrote the record.
            NotOwner: This client does not own the session.
        """
        return phases.import_phase_record(self.store, session_id, record, run_id=run_id)

    def load_latest(self, session_id: str) -> dict[str, Any] | None:
        """Load the newest version of a session.

        Args:
            session_id: Identifier of the session.

        Returns:
            A dict with transcript, plan, budget_spent_usd (US dollars), version, usage, payload, phase, run_id,
            created_at, schema_version; None while there is no version. `run_id` is None for a version that was
            appended without a run.

        Raises:
            CheckpointCorrupted: The stored version cannot be read.
            SchemaFromFuture: A newer version of this library wrote it.
        """
        return load_version.load_latest_version(self.store, session_id)

    def load(self, session_id: str, version: int) -> dict[str, Any]:
        """Load one version of a session.

        Args:
            session_id: Identifier of the session.
            version: Number of the version, from 1.

        Returns:
            A dict as `load_latest` returns it.

        Raises:
            SessionNotFound: There is no such session.
            VersionNotFound: It has no such version.
            CheckpointCorrupted: The stored version cannot be read.
            SchemaFromFuture: A newer version of this library wrote it.
        """
        return load_version.load_version(self.store, session_id, version)

    def list_checkpoints(self, session_id: str, *, before: int | None = None, limit: int = 50) -> list[dict[str, Any]]:
        """List versions of a session, newest first, without their transcripts.

        Args:
            session_id: Identifier of the session.
            before: Only versions with a lower number. None: all.
            limit: Largest number of entries.

        Returns:
            One dict per version, as `load_latest` returns it, without the transcript.

        Raises:
            SessionNotFound: There is no such session.
        """
        return load_version.list_checkpoints(self.store, session_id, before=before, limit=limit)

    def messages(
        self, session_id: str, *, after: int = 0, limit: int = 100, version: int | None = None
    ) -> list[dict[str, Any]]:
        """Load a page of a transcript, oldest message first, without reading the rest of it.

        Args:
            session_id: Identifier of the session.
            after: Number of messages to skip at the beginning.
            limit: Largest number of messages.
            version: Version whose transcript is read. None: the newest.

        Returns:
            One dict per message: position (its index in the transcript, from 0), created_at, message.

        Raises:
            SessionNotFound: There is no such session.
            VersionNotFound: It has no such version.
            InvalidInput: `after` or `limit` is not a fitting number.
            CheckpointCorrupted: A stored message cannot be read.
        """
        return load_version.list_messages(self.store, session_id, after=after, limit=limit, version=version)

    def delete_checkpoint(self, session_id: str, version: int) -> RemovalCounts:
        """Delete one version. Its number is not used again.

        Args:
            session_id: Identifier of the session.
            version: Number of the version, from 1.

        Returns:
            The number of versions and messages that were deleted.

        Raises:
            SessionNotFound: There is no such session.
            VersionNotFound: It has no such version.
            StillNeeded: It is the only version, the newest one continues from it, or it is the newest one of a
                session that a run owns or that waits for a decision.
        """
        return sessions_retention.delete_version(self.store, session_id, version)

    def prune(
        self,
        session_id: str,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        older_than: timedelta | None = None,
        dry_run: bool = False,
    ) -> RemovalCounts:
        """Delete old versions, and the messages that no version reaches any more.

        The newest version always stays. At least one of the three rules has to be given; a version is deleted only if
        all rules that are given allow it.

        Args:
            session_id: Identifier of the session.
            keep_last: Number of newest versions that stay.
            keep_every: Every version whose number is a multiple of this stays.
            older_than: Versions younger than this stay.
            dry_run: Whether to only count what would be deleted.

        Returns:
            The number of versions and messages that were, or would be, deleted.

        Raises:
            SessionNotFound: There is no such session.
            InvalidInput: No rule is given, or one is not a fitting number.
        """
        retention = RetentionRule(keep_last, keep_every, older_than)
        return sessions_retention.prune_versions(self.store, session_id, retention, dry_run=dry_run)

    # ---- tool-call log, for loops without a registry

    def record_tool_call_issued(
        self,
        session_id: str,
        call_id: str,
        tool_name: str,
        args: dict[str, Any],
        idempotency_key: str,
        *,
        side_effects: Iterable[str] = ("mutate",),
        step: int | None = None,
    ) -> None:
        """Log that a call is about to run. The record is durable when this returns; on any error the call must not run.

        Args:
            session_id: Identifier of a session this client owns.
            call_id: Identifier of the call, unique in its step.
            tool_name: Name of the tool.
            args: Arguments of the call, a JSON object.
            idempotency_key: Key of the operation: at most one live call in the workspace has it.
            side_effects: Any of `read`, `write`, `mutate`.
            step: Step of the loop. None: the number of the newest version.

        Raises:
            CallInProgress: A call with this key is running.
            CallAlreadySettled: A call with this key has a result; `find_completed_call` returns it.
            ReviewRequired: A person has to decide about an earlier call first.
            CallConflict: The step has another call with this identifier.
            NotOwner: This client does not own the session.
            OwnershipLost: Another run has taken the session over.
            NotRepresentable: `args` has no exact JSON form.
            InvalidInput: An argument cannot be used as such.
        """
        intent = call_records.build_intent(
            call_id, tool_name, args, idempotency_key, side_effects=side_effects, step=step
        )
        manual_log.record_issued_call(self.store, session_id, intent)

    def record_tool_call_result(
        self, session_id: str, call_id: str, result_text: str, success: bool, *, step: int | None = None
    ) -> None:
        """Log the outcome of a call that was logged as issued. It is durable when this returns.

        Args:
            session_id: Identifier of a session this client owns.
            call_id: Identifier of the call.
            result_text: Result, or error text, as the model reads it.
            success: Whether the call had its effect. False means that nothing happened.
            step: Step of the call. None: the newest step that has it.

        Raises:
            CallNotFound: There is no such call.
            LateResultRefused: The result can no longer count; it is kept as evidence.
            NotOwner: This client does not own the session.
        """
        manual_log.record_call_result(self.store, session_id, call_id, result_text, success, step=step)

    def find_completed_call(self, idempotency_key: str) -> dict[str, Any] | None:
        """Find the completed call with an idempotency key.

        Args:
            idempotency_key: Key of the operation.

        Returns:
            A dict with call_id, tool_name, args_json, result_text, status and more; None where there is no such call.
        """
        return call_queries.find_completed_call(self.store, idempotency_key)

    def pending_tool_calls(self, session_id: str) -> list[dict[str, Any]]:
        """List the calls of a session that have no outcome, oldest first.

        Args:
            session_id: Identifier of the session. One that does not exist has no calls.

        Returns:
            One dict per call: call_id, tool_name, args_json, started_at, status, reason, run_id, alive, step, attempt,
            revision, verify_reason. `verify_reason` is why the tool's verify hook could not tell; None where no hook
            was asked.
        """
        return call_queries.list_pending_calls(self.store, session_id)

    def pending_decisions(
        self, *, agent: str | None = None, after: int | None = None, limit: int = 50
    ) -> list[dict[str, Any]]:
        """List the calls of all sessions of the workspace that wait for a person, oldest first.

        Args:
            agent: Only calls of this agent.
            after: `cursor` of the last entry of the previous page. None starts at the beginning.
            limit: Largest number of entries.

        Returns:
            One dict per call: what `pending_tool_calls` gives, and session_id, agent, sentence, risk, waits_since,
            deadline, cursor. `deadline` is None where there is none. Calls of a run whose process has died are included
            at once; their status is `issued` until somebody decides about them, resumes their session, or sweeps.

        Raises:
            InvalidInput: `after` or `limit` is not a fitting number.
        """
        return listing.list_pending_decisions(self.store, agent=agent, after=after, limit=limit)

    # ---- resuming

    def resume(
        self,
        session_id: str,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool | str = False,
    ) -> ResumePoint:
        """Own the session, pass the gate, and return where to continue.

        Interrupted calls that only read are discarded, verify hooks of `registry` settle what they can, and the rest
        needs a person. A finished session returns its result and runs nothing. On an error the session is released.

        Args:
            session_id: Identifier of the session.
            registry: Tools of the agent; it is bound to this session.
            wait: Whether to wait at the gate until people have decided, instead of raising `ReviewRequired` at once.
            timeout: Longest wait at the gate in seconds. None waits without limit.
            takeover: True, or a reason for the audit trail, ends a run that still gives signs of life.

        Returns:
            The transcript, plan, budget and more to continue from.

        Raises:
            SessionNotFound: There is no such session.
            SessionBusy: Another run owns the session and is alive.
            ReviewRequired: A person has to decide about interrupted calls first.
            ApprovalRequired: A person has to approve calls first.
            PausedForPeers: The session waits for other agents; `take_paused` continues it.
            CheckpointCorrupted: The newest version cannot be read.
            SchemaFromFuture: A newer version of this library wrote it.
            OwnershipLost: Another run took the session over meanwhile.
        """
        if registry is not None:
            registry.bind(self, session_id)
        return sansio.drive(gate.resume_flow(self.store, session_id, wait=wait, timeout=timeout, takeover=takeover))

    def resume_run(
        self,
        run_id: str | UUID,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool | str = False,
    ) -> ResumePoint:
        """Resume the session of a run by the run's identifier: a new run continues it.

        Args:
            run_id: Identifier of any run of the session.
            registry: Tools of the agent; it is bound to this session.
            wait: Whether to wait at the gate until people have decided, instead of raising `ReviewRequired` at once.
            timeout: Longest wait at the gate in seconds. None waits without limit.
            takeover: True, or a reason for the audit trail, ends a run that still gives signs of life.

        Returns:
            The transcript, plan, budget and more to continue from.

        Raises:
            RunNotFound: There is no such run in the workspace.
            SessionBusy: Another run owns the session and is alive.
            ReviewRequired: A person has to decide about interrupted calls first.
            ApprovalRequired: A person has to approve calls first.
            PausedForPeers: The session waits for other agents; `take_paused` continues it.
            CheckpointCorrupted: The newest version cannot be read.
            SchemaFromFuture: A newer version of this library wrote it.
            OwnershipLost: Another run took the session over meanwhile.
        """
        session_id = gate.find_session_id_of_run(self.store, run_id)
        return self.resume(session_id, registry, wait=wait, timeout=timeout, takeover=takeover)

    def preview_resume(self, session_id: str) -> dict[str, Any]:
        """Compute what a resume would do now. Changes nothing.

        Args:
            session_id: Identifier of the session.

        Returns:
            A dict with version, finished, pending_response, and the lists of calls to `replay`, to `run`, and to `ask`
            a person about.

        Raises:
            SessionNotFound: There is no such session.
            CheckpointCorrupted: The newest version cannot be read.
            SchemaFromFuture: A newer version of this library wrote it.
        """
        return gate.preview_resume(self.store, session_id)

    def sweep_lost_runs(self, *, limit: int = lost_runs.DEFAULT_LIMIT) -> list[str]:
        """End lost runs of the workspace and interrupt their calls, so that people can decide before anybody resumes.

        A run is lost when its lease has expired, and on this machine when its process is gone. Any number of processes
        may sweep at the same time.

        Args:
            limit: Largest number of runs to end.

        Returns:
            The identifiers of their sessions.
        """
        return lost_runs.sweep_lost_runs(self.store, limit=limit)

    def workflow(self, session_id: str, workflow_id: str) -> SyncWorkflow:
        """Open the journal of a workflow, or create it, for one pass through its steps.

        Args:
            session_id: Identifier of a session this client owns.
            workflow_id: Identifier of the workflow in the session: 1 to 255 characters.

        Returns:
            The workflow, whose `step` runs or replays one step.

        Raises:
            NotOwner: This client does not own the session.
            SchemaFromFuture: A newer version of this library wrote the journal; no step runs.
            CheckpointCorrupted: The journal cannot be read; no step runs.
        """
        return SyncWorkflow(self.store, session_id, workflow_id)

    # ---- other agents

    def pause_for_peers(self, session_id: str, state: dict[str, Any], joins: Iterable[Join]) -> Paused:
        """Pause a session until other agents have answered.

        The state, the joins and their calls are stored and the session is released in one transaction. Any process can
        continue with `take_paused` once a join is complete. Secrets in the state and in requests are encrypted.
        Responses that came before are counted.

        Args:
            session_id: Identifier of a session this client owns.
            state: JSON object that `take_paused` gives back.
            joins: Groups of calls to other agents, with their deadlines.

        Returns:
            The number of the pause, the joins that early responses have completed already, and whether `take_paused`
            can take the session now.

        Raises:
            NotOwner: This client does not own the session.
            OwnershipLost: Another run has taken the session over.
            PeerCallExists: A call with one of the identifiers exists already.
            SecretsLocked: There are secrets and no key to encrypt them with.
            CallInProgress: A tool call of the session is running.
            ReviewRequired: A person has to decide about a call first.
            NotRepresentable: A value has no exact JSON form.
        """
        return pause_run.pause_run(self.store, session_id, state, joins)

    def accept_response(
        self,
        peer_call_id: str,
        result: Any,
        *,
        session_id: str | None = None,
        peer: str | None = None,
        token: str | None = None,
    ) -> Answer:
        """Match another agent's response to its call, store it and count it, in one transaction.

        Args:
            peer_call_id: Identifier of the call.
            result: JSON value that is the response.
            session_id: Session the sender claims to answer; compared with that of the call. None: not compared.
            peer: Agent the sender claims to be; compared with the one that was called. None: not compared.
            token: Token the sender was given; compared with that of the call. None: not compared.

        Returns:
            `Accepted`, `Duplicate`, `Early`, `Late`, `Cancelled`, `Foreign` or `Unknown`.

        Raises:
            NotRepresentable: `result` has no exact JSON form.
            TooLarge: `result` is larger than its limit.
        """
        response = PeerResponse.from_arguments(peer_call_id, result, session_id, peer, token)
        return response_acceptance.accept_response(self.store, response)

    def take_paused(
        self,
        session_id: str,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool | str = False,
    ) -> TakenTask:
        """Own a paused session whose join is complete, pass the gate as `resume` does, and get the responses.

        Until this run saves its next version or pauses again, another run can take the same task after this one was
        lost.

        Args:
            session_id: Identifier of the session.
            registry: Tools of the agent; it is bound to this session.
            wait: Whether to wait at the gate until people have decided, instead of raising `ReviewRequired` at once.
            timeout: Longest wait at the gate in seconds. None waits without limit.
            takeover: True, or a reason for the audit trail, ends a run that still gives signs of life.

        Returns:
            The stored state, the responses, and where to continue.

        Raises:
            StillWaiting: No join is complete yet.
            NotPaused: The session does not wait for other agents.
            SecretsLocked: The key that the secrets were encrypted with is missing.
            SessionNotFound: There is no such session.
            SessionBusy: Another run owns the session and is alive.
            ReviewRequired: A person has to decide about interrupted calls first.
            ApprovalRequired: A person has to approve calls first.
            CheckpointCorrupted: The newest version cannot be read.
            SchemaFromFuture: A newer version of this library wrote it.
            OwnershipLost: Another run took the session over meanwhile.
        """
        if registry is not None:
            registry.bind(self, session_id)
        return sansio.drive(
            resume_task.take_task_flow(self.store, session_id, wait=wait, timeout=timeout, takeover=takeover)
        )

    def extend_deadline(self, peer_call_id: str, deadline: Deadline) -> datetime:
        """Extend the deadline of a call to another agent. A deadline never becomes earlier.

        Args:
            peer_call_id: Identifier of the call.
            deadline: Seconds or a duration from now, or a point in time.

        Returns:
            The deadline that now holds.

        Raises:
            PeerCallNotFound: There is no such call.
            PeerCallOver: The call has ended.
            InvalidInput: `deadline` is not a usable time.
        """
        return deadlines.extend_deadline(self.store, peer_call_id, deadline)

    def cancel_paused(self, session_id: str, *, tell: SendNotice | None = None, reason: str = "") -> Told:
        """End a session that waits for other agents as cancelled, and notify them.

        Args:
            session_id: Identifier of the session.
            tell: Function that sends one notice to one agent, sync or async. None leaves that to `tell_peers`.
            reason: Why, for the audit trail and for the agents.

        Returns:
            The calls whose agents were notified, and the error for each of the others, which `tell_peers` tries again.

        Raises:
            SessionNotFound: There is no such session.
            NotPaused: The session does not wait for other agents.
            SessionBusy: A run owns the session and is alive.
            SessionFinished: The session has ended.
        """
        return sansio.drive(cancel_task.cancel_task_flow(self.store, session_id, tell=tell, reason=reason))

    def tell_peers(self, tell: SendNotice, *, limit: int = outbox.DEFAULT_LIMIT) -> Told:
        """Send the notices to other agents that are due, each at least once.

        These are requests of calls that were stored with `sent=False`, and notices that a call was cancelled or given
        up. Any number of processes may do this at the same time.

        Args:
            tell: Function that sends one notice to one agent, sync or async. A notice whose function raises stays due.
            limit: Largest number of notices.

        Returns:
            The calls whose agents were notified, and the error for each of the others, which stay due.
        """
        return sansio.drive(outbox.deliver_notices_flow(self.store, tell, limit=limit))

    def sweep_deadlines(self, *, limit: int = deadlines.DEFAULT_LIMIT) -> Swept:
        """Give up calls to other agents whose deadline has passed. Any number of processes may do this at once.

        Args:
            limit: Largest number of calls.

        Returns:
            The calls that were given up, and the sessions and joins that this completed.
        """
        return deadlines.sweep_deadlines(self.store, limit=limit)

    def list_paused(
        self, *, ready: bool | None = None, agent: str | None = None, limit: int = peer_listing.DEFAULT_LIMIT
    ) -> list[dict[str, Any]]:
        """List sessions that wait for other agents, or whose responses are not used yet.

        Args:
            ready: True: only those that `take_paused` can take now. False: only the others. None: all.
            agent: Only sessions of this agent.
            limit: Largest number of entries.

        Returns:
            One dict per session: session_id, agent, ready, driven, and the joins that are `complete` and `open`.

        Raises:
            InvalidInput: `limit` is not a fitting number.
        """
        return peer_listing.list_paused_tasks(self.store, ready=ready, agent=agent, limit=limit)

    def peer_calls(self, session_id: str) -> list[dict[str, Any]]:
        """List the calls of a session to other agents, oldest first.

        Args:
            session_id: Identifier of the session.

        Returns:
            One dict per call: call_id, peer, join_id, pause, status, created_at, deadline, settled_at, result_json,
            late_at, late_result_json, to_tell.

        Raises:
            SessionNotFound: There is no such session.
        """
        return peer_listing.list_peer_calls(self.store, session_id)

    # ---- decisions

    def verify_call(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        step: int | None = None,
        attempt: int | None = None,
    ) -> str:
        """Ask the verify hook of an interrupted call's tool whether the call happened, and record its answer.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            actor: Who asks: an `Actor`, or the name of a person.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Returns:
            `landed`, `not_landed` or `unknown`; `requested` where no registry here has the hook, and the process that
            waits at the gate was asked instead.

        Raises:
            SessionNotFound: There is no such session.
            CallNotFound: There is no such call.
            NotPermitted: `actor` may not decide.
            AlreadyDecided: The call has been decided.
            NotUndecided: The call is not interrupted.
        """
        target = DecisionTarget(session_id, call_id, 0, step, attempt)
        call = verification.request_verification(self.store, target, to_actor(actor))
        probe = verification.build_probe(self.store, session_id, call)
        return "requested" if probe is None else sansio.drive(verification.run_probe_flow(self.store, probe))

    def confirm_landed(
        self,
        session_id: str,
        call_id: str,
        result_text: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Record that an interrupted call happened.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            result_text: Result of the call, as the agent gets it.
            actor: Who decides: an `Actor`, or the name of a person.
            reason: Why, in a sentence; stored with the decision.
            evidence: What the decision rests on: text, or a JSON object.
            revision: Revision of the call that the actor saw; `pending_tool_calls` names it.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Raises:
            SessionNotFound: There is no such session.
            CallNotFound: There is no such call.
            NotPermitted: `actor` may not decide.
            ReasonRequired: There is no reason.
            AlreadyDecided: Somebody else has decided.
            StaleRevision: The call has changed since `revision`.
            NotUndecided: The call does not wait for this decision.
            InvalidInput: An argument cannot be used as such.
            DecisionExpired: Its deadline has passed, and `actor` is no admin.
            SecondPersonRequired: `actor` has decided so already, and another person has to agree.
            NotRepresentable: A value has no exact JSON form.
        """
        target = DecisionTarget(session_id, call_id, revision, step, attempt)
        kind = DecisionKind.CONFIRM_LANDED
        decide.record_decision(
            self.store, target, kind, actor=actor, reason=reason, evidence=evidence, result=result_text
        )

    def mark_failed(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Record that an interrupted call did not happen. The agent gets the reason as the call's error.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            actor: Who decides: an `Actor`, or the name of a person.
            reason: Why, in a sentence; stored with the decision.
            evidence: What the decision rests on: text, or a JSON object.
            revision: Revision of the call that the actor saw; `pending_tool_calls` names it.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Raises:
            SessionNotFound: There is no such session.
            CallNotFound: There is no such call.
            NotPermitted: `actor` may not decide.
            ReasonRequired: There is no reason.
            AlreadyDecided: Somebody else has decided.
            StaleRevision: The call has changed since `revision`.
            NotUndecided: The call does not wait for this decision.
            InvalidInput: An argument cannot be used as such.
            DecisionExpired: Its deadline has passed, and `actor` is no admin.
            SecondPersonRequired: `actor` has decided so already, and another person has to agree.
            NotRepresentable: A value has no exact JSON form.
        """
        target = DecisionTarget(session_id, call_id, revision, step, attempt)
        kind = DecisionKind.MARK_FAILED
        decide.record_decision(self.store, target, kind, actor=actor, reason=reason, evidence=evidence)

    def approve_rerun(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Allow exactly one more execution of an interrupted call, with exactly the same arguments.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            actor: Who decides: an `Actor`, or the name of a person.
            reason: Why, in a sentence; stored with the decision.
            evidence: What the decision rests on: text, or a JSON object.
            revision: Revision of the call that the actor saw; `pending_tool_calls` names it.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Raises:
            SessionNotFound: There is no such session.
            CallNotFound: There is no such call.
            NotPermitted: `actor` may not decide.
            ReasonRequired: There is no reason.
            AlreadyDecided: Somebody else has decided.
            StaleRevision: The call has changed since `revision`.
            NotUndecided: The call does not wait for this decision.
            InvalidInput: An argument cannot be used as such.
            DecisionExpired: Its deadline has passed, and `actor` is no admin.
            SecondPersonRequired: `actor` has decided so already, and another person has to agree.
            NotRepresentable: A value has no exact JSON form.
            SessionFinished: The session has ended.
        """
        target = DecisionTarget(session_id, call_id, revision, step, attempt)
        kind = DecisionKind.APPROVE_RERUN
        decide.record_decision(self.store, target, kind, actor=actor, reason=reason, evidence=evidence)

    def approve_call(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Let a call that awaits approval run once, with exactly its arguments.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            actor: Who decides: an `Actor`, or the name of a person.
            reason: Why, in a sentence; stored with the decision.
            evidence: What the decision rests on: text, or a JSON object.
            revision: Revision of the call that the actor saw; `pending_tool_calls` names it.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Raises:
            SessionNotFound: There is no such session.
            CallNotFound: There is no such call.
            NotPermitted: `actor` may not decide.
            ReasonRequired: There is no reason.
            AlreadyDecided: Somebody else has decided.
            StaleRevision: The call has changed since `revision`.
            NotUndecided: The call does not wait for this decision.
            InvalidInput: An argument cannot be used as such.
            DecisionExpired: Its deadline has passed, and `actor` is no admin.
            SecondPersonRequired: `actor` has decided so already, and another person has to agree.
            NotRepresentable: A value has no exact JSON form.
            EditorMayNotApprove: `actor` has changed the arguments, and several people have to approve them.
            SessionFinished: The session has ended.
        """
        target = DecisionTarget(session_id, call_id, revision, step, attempt)
        kind = DecisionKind.APPROVE
        decide.record_decision(self.store, target, kind, actor=actor, reason=reason, evidence=evidence)

    def edit_call(
        self,
        session_id: str,
        call_id: str,
        new_args: dict[str, Any],
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Change the arguments of a call that awaits approval. The new arguments need an approval of their own.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            new_args: Arguments the call is to have, a JSON object.
            actor: Who decides: an `Actor`, or the name of a person.
            reason: Why, in a sentence; stored with the decision.
            evidence: What the decision rests on: text, or a JSON object.
            revision: Revision of the call that the actor saw; `pending_tool_calls` names it.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Raises:
            SessionNotFound: There is no such session.
            CallNotFound: There is no such call.
            NotPermitted: `actor` may not decide.
            ReasonRequired: There is no reason.
            AlreadyDecided: Somebody else has decided.
            StaleRevision: The call has changed since `revision`.
            NotUndecided: The call does not wait for this decision.
            InvalidInput: An argument cannot be used as such.
            DecisionExpired: Its deadline has passed, and `actor` is no admin.
            SecondPersonRequired: `actor` has decided so already, and another person has to agree.
            NotRepresentable: A value has no exact JSON form.
            SessionFinished: The session has ended.
        """
        target = DecisionTarget(session_id, call_id, revision, step, attempt)
        kind = DecisionKind.EDIT
        decide.record_decision(
            self.store, target, kind, actor=actor, reason=reason, evidence=evidence, new_args=new_args
        )

    def reject_call(
        self,
        session_id: str,
        call_id: str,
        message: str,
        *,
        actor: Actor | str,
        reason: str = "",
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Refuse a call that awaits approval: it never runs.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            message: Error of the call, as the agent gets it.
            actor: Who decides: an `Actor`, or the name of a person.
            reason: Why, stored with the decision. Left out, it is `message`.
            evidence: What the decision rests on: text, or a JSON object.
            revision: Revision of the call that the actor saw; `pending_tool_calls` names it.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Raises:
            SessionNotFound: There is no such session.
            CallNotFound: There is no such call.
            NotPermitted: `actor` may not decide.
            ReasonRequired: There is no reason.
            AlreadyDecided: Somebody else has decided.
            StaleRevision: The call has changed since `revision`.
            NotUndecided: The call does not wait for this decision.
            InvalidInput: An argument cannot be used as such.
            DecisionExpired: Its deadline has passed, and `actor` is no admin.
            SecondPersonRequired: `actor` has decided so already, and another person has to agree.
            NotRepresentable: A value has no exact JSON form.
        """
        target = DecisionTarget(session_id, call_id, revision, step, attempt)
        kind = DecisionKind.REJECT
        decide.record_decision(self.store, target, kind, actor=actor, reason=reason, evidence=evidence, result=message)

    def respond_call(
        self,
        session_id: str,
        call_id: str,
        message: str,
        *,
        actor: Actor | str,
        reason: str = "",
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Answer in place of a call that awaits approval: nothing runs.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            message: Result of the call, as the agent gets it.
            actor: Who decides: an `Actor`, or the name of a person.
            reason: Why, stored with the decision. Left out, it is `message`.
            evidence: What the decision rests on: text, or a JSON object.
            revision: Revision of the call that the actor saw; `pending_tool_calls` names it.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Raises:
            SessionNotFound: There is no such session.
            CallNotFound: There is no such call.
            NotPermitted: `actor` may not decide.
            ReasonRequired: There is no reason.
            AlreadyDecided: Somebody else has decided.
            StaleRevision: The call has changed since `revision`.
            NotUndecided: The call does not wait for this decision.
            InvalidInput: An argument cannot be used as such.
            DecisionExpired: Its deadline has passed, and `actor` is no admin.
            SecondPersonRequired: `actor` has decided so already, and another person has to agree.
            NotRepresentable: A value has no exact JSON form.
            SessionFinished: The session has ended.
        """
        target = DecisionTarget(session_id, call_id, revision, step, attempt)
        kind = DecisionKind.RESPOND
        decide.record_decision(self.store, target, kind, actor=actor, reason=reason, evidence=evidence, result=message)
