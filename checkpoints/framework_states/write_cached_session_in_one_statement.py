"""Sessions as this client has written them last, so that its next write needs no read and is one statement.

The statement expects the revision that the last write gave the session. Everything that writes to a session, its
states or its blobs raises the revision, so that what is known about these still holds then. Otherwise nothing is
written, and the caller writes under the lock of the session. Only on PostgreSQL, without seals, and while no run owns
the session.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, connections, transaction

from checkpoints.constants import SCHEMA_VERSION
from checkpoints.db import hot_statements
from checkpoints.db.hot_statements import ChangedRow, NewRows, SaveBase
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import FINISHED_SESSION_STATUSES
from checkpoints.framework_states import write_transcript_version
from checkpoints.framework_states.write_transcript_version import VersionContent
from checkpoints.models import Checkpoint, Session
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.sessions import mark_or_require_session_framework
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.store.version_state_types import VersionChange
from checkpoints.versions import save_version
from checkpoints.versions.opaque_bytes_as_message_differences import StoredMessage
from checkpoints.versions.parse_state_channels_and_collect_digests import Channels

_MAX_SESSIONS: Final = 256
#: Number of states of a session whose channels are known, the newest ones.
_MAX_STATES: Final = 8
#: Largest number of rows beside the version, and messages of it, in one statement.
MAX_ROWS: Final = 64


@dataclass(frozen=True)
class CachedSession:
    """Session after a write of this client.

    Attributes:
        row: Its row.
        newest: Its newest version; None if it has none.
        channels: Channels of its newest states, by namespace and identifier.
        facts: What an adapter has found in it under its lock, by names of the adapter. A write of another client makes
            the session unknown, and so what was found in it.
    """

    row: Session
    newest: Checkpoint | None
    channels: Mapping[tuple[str, str], Channels] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)

    def copy_with_added_state(self, namespace: str, state_id: str, channels: Channels) -> CachedSession:
        """Return the session with one more state."""
        states = {**self.channels, (namespace, state_id): channels}
        return replace(self, channels=dict(list(states.items())[-_MAX_STATES:]))


class _CachedSessions:
    """Sessions that one client knows. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, CachedSession] = OrderedDict()

    def find(self, session_id: str) -> CachedSession | None:
        with self._lock:
            return self._sessions.get(session_id)

    def remember_or_forget(self, session_id: str, known: CachedSession | None) -> None:
        with self._lock:
            self._sessions.pop(session_id, None)
            if known is not None:
                self._sessions[session_id] = known
                while len(self._sessions) > _MAX_SESSIONS:
                    self._sessions.popitem(last=False)


_cached_sessions: weakref.WeakKeyDictionary[Store, _CachedSessions] = weakref.WeakKeyDictionary()
_creation_lock = threading.Lock()


def _get_or_create_cached_sessions(store: Store) -> _CachedSessions:
    with _creation_lock:
        return _cached_sessions.setdefault(store, _CachedSessions())


def _supports_one_statement_writes(store: Store) -> bool:
    return connections[store.using].vendor == "postgresql" and get_seal_keys() is None and store.behind is None


def find_cached_session_writable_without_run(
    store: Store, session_id: str, description: NewSessionFields | None = None
) -> CachedSession | None:
    """Find a session that this client may write to in one statement.

    Returns None if it is not known, a run owns it, it has no title and the description may have one, or the framework
    of the description has to be checked or marked first. Raises `OpenedInAnotherProcess`.
    """
    store.require_own_process(session_id)
    known = _get_or_create_cached_sessions(store).find(session_id) if _supports_one_statement_writes(store) else None
    if known is None or store.find_owned_session(session_id) is not None:
        return None
    if description is None:
        return known
    may_write = mark_or_require_session_framework.may_framework_write_without_marking(known.row, description.framework)
    return known if known.row.title and may_write else None


def cache_session_after_commit(
    store: Store,
    session_id: str,
    owned_session: OwnedSession | None,
    states: Mapping[tuple[str, str], Channels],
    facts: Mapping[str, str] | None = None,
) -> None:
    """Remember a session that the transaction of the caller has locked and written to, with states and facts of it.

    It is known once that is committed: after a rollback another write may give it the same revision.
    """
    if owned_session is not None or not _supports_one_statement_writes(store):
        return
    row = look_up_and_lock_rows.get_session(store, session_id)
    newest = save_version.find_newest_version(store.using, row.pk)
    is_readable = newest is None or newest.schema_version <= SCHEMA_VERSION
    known = None
    if row.owner_id is None and row.head_segment_id and is_readable and row.status not in FINISHED_SESSION_STATUSES:
        earlier = _get_or_create_cached_sessions(store).find(session_id)
        known = CachedSession(row, newest)
        if earlier is not None and earlier.row.pk == row.pk and earlier.row.revision == row.revision - 1:
            known = replace(known, channels=earlier.channels, facts=earlier.facts)
        for place, channels in states.items():
            known = known.copy_with_added_state(*place, channels)
        known = replace(known, facts={**known.facts, **(facts or {})})
    transaction.on_commit(
        partial(_get_or_create_cached_sessions(store).remember_or_forget, session_id, known), using=store.using
    )


def discard_cached_session(store: Store, session_id: str) -> None:
    """Forget a session."""
    _get_or_create_cached_sessions(store).remember_or_forget(session_id, None)


def try_write_rows_of_cached_session(
    store: Store, session_id: str, known: CachedSession, rows: Sequence[NewRows | ChangedRow]
) -> CachedSession | None:
    """Insert rows of a session. Returns the session after that; None if it is not as it is known.

    Raises subclasses of `StorageError`.
    """
    row = known.row
    if _count_rows_to_write(rows) > MAX_ROWS:
        return None
    discard_cached_session(store, session_id)  # until the statement is known to have been executed
    with database_operation(store.using) as connection:
        try:
            status = hot_statements.write_rows_if_session_unchanged(connection, row.pk, row.fence, row.revision, rows)
        except IntegrityError:  # a row exists already
            return None
    if status is None:
        return None
    return _build_and_cache_changed_session(store, session_id, known, status=status)


def _count_rows_to_write(rows: Sequence[NewRows | ChangedRow]) -> int:
    return sum(len(each.rows) if isinstance(each, NewRows) else 1 for each in rows)


def try_write_append_only_version_of_cached_session(
    store: Store,
    session_id: str,
    known: CachedSession,
    content: VersionContent,
    build_rows: Callable[[Sequence[StoredMessage]], Sequence[NewRows | ChangedRow]] = lambda _: (),
    change: VersionChange | None = None,
) -> CachedSession | None:
    """Write the next version if it only appends messages that answer no call.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        known: The session.
        content: Content of the version.
        build_rows: Function that gets the new messages, and returns the rows beside the version.
        change: Changes beside the transcript. None: only the payload of the content.

    Returns:
        The session after that; None if it is not as it is known, or the version is another one.

    Raises:
        StorageError: A subclass of it says what is wrong with the database.
        NotRepresentable: A message has no exact JSON form.
    """
    before = save_version.parse_version_state(session_id, known.newest)
    built = write_transcript_version.build_next_version_if_append_only(known.row, before, content, change)
    if built is None:
        return None
    end, state, messages = built
    return try_write_version_of_cached_session(
        store, session_id, known, save_version.VersionToWrite(end, state), None, build_rows(messages)
    )


def try_write_version_of_cached_session(
    store: Store,
    session_id: str,
    known: CachedSession,
    content: save_version.VersionToWrite,
    run_id: UUID | None,
    rows: Sequence[NewRows | ChangedRow],
) -> CachedSession | None:
    """Write the next version, which continues from the newest one and answers no call, and rows beside it.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        known: The session.
        content: Content of the version.
        run_id: Run that writes it; None if there is none.
        rows: Rows of the session that are inserted with it.

    Returns:
        The session after that; None if it is not as it is known, and nothing was written.

    Raises:
        StorageError: A subclass of it says what is wrong with the database.
    """
    row, end, state = known.row, content.end, content.state
    if _count_rows_to_write(rows) + len(end.new) > MAX_ROWS:
        return None
    discard_cached_session(store, session_id)
    head = save_version.get_session_transcript_head(row)
    base = SaveBase(row.pk, row.fence, head.segment_id, head.length, head.chain, head.version)
    with database_operation(store.using):
        try:
            version, _ = save_version.write_versions_if_session_at_base(
                store.using, base, [content], run_id, None, revision=row.revision, additional_rows=rows
            )
        except IntegrityError:
            return None
    if version is None:
        return None
    columns = {"plan": state.plan, "budget_spent_usd": state.budget, "usage": state.usage, "payload": state.payload}
    newest = Checkpoint(
        session_id=row.pk,
        version=version,
        run_id=run_id,
        phase=state.phase,
        segment_id=head.segment_id,
        length=end.length,
        chain=end.chain,
        schema_version=SCHEMA_VERSION,
        **columns,
    )
    known = replace(known, newest=newest)
    changes = {"latest_version": version, "message_count": end.length, "head_chain": end.chain}
    return _build_and_cache_changed_session(store, session_id, known, **changes)


def _build_and_cache_changed_session(
    store: Store, session_id: str, known: CachedSession, **changes: Any
) -> CachedSession:
    row = _copy_row_with_changes(known.row, revision=known.row.revision + 1, **changes)
    changed = replace(known, row=row)
    _get_or_create_cached_sessions(store).remember_or_forget(session_id, changed)
    return changed


def _copy_row_with_changes(row: Session, **changes: Any) -> Session:
    """Copy a row with other columns, as `copy.copy` does in several times as long."""
    copied = Session.__new__(Session)
    vars(copied).update(vars(row), **changes)
    return copied


def cache_session_with_added_state(
    store: Store, session_id: str, known: CachedSession, namespace: str, state_id: str, channels: Channels
) -> None:
    """Remember a session with one more state."""
    _get_or_create_cached_sessions(store).remember_or_forget(
        session_id, known.copy_with_added_state(namespace, state_id, channels)
    )
