"""Messages of a session as a list that any process appends to and takes from, without a lease.

Each change is the next version, in one transaction under the lock of the session, so that no two processes append in
the same place or take the same message. Nothing is overwritten: what is taken stays in the earlier versions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from checkpoints.calls import framework_interrupt_calls
from checkpoints.enums import SessionStatus
from checkpoints.formats.tool_calls_in_messages import is_answer_without_calls
from checkpoints.framework_states import state_store, write_cached_session_in_one_statement, write_transcript_version
from checkpoints.framework_states.write_transcript_version import VersionContent
from checkpoints.models import Checkpoint, Session
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store.database_client_state import Store
from checkpoints.store.replayed_call_matching import OpenOperations
from checkpoints.versions import load_version, save_version


def list_messages_of_newest_version(store: Store, session_id: str, limit: int | None = None) -> list[dict[str, Any]]:
    """List the messages of the newest version in order.

    Args:
        store: State of the client.
        session_id: Identifier of the session. One that does not exist has no messages.
        limit: Number of messages, the newest ones. None: all.

    Returns:
        The messages, oldest first.

    Raises:
        CheckpointCorrupted: A stored message cannot be read.
    """
    if limit == 0:
        return []
    loaded = (
        load_version.load_latest_version(store, session_id)
        if limit is None
        else load_version.load_latest_version_with_last_messages(store, session_id, limit)
    )
    return [] if loaded is None else list(loaded["transcript"])


def remove_and_return_last_message(
    store: Store, session_id: str, description: NewSessionFields
) -> dict[str, Any] | None:
    """Remove the newest message by a version without it. Two callers never get the same one.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        description: Description of the session if it does not exist.

    Returns:
        The message; None if there is none.

    Raises:
        SessionFinished: The session has ended.
        SessionBusy: A run of another client owns the session and is alive.
        OwnershipLost: Another run has taken the session from this client.
    """
    taken: list[dict[str, Any]] = []

    def build_version_without_last_message(row: Session, newest: Checkpoint | None) -> VersionContent | None:
        if not row.message_count:
            return None
        taken.extend(list_messages_of_newest_version(store, session_id, 1))
        return VersionContent(None, keep=row.message_count - 1)

    write_next_version_built_by_callback(store, session_id, description, build_version_without_last_message)
    return taken[0] if taken else None


def remove_all_messages(store: Store, session_id: str, description: NewSessionFields) -> None:
    """Remove all messages by a version without them, as `remove_and_return_last_message` removes one."""
    write_next_version_built_by_callback(
        store, session_id, description, lambda row, _: VersionContent(None, keep=0) if row.message_count else None
    )


def write_next_version_built_by_callback(
    store: Store,
    session_id: str,
    description: NewSessionFields,
    build: Callable[[Session, Checkpoint | None], VersionContent | None],
    *,
    is_repeatable: bool = False,
    facts: Mapping[str, str] | None = None,
    pairings: OpenOperations | None = None,
    source_ids: Collection[str] = (),
) -> None:
    """Write the version that a function says, in one transaction under the lock of the session.

    A version that only appends to a session that nobody has changed since this client's last write needs no lock.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        description: Description of the session if it does not exist.
        build: Function that gets the locked session and its newest version, and returns the content; None writes
            nothing.
        is_repeatable: Whether the function writes nothing, so that it may be called for the session as it is known, and
            again under the lock.
        facts: What the function has found under the lock, for `try_append_to_cached_session`.
        pairings: Operations that the calls of the client's last run had, if it has released the session since.
        source_ids: Identifiers of other sessions that the function reads or changes, which are locked too.

    Raises:
        SessionFinished: The session has ended.
        SessionBusy: A run of another client owns the session and is alive.
        OwnershipLost: Another run has taken the session from this client.
        NotRepresentable: A message has no exact JSON form.
        TooLarge: A message is larger than its limit.
    """
    if is_repeatable and try_append_to_cached_session(store, session_id, description, build):
        return
    written = None
    with state_store.lock_or_create_session(store, session_id, description, source_ids=source_ids) as (
        row,
        owned_session,
    ):
        newest = save_version.find_newest_version(store.using, row.pk)
        content = build(row, newest)
        if content is not None:
            with write_transcript_version.restore_owned_session_head_on_error(owned_session):
                written = write_transcript_version.write_version_of_content_or_none_if_unchanged(
                    store, row, owned_session, content, newest, pairings
                )
            if written is not None and owned_session is None and row.status == SessionStatus.READY:
                _activate_session_if_turn_has_ended(store, row, content)
        if is_repeatable or facts:
            write_cached_session_in_one_statement.cache_session_after_commit(
                store, session_id, owned_session, {}, facts
            )
    if written is not None:
        store.notify_save_listeners(session_id)


def _activate_session_if_turn_has_ended(store: Store, row: Session, content: VersionContent) -> None:
    """Set a session to active in which an agent has ended a turn since people decided, without a run at the gate.

    Its program has asked something new instead of resuming, or the framework has told the model what was decided.
    """
    added = content.added if content.transcript is None else content.transcript
    if added and is_answer_without_calls(added[-1]):
        framework_interrupt_calls.activate_session_if_no_approval_unused(store, row)


def try_append_to_cached_session(
    store: Store,
    session_id: str,
    description: NewSessionFields,
    build: Callable[[Session, Checkpoint | None], VersionContent | None],
    facts: Mapping[str, str] | None = None,
) -> bool:
    """Write the version that a function says in one statement, if nobody has changed the session since the last write.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        description: Description of the session if it does not exist.
        build: Function that gets the session and its newest version as they are known, writes nothing, and returns the
            content.
        facts: What an earlier write of this client has to have found in the session, by names that no other adapter
            uses, and what only a write to the session changes.

    Returns:
        Whether it was written. It has to be done under the lock of the session otherwise.

    Raises:
        NotRepresentable: A message has no exact JSON form.
        TooLarge: A message is larger than its limit.
        StorageError: A subclass of it says what is wrong with the database.
    """
    known = write_cached_session_in_one_statement.find_cached_session_writable_without_run(
        store, session_id, description
    )
    if known is None or not (facts or {}).items() <= known.facts.items():
        return False
    if known.row.status == SessionStatus.READY:  # an answer of the model makes it active
        return False
    content = build(known.row, known.newest)
    if content is None:
        return False
    after = write_cached_session_in_one_statement.try_write_append_only_version_of_cached_session(
        store, session_id, known, content
    )
    if after is not None:
        store.notify_save_listeners(session_id)
    return after is not None
