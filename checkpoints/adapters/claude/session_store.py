"""Store of the sessions of the Claude Agent SDK: its lines as they were written, and a readable transcript."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from threading import Lock
from typing import Any, Final, TypeVar
from weakref import WeakSet

from claude_agent_sdk import SessionKey, SessionStore, fold_session_summary
from claude_agent_sdk.types import (
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)
from django.db import transaction

from checkpoints.adapters.claude import (
    create_session_of_sdk_fork,
    transcript_keys,
    transcript_line_delta_encoding,
)
from checkpoints.adapters.claude.readable_transcript_writer import (
    AGENT_NAME,
    FRAMEWORK,
    SessionChanged,
    TranscriptMirror,
    find_last_subagent_fields_or_empty_dict,
    is_subagent_description,
)
from checkpoints.adapters.claude.transcript_keys import TranscriptKey
from checkpoints.adapters.claude.transcript_line_delta_encoding import Line
from checkpoints.adapters.claude.transcript_line_retry_buffer import TranscriptLineRetryBuffer
from checkpoints.adapters.session_claims import SessionClaims
from checkpoints.adapters.sync_or_async_client import get_sync_client, run_on_thread
from checkpoints.async_client import Checkpointer
from checkpoints.calls import framework_interrupt_calls
from checkpoints.constants import MAX_VALUE_BYTES
from checkpoints.database_backend.database_client_backend import DatabaseBackend
from checkpoints.db.clock import read_database_time
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import SessionStatus
from checkpoints.exceptions import (
    CheckpointCorrupted,
    InvalidInput,
    NotRepresentable,
    OwnershipLost,
    SessionBusy,
    SessionNotFound,
    StorageError,
    TooLarge,
    VersionConflict,
)
from checkpoints.formats.tool_calls_in_messages import is_answer_without_calls
from checkpoints.framework_states import opaque_line_log, remove_and_copy_states, write_cached_session_in_one_statement
from checkpoints.framework_states.opaque_line_log import LineLog
from checkpoints.models import Session
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store import look_up_and_lock_rows
from checkpoints.sync_client import SyncCheckpointer
from checkpoints.tools.foreign_tool_guard import ToolPolicies

T = TypeVar("T")
#: Number of sessions whose readers are kept, so that an append reads only what is new.
_MAX_MIRRORS: Final = 64
#: Number of sessions of which it is known which version this store has loaded or written.
_MAX_VERSIONS: Final = 4096


class HarnessSessionStore(SessionStore):
    """`SessionStore` of the Claude Agent SDK on the sessions of this library.

        async with HarnessSessionStore.open("sqlite:///agent.db") as store:
            options = ClaudeAgentOptions(session_store=store)

    A line is stored as it was written, once for each uuid, and `load` returns the lines in the order of their commits.
    Beside them the session is readable on the pages as one that was imported from the same file. A write is refused
    with `SessionBusy` while a run of another client owns the session.
    """

    def __init__(self, checkpointer: SyncCheckpointer | Checkpointer | None = None, *, agent: str = "") -> None:
        """Create a store.

        Args:
            checkpointer: Client of a database, blocking or async. None uses the `default` database of the project.
            agent: Name of the agent of the sessions, for lists and filters. Empty: `claude-code`, and for a subagent
                `claude-code/` with its type.

        Raises:
            InvalidInput: The client is one of a server over HTTP.
        """
        self.checkpointer = SyncCheckpointer() if checkpointer is None else checkpointer
        if not isinstance(self.sync_checkpointer.backend, DatabaseBackend):
            raise InvalidInput("A store of the Claude Agent SDK needs a database: a path, or a database URL.")
        self.agent = agent
        #: Policies of hooks, which log calls themselves.
        self._policies: WeakSet[ToolPolicies] = WeakSet()
        self._mirrors: OrderedDict[str, TranscriptMirror] = OrderedDict()
        #: Versions of sessions that this store has loaded, or written behind those.
        self._versions: OrderedDict[str, int] = OrderedDict()
        #: Sessions that another process has continued since this store has loaded them.
        self._overtaken: OrderedDict[str, None] = OrderedDict()
        self._refused_lines = TranscriptLineRetryBuffer()
        self._lock = Lock()
        #: Seconds by which the clock of the database is ahead of that of this process.
        self._clock_lead: float | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, **options: Any) -> AsyncIterator[HarnessSessionStore]:
        """Open a database for an `async with` block.

        Args:
            url: Path or URL of a database, as `Checkpointer.open` takes it.
            options: Arguments of the class.

        Yields:
            The store. Its client is closed at the end.
        """
        async with Checkpointer.open(url) as checkpointer:
            yield cls(checkpointer, **options)

    @property
    def sync_checkpointer(self) -> SyncCheckpointer:
        """Blocking client of the same store."""
        return get_sync_client(self.checkpointer)

    def exclude_calls_logged_by_hooks(self, policies: ToolPolicies) -> None:
        """Leave the calls of some tools to hooks, which log them before they run.

        Args:
            policies: Policies of the hooks.
        """
        self._policies.add(policies)

    def _is_tool_logged_by_policies(self, name: str) -> bool:
        return any(policies.logs_calls(name) for policies in self._policies)

    async def _run_blocking(self, work: Callable[[], T]) -> T:
        return await run_on_thread(self.checkpointer, work)

    # ---- lines

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Store lines, and show them in the transcript, in one transaction.

        Lines that were refused by a busy session, or while the database was not available, are stored before the next
        ones: the SDK gives them up after three attempts.

        Args:
            key: Key of the session or the subagent.
            entries: Lines. One whose uuid is stored is left out.

        Raises:
            InvalidInput: The key or a line cannot be stored. Nothing of the batch is.
            SessionBusy: A run of another client owns the session and is alive.
            OwnershipLost: Another run has taken the session from this client.
            VersionConflict: Another process has continued the session since this store has loaded it, and a call or
                lines of this store were refused because of that.
            SessionFinished: The session has ended.
        """
        place, lines = transcript_keys.parse_session_key(key), [_validate_and_copy_line(entry) for entry in entries]
        if lines:
            await self._run_blocking(partial(self._append_refused_lines_and_batch, place, entries, lines))

    def _append_refused_lines_and_batch(self, key: TranscriptKey, batch: object, lines: Sequence[Line]) -> None:
        session_id = key.session_id
        lines = self._refused_lines.prepend_refused_lines(session_id, batch, lines)
        try:
            self._require_not_overtaken_since_refusal(key)
            self._append_lines(key, lines)
        except (SessionBusy, OwnershipLost, StorageError) as error:
            if not isinstance(error, CheckpointCorrupted):
                self._refused_lines.remember_refused_lines(
                    session_id, batch, lines, was_busy=isinstance(error, SessionBusy)
                )
            raise
        self._refused_lines.discard(session_id)

    def _require_not_overtaken_since_refusal(self, key: TranscriptKey) -> None:
        """Require that no other process has continued the session while lines or calls of this store were refused.

        What it did is not in the conversation of the program here. If the lines of that one followed, they would be
        the conversation from which the next run continues.
        """
        root_id = key.root_session_id
        with self._lock:
            is_overtaken, is_known = root_id in self._overtaken, root_id in self._versions
        if is_overtaken or (is_known and self._refused_lines.was_session_busy(key.session_id)):
            try:
                self.require_no_newer_version(root_id)
            except VersionConflict:
                self._refused_lines.discard(key.session_id)
                raise
            except SessionNotFound:
                return

    def _append_lines(self, key: TranscriptKey, lines: Sequence[Line]) -> None:
        store, session_id = self.sync_checkpointer.store, key.session_id
        with SessionClaims.get_for_client(self.sync_checkpointer).lock_session_claims(session_id):
            with self._lock:
                mirror = self._mirrors.pop(session_id, None)
            written, before = None, 0 if mirror is None else mirror.version
            names_origin = create_session_of_sdk_fork.find_origin_session_id_or_none(key, lines) is not None
            if mirror is not None and not names_origin and not any(map(is_subagent_description, lines)):
                try:
                    written = self._try_append_to_cached_session(key, mirror, lines)
                except SessionChanged:
                    mirror = None
            if written is None:
                mirror, before = self._append_lines_under_lock(key, mirror, lines)
            if mirror is not None:
                self._compare_and_set_version_number(session_id, before, mirror.version)
                known = write_cached_session_in_one_statement.find_cached_session_writable_without_run(
                    store, session_id
                )
                mirror.revision = None if known is None else known.row.revision
                with self._lock:
                    self._mirrors[session_id] = mirror
                    while len(self._mirrors) > _MAX_MIRRORS:
                        self._mirrors.popitem(last=False)
        store.notify_save_listeners(session_id)

    def _try_append_to_cached_session(
        self, key: TranscriptKey, mirror: TranscriptMirror, lines: Sequence[Line]
    ) -> TranscriptMirror | None:
        """Store lines in one statement, if nobody has written to the session since the mirror has.

        Returns the mirror that has read them; None if that is not possible and nothing was done. Raises
        `SessionChanged`.
        """
        store = self.sync_checkpointer.store
        known = write_cached_session_in_one_statement.find_cached_session_writable_without_run(store, key.session_id)
        if known is None or mirror.revision != known.row.revision or self._clock_lead is None:
            return None
        if known.row.status == SessionStatus.READY:  # an answer of the model makes it active
            return None
        if len(_list_new_lines(lines, mirror.keys)) < len(lines):
            return None
        with ExitStack() as exits:
            mirror.begin_optimistic_writing(known, exits)
            log = LineLog(store, known.row, None, key.project_log_group, known=(mirror.size, mirror.header))
            log.queue_lines(transcript_line_delta_encoding.encode_lines(lines, mirror.last_line))
            mirror.pass_lines_to_reader(lines)
            mirror.flush()
            self._set_line_log_header(key, log, lines, int((time.time() + self._clock_lead) * 1000))
            if (
                len(lines) + len(mirror.written) >= write_cached_session_in_one_statement.MAX_ROWS
            ):  # the header is a row, too
                mirror.lock_session_and_write_queued_version()
            if mirror.can_write_optimistically:
                mirror.write_queued_version_and_rows_optimistically(
                    log.take_rows_of_queued_lines_and_header(mirror.written)
                )
            else:
                log.row = mirror.session_row
                log.insert_queued_lines(mirror.written)
                log.save_header()
                write_cached_session_in_one_statement.cache_session_after_commit(store, key.session_id, None, {})
        mirror.header = log.header
        mirror.version, mirror.chain = mirror.session_row.latest_version, bytes(mirror.session_row.head_chain)
        return mirror

    def _append_lines_under_lock(
        self, key: TranscriptKey, mirror: TranscriptMirror | None, lines: Sequence[Line]
    ) -> tuple[TranscriptMirror | None, int]:
        """Store lines in a transaction that locks the session.

        Returns the mirror that has read all of them, and the version of the session before.
        """
        origin = create_session_of_sdk_fork.find_origin_session_id_or_none(key, lines)
        if origin is not None:
            notes = self._load_lines_if_session_has_no_messages(key.session_id)
            if notes:
                return self._replace_notes_session_by_fork(key, origin, notes, lines)
            create_session_of_sdk_fork.create_forked_session_if_missing(self.sync_checkpointer.store, key, origin)
        return self._append_new_lines_and_write_versions(key, mirror, lines)

    def create_forked_session_if_missing(self, key: TranscriptKey, origin: str) -> None:
        """Create the session of a transcript with the calls of the one that it was forked from, before it has messages.

        Args:
            key: Key of the transcript.
            origin: Id of the session that it was forked from.

        Raises:
            SealError: The calls of the origin cannot be verified.
        """
        with SessionClaims.get_for_client(self.sync_checkpointer).lock_session_claims(key.session_id):
            notes = self._load_lines_if_session_has_no_messages(key.session_id)
            if notes:
                with self._lock:
                    self._mirrors.pop(key.session_id, None)
                self._replace_notes_session_by_fork(key, origin, notes, [])
            else:
                create_session_of_sdk_fork.create_forked_session_if_missing(self.sync_checkpointer.store, key, origin)

    def _load_lines_if_session_has_no_messages(self, session_id: str) -> list[Line]:
        """Load the lines of a session that has notes of the program alone; none if it has more, or no lines."""
        store = self.sync_checkpointer.store
        with database_operation(store.using, writes=False):
            rows = Session.objects.using(store.using).filter(workspace_id=store.workspace_id, session_id=session_id)
            is_empty = rows.filter(latest_version=0, owner=None, forked_from=None, tool_calls=None).exists()
        lines = (self._load_all_lines(session_id) or []) if is_empty else []
        return [] if any(map(transcript_keys.build_line_key_or_empty, lines)) else lines

    def _replace_notes_session_by_fork(
        self, key: TranscriptKey, origin: str, notes: Sequence[Line], lines: Sequence[Line]
    ) -> tuple[TranscriptMirror | None, int]:
        """Store lines of a fork behind notes, which the program writes first and which do not name it.

        The session of the notes is replaced by a fork of the origin.
        """
        store = self.sync_checkpointer.store
        with database_operation(store.using), transaction.atomic(using=store.using):
            remove_and_copy_states.release_and_delete_session(store, key.session_id)
            create_session_of_sdk_fork.create_forked_session_if_missing(store, key, origin)
            return self._append_new_lines_and_write_versions(key, None, [*notes, *lines])

    def _append_new_lines_and_write_versions(
        self, key: TranscriptKey, mirror: TranscriptMirror | None, lines: Sequence[Line]
    ) -> tuple[TranscriptMirror | None, int]:
        store, session_id = self.sync_checkpointer.store, key.session_id
        description = NewSessionFields(agent=self.agent or AGENT_NAME, labels=[AGENT_NAME], framework=FRAMEWORK)
        with opaque_line_log.lock_or_create_session_for_line_log(
            store, session_id, description, key.project_log_group
        ) as log:
            size = log.size
            newest = (size, log.row.latest_version, bytes(log.row.head_chain))
            if mirror is not None and (mirror.size, mirror.version, mirror.chain) != newest:
                mirror = None
            stored = self._load_first_lines(session_id, size) if mirror is None else []
            known_keys = set(map(transcript_keys.build_line_key_or_empty, stored)) if mirror is None else mirror.keys
            new = _list_new_lines(lines, known_keys)
            self._require_guarded_session_is_not_overtaken(key, newest[1], are_all_new=len(new) == len(lines))
            if new or not log.header:
                mirror = self._queue_lines_and_write_versions(key, log, mirror, stored, new)
                log.insert_queued_lines(mirror.written)
                now = read_database_time(store.using).timestamp()
                self._clock_lead = now - time.time()
                self._set_line_log_header(key, log, new, int(now * 1000))
                log.save_header()
                mirror.header = log.header
                is_decided = log.owned_session is None and log.row.status == SessionStatus.READY
                if is_decided and _do_lines_end_turn(new):
                    # The program has asked something new since people decided, and no guarded call has passed the gate.
                    framework_interrupt_calls.activate_session_if_no_approval_unused(store, log.row)
                write_cached_session_in_one_statement.cache_session_after_commit(
                    store, session_id, log.owned_session, {}
                )
        return mirror, newest[1]

    def _require_guarded_session_is_not_overtaken(self, key: TranscriptKey, latest: int, *, are_all_new: bool) -> None:
        """Require that nobody else has continued a session, whose calls hooks guard, since this store has loaded it.

        A session that it has not loaded is a new one for it. Lines of which some are stored already are those of an
        append of this store whose end it did not see.
        """
        if not self._policies or key.subpath:
            return
        with self._lock:
            if not are_all_new:
                self._remember_version_number(key.session_id, latest)
            known = self._versions.get(key.session_id, 0)
        if known != latest:
            self._remember_that_session_is_overtaken(key.session_id)
            raise VersionConflict(key.session_id, known, latest)

    def _remember_that_session_is_overtaken(self, session_id: str) -> None:
        with self._lock:
            self._overtaken[session_id] = None
            while len(self._overtaken) > _MAX_VERSIONS:
                self._overtaken.popitem(last=False)

    def _compare_and_set_version_number(self, session_id: str, before: int, after: int) -> None:
        """Remember a version that was written behind the one that this store knows, or as the first one."""
        with self._lock:
            if self._versions.get(session_id, 0) == before:
                self._remember_version_number(session_id, after)

    def _remember_version_number(self, session_id: str, version: int) -> None:
        self._versions.pop(session_id, None)
        self._versions[session_id] = version
        while len(self._versions) > _MAX_VERSIONS:
            self._versions.popitem(last=False)

    def _load_latest_version_number(self, session_id: str) -> int:
        store = self.sync_checkpointer.store
        with database_operation(store.using, writes=False):
            return look_up_and_lock_rows.get_session(store, session_id).latest_version

    def require_no_newer_version(self, session_id: str) -> None:
        """Require that nobody else has continued a transcript since this store has loaded it.

        A transcript that it has not loaded is a new one for it. If somebody has continued it, no lines of this store
        are stored any more until it has loaded the transcript again.

        Args:
            session_id: Identifier of the session that the transcript is.

        Raises:
            VersionConflict: Another store has written a version since.
        """
        # An append of this store has the lock until it has both written a version and remembered it.
        with SessionClaims.get_for_client(self.sync_checkpointer).lock_session_claims(session_id):
            with self._lock:
                version = self._versions.get(session_id, 0)
            latest = self._load_latest_version_number(session_id)
            if latest != version:
                self._remember_that_session_is_overtaken(session_id)
                raise VersionConflict(session_id, version, latest)

    def _queue_lines_and_write_versions(
        self,
        key: TranscriptKey,
        log: LineLog,
        mirror: TranscriptMirror | None,
        stored: Sequence[Line],
        new: Sequence[Line],
    ) -> TranscriptMirror:
        """Add new lines to the log, and write the versions that show them. Without a mirror, `stored` are the lines
        before them.

        Returns the mirror that has read all lines.
        """
        store, size = self.sync_checkpointer.store, log.size
        if mirror is not None and any(map(is_subagent_description, new)):
            stored, mirror = self._load_first_lines(key.session_id, size), None
        if mirror is None:
            subagent = find_last_subagent_fields_or_empty_dict([*stored, *new])
            mirror = TranscriptMirror(store, key, self.agent, subagent, self._is_tool_logged_by_policies)
        if key.subpath and size == 0:
            rows = Session.objects.using(store.using).filter(pk=log.row.pk)
            rows.update(parent_session_id=key.root_session_id)
            log.row.parent_session_id = key.root_session_id
        mirror.begin_writing_under_callers_lock(log.row, log.owned_session)
        mirror.pass_lines_to_reader(stored, repeats=True)
        log.queue_lines(transcript_line_delta_encoding.encode_lines(new, mirror.last_line))
        mirror.pass_lines_to_reader(new)
        mirror.flush()
        mirror.version, mirror.chain = log.row.latest_version, bytes(log.row.head_chain)
        return mirror

    def _load_first_lines(self, session_id: str, size: int) -> list[Line]:
        """Load the first `size` lines of a session."""
        return (self._load_all_lines(session_id) or [])[:size] if size else []

    def _load_all_lines(self, session_id: str) -> list[Line] | None:
        contents = opaque_line_log.load_session_lines(self.sync_checkpointer.store, session_id)
        try:
            return None if contents is None else transcript_line_delta_encoding.decode_lines(contents)
        except ValueError as error:
            raise CheckpointCorrupted(session_id, "its lines", str(error)) from error

    def _set_line_log_header(self, key: TranscriptKey, log: LineLog, new: Sequence[Line], now: int) -> None:
        """Update the header of a log after a write at `now`, milliseconds since 1970 by the clock of the database."""
        mtime = max(now, log.header.get("mtime", 0) + 1)
        header: dict[str, Any] = {"session_id": key.session, "subpath": key.subpath, "mtime": mtime}
        if not key.subpath:
            before: Any = {"session_id": key.session, "mtime": 0, "data": log.header.get("summary", {})}
            named: SessionKey = {"project_key": key.project, "session_id": key.session}
            entries: Any = list(new)
            header["summary"] = fold_session_summary(before if log.header else None, named, entries)["data"]
        log.header = header

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the lines of a session or a subagent, in the order of their commits; None if it was never written.

        Raises:
            InvalidInput: It is no key.
            CheckpointCorrupted: A stored line is missing or altered.
        """
        session_id = transcript_keys.parse_session_key(key).session_id
        lines: Any = await self._run_blocking(partial(self._load_lines_and_remember_version, session_id))
        return lines  # type: ignore[no-any-return]

    def _load_lines_and_remember_version(self, session_id: str) -> list[Line] | None:
        try:
            version = self._load_latest_version_number(session_id)
        except SessionNotFound:
            return None
        lines = self._load_all_lines(session_id)
        with self._lock:
            self._remember_version_number(session_id, version)
            self._overtaken.pop(session_id, None)
        self._refused_lines.discard(session_id)
        return lines

    # ---- lists

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """List the sessions of a project, with the times of their last writes in milliseconds since 1970."""
        headers = await self._list_transcript_log_headers_of_project(project_key)
        return [{"session_id": header["session_id"], "mtime": header["mtime"]} for header in headers]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """List the summaries of the sessions of a project, which the SDK made of their lines."""
        headers = await self._list_transcript_log_headers_of_project(project_key)
        return [
            {"session_id": header["session_id"], "mtime": header["mtime"], "data": header["summary"]}
            for header in headers
        ]

    async def _list_transcript_log_headers_of_project(self, project_key: str) -> list[dict[str, Any]]:
        group = transcript_keys.build_transcript_key_of_project(project_key).project_log_group
        return await self._run_blocking(
            partial(opaque_line_log.load_headers_of_logs_in_group, self.sync_checkpointer.store, group)
        )

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """List the subpaths of the subagents of a session."""
        return await self._run_blocking(partial(self._list_subagent_subpaths, transcript_keys.parse_session_key(key)))

    def _list_subagent_subpaths(self, key: TranscriptKey) -> list[str]:
        group = TranscriptKey(key.project, key.session, "-").project_log_group
        store = self.sync_checkpointer.store
        return [
            header["subpath"]
            for header in opaque_line_log.load_headers_of_logs_in_group(
                store, group, parent_session_id=key.root_session_id
            )
        ]

    # ---- removing

    async def delete(self, key: SessionKey) -> None:
        """Delete a session with its subagents, or one subagent. What was never written is deleted already.

        Raises:
            InvalidInput: It is no key.
            StillNeeded: A run of another client drives it, or a person has to decide about a call.
        """
        await self._run_blocking(partial(self._delete_transcripts, transcript_keys.parse_session_key(key)))

    def _delete_transcripts(self, key: TranscriptKey) -> None:
        subpaths = [] if key.subpath else self._list_subagent_subpaths(key)
        for each in (key, *(TranscriptKey(key.project, key.session, subpath) for subpath in subpaths)):
            with SessionClaims.get_for_client(self.sync_checkpointer).lock_session_claims(each.session_id):
                with self._lock:
                    self._mirrors.pop(each.session_id, None)
                    self._overtaken.pop(each.session_id, None)
                self._refused_lines.discard(each.session_id)
                remove_and_copy_states.release_and_delete_session(self.sync_checkpointer.store, each.session_id)


def _list_new_lines(lines: Sequence[Line], known_keys: Collection[str]) -> list[Line]:
    """List the lines whose key, if they have one, is neither known nor that of a line before them."""
    added = set[str]()
    new = []
    for line in lines:
        key = transcript_keys.build_line_key_or_empty(line)
        if key and (key in known_keys or key in added):
            continue
        added.add(key)
        new.append(line)
    return new


def _do_lines_end_turn(lines: Sequence[Line]) -> bool:
    """Return whether the last message among the lines is an answer of the model, all of whose blocks are no calls."""
    messages = [line["message"] for line in lines if isinstance(line.get("message"), dict)]
    last = messages[-1].get("id") if messages else None
    blocks = [message for message in messages if last is not None and message.get("id") == last] or messages[-1:]
    return bool(blocks) and all(map(is_answer_without_calls, blocks))


def _validate_and_copy_line(entry: Any) -> Line:
    """Copy a line as its JSON text has it. Raises `InvalidInput`."""
    if not isinstance(entry, dict):
        raise NotRepresentable("line", f"a {type(entry).__name__} is not a JSON object")
    try:
        content = transcript_line_delta_encoding.encode_json(entry)
        line: Line = json.loads(content)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotRepresentable("line", str(error)) from error
    if line != entry:
        raise NotRepresentable("line", "its JSON text does not give an equal object")
    if len(content) > MAX_VALUE_BYTES:
        raise TooLarge("line", len(content), MAX_VALUE_BYTES)
    return line
