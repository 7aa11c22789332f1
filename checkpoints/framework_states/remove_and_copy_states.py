"""Removal of the states of a session, with what only they need, and copies of them in another session."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.exceptions import SessionExists, SessionNotFound
from checkpoints.framework_states import state_store, write_transcript_version
from checkpoints.framework_states.write_transcript_version import VersionContent
from checkpoints.integrity import quarantine, verify_session_rows
from checkpoints.models import Blob, FrameworkState, FrameworkWrite
from checkpoints.seals import row_seals
from checkpoints.sessions import (
    mark_or_require_session_framework,
    prune_versions_and_delete_sessions,
    take_and_release_ownership,
    unneeded_framework_state_removal,
)
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.database_client_state import Store
from checkpoints.versions import opaque_bytes_as_message_differences, save_version


def delete_selected_states(
    store: Store,
    session_id: str,
    select: Callable[[Sequence[FrameworkState]], Collection[FrameworkState]] | None = None,
) -> int:
    """Delete states with their writes, and the blobs that nothing reaches any more.

    Args:
        store: State of the client.
        session_id: Identifier of the session. One that does not exist has no states.
        select: Function that gets all states of the session, newest first, and returns those to delete. None deletes
            all, and writes that belong to none.

    Returns:
        The number of deleted states.

    Raises:
        SessionBusy: A run of another client owns the session and is alive.
        OwnershipLost: Another run has taken the session from this client.
        SessionFinished: The session has ended.
        IntegrityError, SealKeyMissing: A row of the session is not as it was written; nothing is deleted.
    """
    try:
        with state_store.lock_or_create_session(store, session_id, None) as (row, _):
            states = list(FrameworkState.objects.using(store.using).filter(session=row).order_by("-state_id"))
            chosen = states if select is None else select(states)
            if chosen or select is None:
                verify_session_rows.require_session_unaltered(store.using, row)
            if select is None:
                FrameworkWrite.objects.using(store.using).filter(session=row).delete()
            unneeded_framework_state_removal.delete_states_with_writes_and_blobs(store.using, row, chosen)
            look_up_and_lock_rows.increment_session_revision(store, row.pk)
            return len(chosen)
    except SessionNotFound:
        return 0


def delete_superseded_states(store: Store, session_id: str) -> int:
    """Delete all states but the newest of each namespace, and those from which its values are rebuilt.

    Returns the number of deleted states. Raises what `delete_selected_states` raises.
    """
    return delete_selected_states(
        store,
        session_id,
        lambda states: unneeded_framework_state_removal.list_unneeded_states(session_id, states, lambda _: False),
    )


def find_session_ids_of_framework_runs(store: Store, run_keys: Collection[str]) -> list[str]:
    """Return the ids of the sessions that have states of these runs of the framework."""
    with database_operation(store.using, writes=False):
        states = (
            FrameworkState.objects.using(store.using)
            .filter(session__workspace=store.workspace_id, run_key__in=list(run_keys))
            .exclude(run_key="")
        )
        return list(states.values_list("session__session_id", flat=True).distinct())


def release_and_delete_session(store: Store, session_id: str) -> None:
    """Delete a session with everything in it. One that does not exist is deleted already.

    Raises:
        StillNeeded: A run of another client drives it, or a person has to decide.
    """
    owned_session = store.find_owned_session(session_id)
    if owned_session is not None:
        take_and_release_ownership.release_ownership_if_still_owner(store, owned_session)
    try:
        prune_versions_and_delete_sessions.delete_session(store, session_id)
    except SessionNotFound:
        return


def copy_states_to_session(
    store: Store, source_id: str, target_id: str, build_content: Callable[[], VersionContent | None] = lambda: None
) -> None:
    """Copy all states, writes and blobs of a session into another one, which is created if it does not exist.

    Both sessions are locked, so that a copy has everything that one of its states names.

    Args:
        store: State of the client.
        source_id: Identifier of the session to copy from.
        target_id: Identifier of the session to copy to.
        build_content: Function that loads the copied states, and returns the content of the version that shows their
            transcript, which is written in the same transaction; None writes none.

    Raises:
        SessionNotFound: There is no such source.
        SessionExists: The target has states already.
        SessionBusy: A run of another client owns the target and is alive.
        IntegrityError: A row of the source is missing or was altered.
    """
    with database_operation(store.using, writes=False):
        source = look_up_and_lock_rows.get_session(store, source_id)
    description = NewSessionFields(
        title=source.title, agent=source.agent, framework=mark_or_require_session_framework.get_framework(source)
    )
    with (
        quarantine.quarantine_on_integrity_error(store, source_id),
        state_store.lock_or_create_session(store, target_id, description, source_ids=[source_id]) as (target, owned),
    ):
        verify_session_rows.lock_session_and_require_rows_complete(store.using, source)
        if FrameworkState.objects.using(store.using).filter(session=target).exists():
            raise SessionExists(target_id)
        for model in (Blob, FrameworkState, FrameworkWrite):
            copies: list[Any] = []
            rows: list[Any] = list(model._default_manager.using(store.using).filter(session=source).order_by("pk"))
            for row in rows:
                if not isinstance(row, Blob):
                    row_seals.verify_row(row)
            if model is not FrameworkState:
                opaque_bytes_as_message_differences.complete_differences_in_place(store.using, rows)
            for row in rows:
                values = {item.attname: getattr(row, item.attname) for item in model._meta.concrete_fields}
                values |= {"id": None, "session_id": target.pk}
                values.pop("row_seal", None)
                copies.append(model(**values))
            model._default_manager.using(store.using).bulk_create(copies, batch_size=100)
        look_up_and_lock_rows.increment_session_revision(store, target.pk)
        content = build_content()
        if content is not None:
            with write_transcript_version.restore_owned_session_head_on_error(owned):
                newest = save_version.find_newest_version(store.using, target.pk)
                write_transcript_version.write_version_of_content_or_none_if_unchanged(
                    store, target, owned, content, newest
                )
    store.notify_save_listeners(target_id)
