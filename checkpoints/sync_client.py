"""Blocking client: the public interface of the library, one method for each action of an agent or a person."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn, Self
from uuid import UUID

from checkpoints import constants, sync_and_async_flow_runners
from checkpoints.archive.archive_results import ExportedFile, ImportedSession
from checkpoints.client_backend import ClientBackend, ClientOptions
from checkpoints.client_decision_methods import DecisionMethods
from checkpoints.client_pause_and_response_methods import PeerMethods
from checkpoints.decisions.actors import Actor
from checkpoints.enums import Phase
from checkpoints.loop_state.phase_details import PhaseDetails
from checkpoints.loop_state.resumable_loop_snapshot import RuntimeSnapshot
from checkpoints.open_backend import open_backend
from checkpoints.resume.resume_point import ResumePoint
from checkpoints.session_handle import OpenOptions, SyncSessionHandle
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.sessions.version_retention_rule import RemovalCounts, RetentionRule
from checkpoints.store.call_intent_and_outcome_types import validate_and_build_call_intent
from checkpoints.store.owning_run_protocol import OwningRun
from checkpoints.store.version_state_types import UNCHANGED, Unchanged, VersionChange
from checkpoints.tools.registry_and_dispatch import ToolRegistry
from checkpoints.versions.imported_phase_records import ImportedRecord
from checkpoints.workflows.workflow import SyncWorkflow


class SyncCheckpointer(PeerMethods, DecisionMethods):
    """Client for the sessions in one workspace of one database, or of one server, blocking.

    Inside a Django project it uses the connection `using`; with a path, a URL or the address of a server as first
    argument it is the same as `open`. Sessions it has started or resumed are its own until `release_session` or
    `close`; a `with` block closes it. Safe to use from many threads; a child process needs its own.

    All errors derive from `CheckpointsError`. Not repeated below: every method can raise `StorageError` and its
    subclasses, among them `StorageUnavailable`, `StorageBusy` and `MigrationsMissing`, `WorkspaceNotFound`, and
    `BlockingCallInAsyncCode` on the thread of an event loop; methods that write can raise `InsideTransaction`.
    Over HTTP, every method can raise `TokenInvalid`, `RoleInsufficient`, `RateLimited`, `ServerUnavailable` and
    `ServerFailed` instead. There, a write is sent with a key; if its answer is lost, it is sent again with the same
    key, and the server answers what the first one did. Decisions are then those of the token, whatever the actor.

    The decisions, from `confirm_landed` to `respond_call`, refuse one that does not count by a subclass of
    `DecisionRefused`: `NotPermitted` (the actor may not decide), `ReasonRequired` (there is no reason),
    `AlreadyDecided` (somebody else has decided), `StaleRevision` (the call has changed since the revision),
    `NotUndecided` (the call does not wait for this decision), `DecisionNotAccepted` (the agent's framework does not
    accept this kind of decision about the call), `DecisionExpired` (its deadline has passed, and the actor is no admin)
    or `SecondPersonRequired` (the actor has decided so already, and another person has to agree).
    """

    def __init__(
        self,
        url: str | Path | None = None,
        *,
        workspace: str = constants.DEFAULT_WORKSPACE,
        lease_seconds: float = constants.LEASE_SECONDS,
        using: str = "default",
        migrate: bool | None = None,
        idle_release_seconds: float | None = None,
        token: str | None = None,
    ) -> None:
        """Create a client for one workspace.

        Args:
            url: Path or URL of a database, or address of a server, as in `open`. None uses the Django connection
                `using`.
            workspace: Name (slug) of the workspace whose sessions this client sees. A server's token has its own.
            lease_seconds: Time in seconds without a heartbeat after which a run counts as lost.
            using: Alias of the Django database connection. Ignored when `url` is given.
            migrate: Whether to create and update the tables of the database at `url`. None: SQLite yes, PostgreSQL no.
            idle_release_seconds: Time in seconds after which an unused session is released automatically; the next
                write to it raises `ReleasedWhenIdle`. None never releases one.
            token: Token for the server at `url`, from the settings of its site.

        Raises:
            InvalidInput: A time is not a positive number; or, for a server, there is no token, or an argument
                is one of a database.
            InvalidDatabaseUrl: `url` names no database that can be opened.
            DriverMissing: The database driver is not installed; `HttpClientMissing`, if it is `httpx` for a server.
            DjangoMissing: Django is not installed, and `url` is not the address of a server.
            DatabaseNotConfigured: The project has no connection `using`.
            TimesNotInUtc: `USE_TZ` is off, or the entry of the connection has a `TIME_ZONE`.
        """
        options = ClientOptions(url, workspace, lease_seconds, using, migrate, idle_release_seconds, token)
        self._set_backend_and_client_state(open_backend(options))

    @classmethod
    def open(
        cls,
        url: str | Path,
        *,
        workspace: str = constants.DEFAULT_WORKSPACE,
        lease_seconds: float = constants.LEASE_SECONDS,
        migrate: bool | None = None,
        idle_release_seconds: float | None = None,
        token: str | None = None,
    ) -> Self:
        """Open a database by path or URL, in a Django project or a plain script, or a server by its address.

        Args:
            url: `sqlite:///path`, a path, `postgresql://…`, or the address of a server, `https://…`.
            workspace: Name (slug) of the workspace whose sessions this client sees.
            lease_seconds: Time in seconds without a heartbeat after which a run counts as lost.
            migrate: Whether to create and update the tables. None: SQLite yes, PostgreSQL no.
            idle_release_seconds: Time in seconds after which an unused session is released automatically. None: never.
            token: Token for the server at `url`, from the settings of its site.

        Returns:
            A client. A SQLite file is created where there is none.

        Raises:
            InvalidInput: A time is not a positive number; or, for a server, there is no token, or an argument
                is one of a database.
            InvalidDatabaseUrl: `url` names no database that can be opened.
            DriverMissing: The database driver is not installed; `HttpClientMissing`, if it is `httpx` for a server.
            DjangoMissing: Django is not installed, and `url` is not the address of a server.
            ConnectionFailed: The PostgreSQL server refuses the connection.
        """
        return cls(
            url,
            workspace=workspace,
            lease_seconds=lease_seconds,
            migrate=migrate,
            idle_release_seconds=idle_release_seconds,
            token=token,
        )

    def close(self) -> None:
        """Release all sessions this client owns, so that another process can continue them at once.

        Raises:
            NotDurable: Versions that were written behind could not be saved; the sessions are released all the same.
        """
        self.backend.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(constants.CANNOT_BE_PICKLED)

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
    ) -> OwningRun:
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
        description = NewSessionFields(user_message, agent, title, scratchpad_root, metadata, labels)
        return sync_and_async_flow_runners.run_flow(
            self.backend.start_session_flow(session_id, description, takeover=takeover)
        )

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
        description = NewSessionFields(user_message, agent, title, scratchpad_root, metadata, labels)
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
        return self.backend.release_session(session_id)

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
            status: Only sessions with this status: a value of `SessionStatus`, or `quarantined` for those with altered
                rows, whatever their status was.
            agent: Only sessions of this agent.
            label: Only sessions with this label.
            updated_before: Only sessions without activity since this time (with a time zone).
            after: `cursor` of the last entry of the previous page. None starts at the beginning.
            limit: Largest number of entries.

        Returns:
            One dict per session: session_id, title, agent, status, finished, labels, metadata, version,
            message_count, budget_spent_usd, cost_basis, total_tokens, created_at, updated_at, owner, cursor. The cost
            is 0 if its `cost_basis` is `unknown`, neither `stated` by the agent nor `estimated` from a price table; the
            tokens are 0 if no version states any. `owner` is None, or the run that owns the session: run_id, host,
            pid, last_seen, lease_ends, alive. The status of a session that does not match its seal is `quarantined`.

        Raises:
            InvalidInput: An argument cannot be a filter, cursor or limit.
        """
        return self.backend.list_sessions(
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
        self.backend.finish_session(session_id, status, result)

    def fork_session(
        self,
        session_id: str,
        new_session_id: str,
        *,
        version: int | None = None,
        title: str | None = None,
        actor: Actor | str | None = None,
    ) -> int:
        """Create a new session that continues from a version of another one.

        No message is copied. Calls that had an effect come along, so that the fork replays them instead of repeating
        the effect.

        Args:
            session_id: Identifier of the session to fork.
            new_session_id: Identifier of the new session.
            version: Version to continue from. None: the newest.
            title: Title of the new session. None: that of the other one.
            actor: Person or token that asks for the fork, for the audit trail; has to be permitted to decide.

        Returns:
            The version of the new session: 1.

        Raises:
            SessionNotFound: There is no session `session_id`.
            VersionNotFound: It has no such version.
            SessionExists: There is a session `new_session_id` already.
            NotPermitted: `actor` may not decide.
            InvalidIdentifier: `new_session_id` cannot be an identifier.
            InvalidInput: `title` is no text.
        """
        return self.backend.fork_session(session_id, new_session_id, version=version, title=title, actor=actor)

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
        return self.backend.export_session(session_id, path)

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
            TooLarge: Its compressed values have more bytes than is allowed for a file of its size.
        """
        return self.backend.import_session(path, session_id=session_id)

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
        return self.backend.delete_session(session_id, dry_run=dry_run)

    def release_quarantine(
        self, session_id: str, *, actor: Actor | str, reason: str, accept_altered: bool = False
    ) -> int:
        """Let a session go on that was quarantined because rows of it are not as this library wrote them.

        Args:
            session_id: Identifier of the session.
            actor: Admin who releases it: an `Actor`, or the name of a person.
            reason: Why, in a sentence, for the audit trail.
            accept_altered: Whether to seal the rows as they are now. Without it all rows have to match their seals, as
                they do after they were restored from a backup.

        Returns:
            The number of rows that were sealed as they are.

        Raises:
            SessionNotFound: There is no such session.
            NotQuarantined: The session is not quarantined.
            NotPermitted: `actor` is no admin.
            ReasonRequired: There is no reason.
            QuarantineStays: Rows do not match, and are not accepted, or cannot be because they are of a transcript.
            SealKeyMissing: This process has no key, or not the one of a row.
        """
        return self.backend.release_quarantine(session_id, actor=actor, reason=reason, accept_altered=accept_altered)

    # ---- versions

    def save_checkpoint(
        self,
        session_id: str,
        transcript: list[dict[str, Any]],
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        budget_spent_usd: float | Decimal | Unchanged = UNCHANGED,
        *,
        phase: str = Phase.TURN,
        usage: dict[str, Any] | Unchanged | None = None,
        payload: dict[str, Any] | None = None,
        expected_version: int | None = None,
    ) -> int:
        """Save the whole transcript as the next version; only its new messages are stored.

        The version is durable when this returns.

        Args:
            session_id: Identifier of a session this client owns.
            transcript: All messages, oldest first.
            plan: JSON object with the agent's plan. Left out, it stays as in the previous version, at first None.
            budget_spent_usd: Total spent so far in the whole session, in US dollars, not what this version adds.
                Left out, it stays as in the previous version, at first 0.
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
        return self.backend.save_version(session_id, transcript, change, expected_version)

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
            budget_spent_usd: Total spent so far in the whole session, in US dollars, not what this version adds.
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
        return self.backend.append_version_with_or_without_run(
            session_id, new_messages, change, expected_version=expected_version
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
        return self.backend.save_phase(session_id, details, snapshot, transcript, plan, expected_version)

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
        return self.backend.import_record(session_id, record, run_id=run_id)

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
        return self.backend.load_latest(session_id)

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
        return self.backend.load(session_id, version)

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
        return self.backend.list_checkpoints(session_id, before=before, limit=limit)

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
        return self.backend.list_messages(session_id, after, limit, version)

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
            IntegrityError: A row of the session is not as it was written; nothing was deleted.
        """
        return self.backend.delete_checkpoint(session_id, version)

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
            IntegrityError: A row of the session is not as it was written; nothing was deleted.
        """
        retention = RetentionRule(keep_last, keep_every, older_than)
        return self.backend.prune(session_id, retention, dry_run=dry_run)

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
        intent = validate_and_build_call_intent(
            call_id, tool_name, args, idempotency_key, side_effects=side_effects, step=step
        )
        self.backend.record_issued_call(session_id, intent)

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
        self.backend.record_call_result(session_id, call_id, result_text, success, step=step)

    def find_completed_call(self, idempotency_key: str) -> dict[str, Any] | None:
        """Find the completed call with an idempotency key.

        Args:
            idempotency_key: Key of the operation.

        Returns:
            A dict with call_id, tool_name, args_json, result_text, status and more; None where there is no such call.
        """
        return self.backend.find_completed_call(idempotency_key)

    def pending_tool_calls(self, session_id: str) -> list[dict[str, Any]]:
        """List the unfinished calls of a session, oldest first: issued, interrupted or awaiting approval.

        An issued call is running if `alive` is True; else the run that issued it has died. A call that is approved and
        has not run yet is not listed, nor one of an imported transcript.

        Args:
            session_id: Identifier of the session. One that does not exist has no calls.

        Returns:
            One dict per call: call_id, tool_name, args_json, started_at, status, reason, run_id, alive, step, attempt,
            revision, verify_reason. `verify_reason` is why the tool's verify hook could not tell; None where no hook
            was asked.
        """
        return self.backend.list_unfinished_calls(session_id)

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
        return self.backend.list_calls_awaiting_decision(agent=agent, after=after, limit=limit)

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
        return sync_and_async_flow_runners.run_flow(
            self.backend.resume_session_flow(session_id, wait=wait, timeout=timeout, takeover=takeover)
        )

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
        session_id = self.backend.get_session_id_of_run(run_id)
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
        return self.backend.preview_resume(session_id)

    def sweep_lost_runs(self, *, limit: int = constants.BATCH_LIMIT) -> list[str]:
        """End lost runs of the workspace and interrupt their calls, so that people can decide before anybody resumes.

        A run is lost when its lease has expired, and on this machine when its process is gone. Any number of processes
        may sweep at the same time.

        Args:
            limit: Largest number of runs to end.

        Returns:
            The identifiers of their sessions.
        """
        return self.backend.sweep_lost_runs(limit=limit)

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
        return SyncWorkflow(
            self.checkpointer_state,
            self.backend.open_or_create_step_log(session_id, workflow_id),
            session_id,
            workflow_id,
        )


def build_client_of_backend(backend: ClientBackend) -> SyncCheckpointer:
    """Build the client of a backend that is open already."""
    client = SyncCheckpointer.__new__(SyncCheckpointer)
    client._set_backend_and_client_state(backend)
    return client
