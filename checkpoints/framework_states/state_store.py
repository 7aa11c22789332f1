"""Store of the states of a foreign framework: written without a lease, under the lock of the session.

A write is refused while a run of another process owns the session, and creates no run itself. Everything of one write,
with the version that shows it, is one transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from checkpoints.calls import framework_interrupt_calls
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import SessionStatus
from checkpoints.exceptions import (
    CheckpointCorrupted,
    InvalidInput,
    OwnershipLost,
    SessionFinished,
    SessionNotFound,
)
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.framework_states import (
    read_and_insert_state_rows,
    write_cached_session_in_one_statement,
    write_transcript_version,
)
from checkpoints.framework_states.write_cached_session_in_one_statement import CachedSession
from checkpoints.framework_states.write_transcript_version import VersionContent, WrittenVersion
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.integrity import quarantine
from checkpoints.models import Checkpoint, FrameworkState, FrameworkWrite, Run, Session
from checkpoints.models.framework_state_blobs_and_writes import NAMESPACE_LENGTH
from checkpoints.seals import row_seals
from checkpoints.sessions import (
    append_without_lease,
    create_finish_release,
    mark_or_require_session_framework,
    take_and_release_ownership,
)
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.call_intent_and_outcome_types import CallIntent
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.versions import (
    opaque_bytes_as_message_differences,
    parse_state_channels_and_collect_digests,
    save_version,
)
from checkpoints.versions.framework_value_blobs import (
    BlobWriter,
    Encoded,
    EncodedValue,
    GrownList,
    NewValue,
    load_encoded_contents_of_writes,
    load_values_by_digest,
)
from checkpoints.versions.opaque_bytes_as_message_differences import ContentColumns
from checkpoints.versions.parse_state_channels_and_collect_digests import Channels

#: Version of a channel: a number or a text of the framework.
ChannelVersion = int | float | str
_PAGE_SIZE = 50
#: Statuses of a session whose framework has asked people, and has not continued since.
_INTERRUPTED_STATUSES = frozenset({SessionStatus.NEEDS_REVIEW, SessionStatus.READY})


@dataclass(frozen=True)
class NewState:
    """State to store.

    Attributes:
        namespace: Part of the session that it belongs to; empty for the root.
        state_id: Identifier, unique in the namespace. Newer ones sort behind older ones.
        parent_id: Identifier of the state before it; empty if there is none.
        run_key: Identifier of the framework's run; empty if there is none.
        body: State without its channels.
        metadata: What the framework stores about it.
        versions: Version of each channel.
        values: Values of the channels that are new in their version. A channel of `changed` without one has none.
        changed: Channels with a new version. The values of the others are those of an earlier state.
        rebuilt: Channels whose values, if they have none here, are rebuilt from the writes of earlier states.
    """

    namespace: str
    state_id: str
    parent_id: str
    run_key: str
    body: Encoded
    metadata: Encoded
    versions: Mapping[str, ChannelVersion]
    values: Mapping[str, NewValue]
    changed: Collection[str]
    rebuilt: Collection[str] = ()


@dataclass(frozen=True)
class NewWrite:
    """Value that a task wrote to a channel. A negative position replaces what is there, others keep the first one."""

    position: int
    channel: str
    value: NewValue


@dataclass(frozen=True)
class LoadedWrite:
    """Stored value that a task wrote to a channel."""

    task_id: str
    task_path: str
    position: int
    channel: str
    value: EncodedValue


@dataclass(frozen=True)
class LoadedState:
    """Stored state, with the values of its channels and the writes after it, by path, task and position.

    `versions` are those of its channels. `known` has the digests of the values that the caller knows and that were not
    read.
    """

    session_id: str
    namespace: str
    state_id: str
    parent_id: str
    body: Encoded
    metadata: Encoded
    versions: dict[str, ChannelVersion]
    values: dict[str, EncodedValue]
    writes: list[LoadedWrite] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)


# writing


@contextmanager
def lock_or_create_session(
    store: Store,
    session_id: str,
    description: NewSessionFields | None,
    *,
    must_own: bool = False,
    mark_changed: bool = False,
    source_ids: Collection[str] = (),
) -> Iterator[tuple[Session, OwnedSession | None]]:
    """Lock a session for a write in one transaction, and create it from `description` if it does not exist.

    With `must_own`, a client that does not own the session any more gets `OwnershipLost`. With `mark_changed`, pages
    notice the change; a version that is written does that too. A session of another framework than that of the
    description is refused. The sessions `source_ids`, whose rows the caller reads or changes, are locked as well, all
    in the order of their identifiers, so that two writers that each read what the other one writes do not wait for each
    other. Raises `SessionNotFound`, `SessionOfOtherFramework`, `SessionFinished`, `SessionBusy`, `OwnershipLost`,
    `OpenedInAnotherProcess`.
    """
    store.require_own_process(session_id)
    store.flush_pending_writes(session_id)
    with (
        quarantine.quarantine_on_integrity_error(store, session_id),
        database_operation(store.using),
        transaction.atomic(using=store.using, savepoint=False),
    ):
        for source_id in sorted(source_ids):
            if source_id < session_id:
                look_up_and_lock_rows.lock_session(store, source_id)
        row = _lock_or_create_session_row(store, session_id, description, mark_changed=mark_changed)
        for source_id in sorted(source_ids):
            if source_id > session_id:
                look_up_and_lock_rows.lock_session(store, source_id)
        _mark_framework_and_require_unfinished(store, row, description)
        save_version.require_session_ends_with_newest_version(store.using, row)
        owned_session = store.find_owned_session(session_id)
        if owned_session is None:
            if must_own:
                raise OwnershipLost(session_id)
            busy = append_without_lease.end_lost_owner_or_find_busy_error(store, row)
            if busy is not None:
                raise busy
        elif row.fence != owned_session.fence:
            raise look_up_and_lock_rows.forget_session_and_build_fence_error(store, owned_session)
        _add_title_if_missing(store, row, description)
        yield row, owned_session
    store.record_last_use_of_session(session_id)


def _mark_framework_and_require_unfinished(store: Store, row: Session, description: NewSessionFields | None) -> None:
    """Require that a locked session has not ended, and is not one of another framework than the description's."""
    if description is not None:
        mark_or_require_session_framework.mark_or_require_session_of_framework(store, row, description.framework)
    if row.finished:
        raise SessionFinished(row.session_id, row.status)


def _lock_or_create_session_row(
    store: Store, session_id: str, description: NewSessionFields | None, *, mark_changed: bool
) -> Session:
    try:
        return look_up_and_lock_rows.lock_session(store, session_id, mark_changed=mark_changed)
    except SessionNotFound:
        if description is None:
            raise
    create_finish_release.create_session_if_missing(store, session_id, description)
    return look_up_and_lock_rows.lock_session(store, session_id)


def _add_title_if_missing(store: Store, row: Session, description: NewSessionFields | None) -> None:
    """Give a session its title once that is known: a framework may write before it knows the first message."""
    if description is not None and not row.title and (title := description.build_columns()["title"]):
        Session.objects.using(store.using).filter(pk=row.pk).update(title=title)


def save_state_and_transcript_version(
    store: Store,
    session_id: str,
    new: NewState,
    *,
    build_content: Callable[[Session], VersionContent | None] | None = None,
    description: NewSessionFields | None = None,
    must_own: bool = False,
    discard_interrupts: Callable[[Session], object] | None = None,
) -> bytes:
    """Store a state, and the version that shows its transcript if that has changed.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        new: The state. One that exists already is replaced.
        build_content: Function that gets the locked session and returns the content of the version. None, or a result
            of None, writes none.
        description: Description of the session if it does not exist. None: it has to exist.
        must_own: Whether only a client that owns the session may write.
        discard_interrupts: Function that gets the locked session, if a person has to decide about a call of it or
            people have decided about all. In the same transaction, it discards the calls that the state leaves without
            an answer, or lets the session be active again.

    Returns:
        The digest of the newest transcript of the session.

    Raises:
        SessionNotFound: There is no such session, and no description.
        SessionFinished: The session has ended.
        SessionBusy: A run of another client owns the session and is alive.
        OwnershipLost: Another run has taken the session from this client.
        GrownListNotStored: A list grows from one that the state before it does not have.
        InvalidInput: A name is too long.
    """
    validate_id("session id", session_id)
    _validate_namespace_and_ids(new.namespace, new.state_id)
    writer = BlobWriter()
    digests = {name: writer.add_value(value) for name, value in new.values.items()}
    if not must_own:
        known = write_cached_session_in_one_statement.find_cached_session_writable_without_run(
            store, session_id, description
        )
        if discard_interrupts is None or known is None or known.row.status not in _INTERRUPTED_STATUSES:
            chain = _try_save_state_of_cached_session(store, known, new, writer, digests, build_content)
            if chain is not None:
                return chain
    chain, is_version_written = _lock_session_and_save_state(
        store, session_id, new, writer, digests, build_content, description, discard_interrupts, must_own=must_own
    )
    if is_version_written:
        store.notify_save_listeners(session_id)
    return chain


def _try_save_state_of_cached_session(
    store: Store,
    known: CachedSession | None,
    new: NewState,
    writer: BlobWriter,
    digests: Mapping[str, str],
    build_content: Callable[[Session], VersionContent | None] | None,
) -> bytes | None:
    """Store a state, and its version, in one statement.

    Returns the digest of the newest transcript; None if that is not possible.
    """
    before = None if known is None else known.channels.get((new.namespace, new.parent_id))
    if known is None or before is None:
        return None
    session_id = known.row.session_id
    _require_bases_of_grown_lists(new, before)
    channels, missing = _split_known_and_missing_channels(new, digests, before)
    if missing:
        return None
    state_row = read_and_insert_state_rows.build_rows_of_states_or_writes(
        FrameworkState, [_build_state_columns(new, channels)]
    )
    content = None if build_content is None else build_content(known.row)
    if content is None:
        rows = [state_row, writer.build_blob_rows()]
        after = write_cached_session_in_one_statement.try_write_rows_of_cached_session(store, session_id, known, rows)
    else:
        after = write_cached_session_in_one_statement.try_write_append_only_version_of_cached_session(
            store,
            session_id,
            known,
            content,
            lambda messages: [state_row, writer.build_blob_rows(messages)],
        )
    if after is None:
        return None
    write_cached_session_in_one_statement.cache_session_with_added_state(
        store, session_id, after, new.namespace, new.state_id, channels
    )
    if content is not None:
        store.notify_save_listeners(session_id)
    return bytes(after.row.head_chain)


def _lock_session_and_save_state(
    store: Store,
    session_id: str,
    new: NewState,
    writer: BlobWriter,
    digests: Mapping[str, str],
    build_content: Callable[[Session], VersionContent | None] | None,
    description: NewSessionFields | None,
    discard_interrupts: Callable[[Session], object] | None,
    *,
    must_own: bool,
) -> tuple[bytes, bool]:
    """Lock or create the session, store a state and its version, and discard interrupts, in one transaction.

    Returns the digest of the newest transcript, and whether a version was written.
    """
    written: WrittenVersion | None = None
    is_shown = build_content is not None
    with lock_or_create_session(store, session_id, description, must_own=must_own, mark_changed=not is_shown) as (
        row,
        owned_session,
    ):
        channels = _insert_or_replace_state_row(store, row, new, digests)
        content = None if build_content is None else build_content(row)
        if content is not None:
            with write_transcript_version.restore_owned_session_head_on_error(owned_session):
                newest = save_version.find_newest_version(store.using, row.pk)
                written = write_transcript_version.write_version_of_content_or_none_if_unchanged(
                    store, row, owned_session, content, newest
                )
        writer.insert_missing_blobs(store.using, row, () if written is None else written.messages)
        if is_shown and written is None:
            look_up_and_lock_rows.increment_session_revision(store, row.pk)
        if discard_interrupts is not None and row.status in _INTERRUPTED_STATUSES:
            discard_interrupts(row)
        write_cached_session_in_one_statement.cache_session_after_commit(
            store, session_id, owned_session, {(new.namespace, new.state_id): channels}
        )
    return bytes(row.head_chain) if written is None else written.chain, written is not None


def _insert_or_replace_state_row(store: Store, row: Session, new: NewState, digests: Mapping[str, str]) -> Channels:
    """Write the row of a state of a locked session. `digests` are those of its values. Returns its channels."""
    known = read_and_insert_state_rows.read_channels_of_states(
        store.using, row, new.namespace, (new.parent_id, new.state_id)
    )
    _require_bases_of_grown_lists(new, known.get(new.parent_id, {}))
    channels = _find_digest_of_each_channel(store, row, new, digests, known.get(new.parent_id, {}))
    columns = _build_state_columns(new, channels)
    if new.state_id in known:
        states = FrameworkState.objects.using(store.using)
        states.filter(session=row, namespace=new.namespace, state_id=new.state_id).update(**columns)
    else:
        read_and_insert_state_rows.insert_rows_of_states_or_writes(store.using, row, FrameworkState, [columns])
    return channels


def _build_state_columns(new: NewState, channels: Channels) -> dict[str, Any]:
    return {
        "namespace": new.namespace,
        "state_id": new.state_id,
        "parent_id": new.parent_id,
        "run_key": new.run_key[:255],
        "body_type": new.body[0],
        "body": new.body[1],
        "metadata_type": new.metadata[0],
        "metadata": new.metadata[1],
        "channels": to_canonical_json(_encode_channel_versions_and_digests(channels, new.rebuilt), "channels"),
    }


class GrownListNotStored(Exception):
    """A list grows from one that the state before it does not have; it has to be stored as a whole."""


def _require_bases_of_grown_lists(new: NewState, before: Channels) -> None:
    stored = {digest for _, digest in before.values()}
    for value in new.values.values():
        if isinstance(value, GrownList) and value.base not in stored:
            raise GrownListNotStored


def _validate_namespace_and_ids(namespace: str, state_id: str) -> None:
    validate_id("state id", state_id)
    if len(namespace) > NAMESPACE_LENGTH:
        raise InvalidInput(f"The namespace {namespace[:40]}… is longer than {NAMESPACE_LENGTH} characters.")


def _find_digest_of_each_channel(
    store: Store, row: Session, new: NewState, digests: Mapping[str, str], before: Channels
) -> Channels:
    """Find the value of each channel: a new one, or that of an earlier state with the same version of the channel.

    A channel of which no state has this version has no value.

    `before` are the channels of the state before it.
    """
    channels, missing = _split_known_and_missing_channels(new, digests, before)
    if missing:
        states = FrameworkState.objects.using(store.using).filter(session=row, namespace=new.namespace)
        for text in states.order_by("-state_id").values_list("channels", flat=True).iterator(chunk_size=_PAGE_SIZE):
            _move_known_channels_out_of_missing(
                channels, missing, parse_state_channels_and_collect_digests.parse_channels(row.session_id, text)
            )
            if not missing:
                break
    return {**channels, **{name: (version, None) for name, version in missing.items()}}


def _split_known_and_missing_channels(
    new: NewState, digests: Mapping[str, str], before: Channels
) -> tuple[Channels, dict[str, ChannelVersion]]:
    """Return the channels that are new or as in the state `before`, and the versions of the others."""
    changed = set(new.changed)
    channels: Channels = {name: (new.versions[name], digests.get(name)) for name in changed if name in new.versions}
    missing = {name: version for name, version in new.versions.items() if name not in changed}
    _move_known_channels_out_of_missing(channels, missing, before)
    return channels, missing


def _move_known_channels_out_of_missing(
    channels: Channels, missing: dict[str, ChannelVersion], known: Channels
) -> None:
    """Add known channels of the missing versions to `channels`, and remove them from `missing`, both in place."""
    for name in [name for name, version in missing.items() if name in known and known[name][0] == version]:
        channels[name] = known[name]
        del missing[name]


def _encode_channel_versions_and_digests(channels: Channels, rebuilt: Collection[str]) -> dict[str, list[Any]]:
    return {
        name: [version, digest, True] if digest is None and name in rebuilt else [version, digest]
        for name, (version, digest) in channels.items()
    }


def save_task_writes_and_interrupt_calls(
    store: Store,
    session_id: str,
    namespace: str,
    state_id: str,
    task_id: str,
    task_path: str,
    writes: Sequence[NewWrite],
    *,
    description: NewSessionFields | None = None,
    requests: Sequence[CallIntent] = (),
    must_own: bool = False,
    withdraw_calls: Callable[[Session], object] | None = None,
) -> None:
    """Store what a task wrote after a state, log the calls that it asks people about, and withdraw those that it has
    answered.

    `withdraw_calls` is a function that gets the locked session, if a person has to decide about a call of it, and
    withdraws the calls that the task has answered, in the same transaction. Raises what
    `save_state_and_transcript_version` raises.
    """
    validate_id("session id", session_id)
    validate_id("task id", task_id)
    _validate_namespace_and_ids(namespace, state_id)
    writer = BlobWriter()
    by_position = {write.position: _add_value_and_build_write_columns(write, writer) for write in writes}
    task_columns = {"namespace": namespace, "state_id": state_id, "task_id": task_id}
    if not (requests or must_own):
        known = write_cached_session_in_one_statement.find_cached_session_writable_without_run(
            store, session_id, description
        )
        has_undecided_calls = known is not None and known.row.status == SessionStatus.NEEDS_REVIEW
        if (withdraw_calls is None or not has_undecided_calls) and _try_save_writes_of_cached_session(
            store, known, task_columns, task_path, by_position, writer
        ):
            return
    with lock_or_create_session(store, session_id, description, must_own=must_own, mark_changed=True) as (
        row,
        owned_session,
    ):
        writer.insert_missing_blobs(store.using, row)
        stored = read_and_insert_state_rows.read_task_writes_to_replace_or_keep(
            store.using, row, **task_columns, positions=by_position
        )
        for position, write in stored.items():
            columns = by_position[position]
            if position < 0 and (write.channel, write.digest) != (columns["channel"], columns["digest"]):
                rows = FrameworkWrite.objects.using(store.using).filter(pk=write.pk)
                rows.update(task_path=task_path, **columns)
        added = [
            {"position": position, "task_path": task_path, **task_columns, **columns}
            for position, columns in sorted(by_position.items(), key=itemgetter(0))
            if position not in stored
        ]
        read_and_insert_state_rows.insert_rows_of_states_or_writes(store.using, row, FrameworkWrite, added)
        if requests:
            framework_interrupt_calls.insert_or_update_interrupt_calls(
                store, row, requests, lambda: _get_or_create_run_of_interrupt(store, row, owned_session)
            )
        if withdraw_calls is not None and row.status == SessionStatus.NEEDS_REVIEW:
            withdraw_calls(row)
        if not requests:
            write_cached_session_in_one_statement.cache_session_after_commit(store, session_id, owned_session, {})
    if requests:
        write_cached_session_in_one_statement.discard_cached_session(store, session_id)
        store.notify_save_listeners(session_id)


def _try_save_writes_of_cached_session(
    store: Store,
    known: CachedSession | None,
    task_columns: Mapping[str, str],
    task_path: str,
    by_position: Mapping[int, Mapping[str, Any]],
    writer: BlobWriter,
) -> bool:
    """Store what a task wrote in one statement. Returns whether that was possible."""
    if known is None or not by_position or min(by_position) < 0:
        return False
    writes = [
        {"position": position, "task_path": task_path, **task_columns, **columns}
        for position, columns in sorted(by_position.items(), key=itemgetter(0))
    ]
    rows = [read_and_insert_state_rows.build_rows_of_states_or_writes(FrameworkWrite, writes), writer.build_blob_rows()]
    after = write_cached_session_in_one_statement.try_write_rows_of_cached_session(
        store, known.row.session_id, known, rows
    )
    return after is not None


def _add_value_and_build_write_columns(write: NewWrite, writer: BlobWriter) -> dict[str, Any]:
    """Build the columns of a write, whose value is added to `writer`; the root of a list is in the row of the write."""
    digest, root = writer.add_value_and_pop_list_root(write.value)
    content = (
        ContentColumns("", None, False)
        if root is None
        else opaque_bytes_as_message_differences.build_content_columns(*root)
    )
    return {"channel": write.channel, "digest": digest, **content._asdict()}


def _get_or_create_run_of_interrupt(store: Store, row: Session, owned_session: OwnedSession | None) -> Run:
    """Return the run that asks: the owner, or one that has ended. Interrupts that wait together share that."""
    if owned_session is not None:
        return owned_session.run
    return framework_interrupt_calls.find_newest_run_if_interrupt_is_undecided(
        store, row
    ) or take_and_release_ownership.create_ended_run(store, row)


def load_value_of_task_write(
    store: Store, row: Session, namespace: str, state_id: str, task_id: str, position: int
) -> EncodedValue | None:
    """Load what a task wrote at a position; None if it wrote nothing there. Raises what `load_state` raises."""
    writes = FrameworkWrite.objects.using(store.using).filter(session=row)
    write = writes.filter(namespace=namespace, state_id=state_id, task_id=task_id, position=position).first()
    if write is None:
        return None
    write.session = row
    row_seals.verify_row(write)
    known = load_encoded_contents_of_writes(store.using, row, [write])
    return load_values_by_digest(store.using, row, [write.digest], known)[write.digest]


def load_values_of_channel_writes_since_state(
    store: Store, row: Session, channel: str, state_id: str
) -> list[EncodedValue]:
    """Load what the tasks of a state and of all later ones wrote to a channel. Raises what `load_state` raises.

    Args:
        store: State of the client.
        row: Session.
        channel: Name of the channel.
        state_id: Identifier of the first state, whether it is stored or not.
    """
    found = FrameworkWrite.objects.using(store.using).filter(session=row, channel=channel, state_id__gte=state_id)
    writes = list(found)
    for write in writes:
        write.session = row
        row_seals.verify_row(write)
    known = load_encoded_contents_of_writes(store.using, row, writes)
    values = load_values_by_digest(store.using, row, [write.digest for write in writes], known)
    return [values[write.digest] for write in writes]


# reading


def load_state(
    store: Store, session_id: str, namespace: str, state_id: str | None, *, known: Collection[str] = ()
) -> LoadedState | None:
    """Load one state.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        namespace: Part of the session.
        state_id: Identifier of the state. None: the newest one.
        known: Digests of values that the caller knows, which are not read.

    Returns:
        The state; None if there is none.

    Raises:
        IntegrityError: The row is not one that this library wrote.
        CheckpointCorrupted: A value is missing or altered.
    """
    with quarantine.quarantine_on_integrity_error(store, session_id), database_operation(store.using, writes=False):
        place = (store.workspace_id, session_id)
        while found := read_and_insert_state_rows.list_state_with_writes_by_id_or_newest(
            store.using, place, namespace, state_id
        ):
            ((row, writes),) = found
            try:
                return _load_states_of_rows(store, [row], writes, frozenset(known))[0]
            except CheckpointCorrupted:
                if FrameworkState.objects.using(store.using).filter(pk=row.pk).exists():
                    raise
    return None


def has_newer_state(store: Store, session_id: str, namespace: str, state_id: str) -> bool:
    """Return whether a namespace of a session has a state that is newer than one."""
    with database_operation(store.using, writes=False):
        states = FrameworkState.objects.using(store.using).filter(
            session__workspace=store.workspace_id, session__session_id=session_id, namespace=namespace
        )
        return states.filter(state_id__gt=state_id).exists()


def has_state(store: Store, session_id: str, namespace: str, state_id: str) -> bool:
    """Return whether a state is stored.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        namespace: Namespace of the state.
        state_id: Identifier of the state.

    Returns:
        True if it is.
    """
    with database_operation(store.using, writes=False):
        place = {"session__workspace": store.workspace_id, "session__session_id": session_id}
        states = FrameworkState.objects.using(store.using).filter(**place, namespace=namespace, state_id=state_id)
        return states.exists()


def find_version_showing_state(
    store: Store, session_id: str, namespace: str, state_id: str, read_state_id: Callable[[str], str]
) -> int | None:
    """Find the version that shows the messages of a state: its own, or that of the nearest state before it.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        namespace: Namespace of the state.
        state_id: Identifier of the state.
        read_state_id: Function that reads, from the JSON text of the payload of a version, which state of the
            namespace it shows; empty if it shows none.

    Returns:
        The number of the version; 0 if no version shows the state, None if the state is not stored.
    """
    with database_operation(store.using, writes=False):
        place = {"session__workspace": store.workspace_id, "session__session_id": session_id}
        states = FrameworkState.objects.using(store.using).filter(**place, namespace=namespace)
        parents = dict[str, str](states.filter(state_id=state_id).values_list("state_id", "parent_id"))
        if not parents:
            return None
        versions = Checkpoint.objects.using(store.using).filter(**place).exclude(payload=None).order_by("-version")
        for version, payload in versions.values_list("version", "payload").iterator(chunk_size=_PAGE_SIZE):
            shown = read_state_id(payload or "")
            while shown and state_id > shown:
                if state_id not in parents:
                    page = states.filter(state_id__lte=state_id).order_by("-state_id")[:_PAGE_SIZE]
                    parents.update(page.values_list("state_id", "parent_id"))
                state_id = parents.get(state_id, "")
            if not state_id or state_id == shown:
                return version if state_id else 0
    return 0


def iterate_states(
    store: Store,
    session_id: str | None = None,
    namespace: str | None = None,
    *,
    state_id: str | None = None,
    before: str | None = None,
    matches: Callable[[Encoded], bool] | None = None,
    limit: int | None = None,
) -> Iterator[LoadedState]:
    """Iterate over states, newest first.

    Args:
        store: State of the client.
        session_id: Identifier of the session. None: those of all sessions of the workspace.
        namespace: Only states of this namespace. None: of all.
        state_id: Only this state.
        before: Only states that are older than the one of this identifier.
        matches: Condition on the metadata.
        limit: Largest number of states. None: all.

    Raises:
        IntegrityError: A row is not one that this library wrote.
        CheckpointCorrupted: A value is missing or altered.
    """
    with (
        quarantine.quarantine_on_error_of_any_session(store)
        if session_id is None
        else quarantine.quarantine_on_integrity_error(store, session_id)
    ):
        yield from _iterate_verified_states_newest_first(
            store, session_id, namespace, state_id=state_id, before=before, matches=matches, limit=limit
        )


def _iterate_verified_states_newest_first(
    store: Store,
    session_id: str | None,
    namespace: str | None,
    *,
    state_id: str | None,
    before: str | None,
    matches: Callable[[Encoded], bool] | None,
    limit: int | None,
) -> Iterator[LoadedState]:
    states = select_states(store, session_id, namespace).order_by("-state_id", "-pk")
    if state_id is not None:
        states = states.filter(state_id=state_id)
    if before is not None:
        states = states.filter(state_id__lt=before)
    with database_operation(store.using, writes=False):
        if matches is None:
            wanted = list(states.values_list("pk", flat=True)[:limit])
        else:
            rows = states.values_list("pk", "metadata_type", "metadata").iterator(chunk_size=_PAGE_SIZE)
            found = (pk for pk, type_, metadata in rows if matches((type_, bytes(metadata))))
            wanted = list(islice(found, limit))
    for start in range(0, len(wanted), _PAGE_SIZE):
        page = wanted[start : start + _PAGE_SIZE]
        with database_operation(store.using, writes=False):
            found_states = list(states.filter(pk__in=page))
            for session in {state.session_id: state.session for state in found_states}.values():
                look_up_and_lock_rows.verify_session_seal_and_name(session, session_id or session.session_id)
            found_writes = read_and_insert_state_rows.read_writes_of_states_in_any_namespace(store.using, found_states)
            loaded = _load_states_of_rows(store, found_states, found_writes)
        yield from loaded


def select_states(store: Store, session_id: str | None, namespace: str | None) -> QuerySet[FrameworkState]:
    states = FrameworkState.objects.using(store.using).select_related("session")
    states = states.filter(session__workspace=store.workspace_id)
    if session_id is not None:
        states = states.filter(session__session_id=session_id)
    return states if namespace is None else states.filter(namespace=namespace)


def _load_states_of_rows(
    store: Store,
    rows: Sequence[FrameworkState],
    read_writes: Sequence[FrameworkWrite],
    known: frozenset[str] = frozenset(),
) -> list[LoadedState]:
    """Load states. `read_writes` are the writes after them, and maybe others."""
    row_seals.verify_rows(rows)
    writes = _verify_and_group_writes_by_state_pk(rows, read_writes)
    channels = {
        row.pk: parse_state_channels_and_collect_digests.parse_channels(row.session.session_id, row.channels)
        for row in rows
    }
    values: dict[int, dict[str, EncodedValue]] = {}
    for session in {row.session_id: row.session for row in rows}.values():
        wanted = {
            digest
            for row in rows
            if row.session_id == session.pk
            for digest in (
                *({digest for _, digest in channels[row.pk].values() if digest is not None} - known),
                *(write.digest for write in writes[row.pk]),
            )
        }
        own_writes = [write for row in rows if row.session_id == session.pk for write in writes[row.pk]]
        stored = load_encoded_contents_of_writes(store.using, session, own_writes)
        values[session.pk] = load_values_by_digest(store.using, session, wanted, stored)
    return [_build_loaded_state(row, channels[row.pk], writes[row.pk], values[row.session_id]) for row in rows]


def _verify_and_group_writes_by_state_pk(
    rows: Sequence[FrameworkState], writes: Iterable[FrameworkWrite]
) -> dict[int, list[FrameworkWrite]]:
    by_place: defaultdict[tuple[int, str, str], list[FrameworkWrite]] = defaultdict(list)
    for write in writes:
        row_seals.verify_row(write)
        by_place[write.session_id, write.namespace, write.state_id].append(write)
    for of_place in by_place.values():
        of_place.sort(key=lambda write: (write.task_path, write.task_id, write.position))
    return {row.pk: by_place[row.session_id, row.namespace, row.state_id] for row in rows}


def _build_loaded_state(
    row: FrameworkState, channels: Channels, writes: Iterable[FrameworkWrite], values: Mapping[str, EncodedValue]
) -> LoadedState:
    stored = {name: digest for name, (_, digest) in channels.items() if digest is not None}
    return LoadedState(
        row.session.session_id,
        row.namespace,
        row.state_id,
        row.parent_id,
        (row.body_type, bytes(row.body)),
        (row.metadata_type, bytes(row.metadata)),
        {name: version for name, (version, _) in channels.items()},
        {name: values[digest] for name, digest in stored.items() if digest in values},
        [
            LoadedWrite(write.task_id, write.task_path, write.position, write.channel, values[write.digest])
            for write in writes
        ],
        {name: digest for name, digest in stored.items() if digest not in values},
    )


def write_version_of_transcript_if_changed(store: Store, session_id: str, content: VersionContent) -> None:
    """Write the version that shows a transcript, if that has changed.

    Raises what `save_state_and_transcript_version` raises.
    """
    with lock_or_create_session(store, session_id, None) as (row, owned_session):
        newest = save_version.find_newest_version(store.using, row.pk)
        written = write_transcript_version.write_version_of_content_or_none_if_unchanged(
            store, row, owned_session, content, newest
        )
    if written is not None:
        store.notify_save_listeners(session_id)
