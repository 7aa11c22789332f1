"""Seals of versions and their messages, and the verification of a transcript that was read.

The chain of a message is a digest of it and of all messages before it, and the seal of a version covers the chain of
its last message. So a version whose seal matches, and whose bodies give its chain, has exactly the messages that were
saved. The seal of a message covers its chain too: a window of a long transcript is verified by itself.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import QuerySet

from checkpoints.db import clock
from checkpoints.db.batched_row_iteration import iterate_rows_read_in_batches
from checkpoints.db.hot_statements import AnsweredCall, NewMessage, NewVersion, SaveBase
from checkpoints.exceptions import IntegrityError
from checkpoints.formats import digests
from checkpoints.models import Checkpoint, Message, Segment, Session
from checkpoints.seals import row_seals, session_heads
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.seals.session_heads import SessionHead
from checkpoints.store import optimistic_lock_on_sealed_heads
from checkpoints.versions import read_messages_along_segments

#: Number of messages that are verified at once.
_BATCH_SIZE = 100
_MESSAGE_TABLE = Message._meta.db_table


def build_version_with_seals(
    base: SaveBase,
    number: int,
    columns: Mapping[str, Any],
    messages: Sequence[NewMessage],
    answered: Sequence[AnsweredCall],
) -> NewVersion:
    """Build version `number` after `base`, with its seal and those of its messages if sealing is on."""
    keys = get_seal_keys()
    if keys is None:
        return NewVersion(messages, columns, answered)
    values = {"created_at": clock.now(), **columns}
    place, segment = {"session": base.session_pk, "version": number}, base.segment_id
    seal = row_seals.get_row_sealer_of_key(keys.current, Message).compute_seal_of_ordered_values
    message_seals = [seal((segment, *message[:4], message.chain)) for message in messages]
    values["row_seal"] = row_seals.get_row_sealer_of_key(keys.current, Checkpoint).compute_seal_of_named_values(
        {**values, **place}
    )
    return NewVersion(messages, values, answered, message_seals)


def compute_and_record_head_expected_after_versions(
    head: SessionHead | None, number: int, versions: Sequence[NewVersion], difference: int
) -> SessionHead | None:
    """Return the head of a session after new versions, which the save has to write; None if sealing is off.

    Args:
        head: Head before; None if sealing is off.
        number: Number of the version before the new ones.
        versions: The new versions, with their seals.
        difference: What the save adds to the sum of rows beside the versions.
    """
    keys = get_seal_keys()
    if head is None or keys is None:
        return None
    for version in versions:
        difference += session_heads.compute_row_sum_term(keys, Checkpoint, version.checkpoint_values["row_seal"])
    newest = {
        "latest_version": number + len(versions),
        "newest_seal": versions[-1].checkpoint_values["row_seal"],
    }
    return optimistic_lock_on_sealed_heads.compute_and_record_expected_head(head, difference, newest)


def require_version_is_newest_and_ends_transcript(session: Session, newest: Checkpoint | None) -> None:
    """Require that a version is the newest one of a session, and that the transcript of the session ends as it does.

    A session says where its transcript ends in columns that have no seal, because the newest version has them too.
    Nothing for a session without a seal.

    Args:
        session: The session.
        newest: Its newest version, read while nobody could write to the session; None if there is none.

    Raises:
        IntegrityError: The session names another version, its transcript ends elsewhere, or it has no version and
            either messages or no segment of its own, which the library never writes.
    """
    if get_seal_keys() is None or not session.row_seal:
        return
    newest_seal = None if newest is None or newest.row_seal is None else bytes(newest.row_seal)
    if newest_seal != (None if session.newest_seal is None else bytes(session.newest_seal)):
        raise session_heads.build_newest_version_mismatch_error(session.session_id)
    end = (session.message_count, bytes(session.head_chain))
    if newest is None:
        is_same, why = end == (0, digests.EMPTY_CHAIN), "it has messages and no version"
        if is_same and session.head_segment_id is not None:
            segments = Segment.objects.using(session._state.db).filter(pk=session.head_segment_id, session=session)
            is_same, why = segments.exists(), "its transcript is in a segment that is missing or of another session"
    else:
        row_seals.verify_row(newest)
        is_same = (session.head_segment_id, *end) == (newest.segment_id, newest.length, bytes(newest.chain))
        why = "its transcript does not end as its newest version does"
    if not is_same:
        raise IntegrityError(Session._meta.db_table, row_seals.describe_row(session), why)


class VerifiedTranscripts:
    """Beginnings of transcripts that this process has verified, so that the next load verifies only what is new.

    What was read again is compared with the kept text, never trusted. Bounded by characters; the least recently used
    are forgotten first. Safe to use from many threads.
    """

    def __init__(self, limit: int = 16_000_000) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        #: Texts of the messages, their number of characters and the chain after them, by connection and segment.
        self._known: OrderedDict[tuple[str, int], tuple[list[str], int, bytes]] = OrderedDict()
        self._size = 0

    def get_verified_length_and_chain(self, place: tuple[str, int], bodies: Sequence[str]) -> tuple[int, bytes]:
        """Return how many of the first messages are verified already, and the chain after them."""
        with self._lock:
            known = self._known.get(place)
            if known is not None:
                self._known.move_to_end(place)
        if known is None or list(bodies[: len(known[0])]) != known[0]:
            return 0, digests.EMPTY_CHAIN
        return len(known[0]), known[2]

    def add_transcript(self, place: tuple[str, int], bodies: Sequence[str], chain: bytes) -> None:
        size = sum(map(len, bodies))
        with self._lock:
            self._size += size - self._known.pop(place, ([], 0, b""))[1]
            self._known[place] = (list(bodies), size, chain)
            while self._size > self._limit:
                _, (_, forgotten, _) = self._known.popitem(last=False)
                self._size -= forgotten

    def clear(self) -> None:
        with self._lock:
            self._known.clear()
            self._size = 0


verified_transcripts = VerifiedTranscripts()


def verify_transcript(
    connection: BaseDatabaseWrapper, segment_id: int, bodies: Sequence[str], first: int, chain: bytes
) -> None:
    """Verify that `bodies`, the messages from position `first` on, end with `chain`. Nothing if sealing is off.

    The stored chain before them needs no proof: with another one they could not end with `chain`. Raises
    `IntegrityError` naming the message.
    """
    if get_seal_keys() is None or not bodies:
        return
    place, known = (connection.alias, segment_id), 0
    if first == 0:
        known, previous = verified_transcripts.get_verified_length_and_chain(place, bodies)
    else:
        previous = _read_chain_of_preceding_message(connection, segment_id, first)
    if digests.compute_last_hash_chain(bodies[known:] if known else bodies, previous) != chain:
        _raise_error_of_first_mismatch(connection, segment_id, bodies, first)
    if first == 0 and known < len(bodies):
        verified_transcripts.add_transcript(place, bodies, chain)


def verify_consecutive_messages(connection: BaseDatabaseWrapper, segment_id: int, messages: Sequence[Message]) -> None:
    """Verify consecutive messages of the transcript that ends in a segment, each by its own seal and chain.

    Nothing if sealing is off. Raises `IntegrityError` naming the message.
    """
    if get_seal_keys() is None or not messages:
        row_seals.verify_rows(messages)
        return
    previous = _read_chain_of_preceding_message(connection, segment_id, messages[0].position)
    for position, message in enumerate(messages, messages[0].position):
        verify_message(message, position, previous)
        previous = bytes(message.chain)


def read_chains_before_messages(
    connection: BaseDatabaseWrapper, messages: Iterable[Message]
) -> dict[tuple[int, int], Any]:
    """Read the stored chains of the messages before some, in one statement.

    Returns them by the segment and the position of the latter, as far as they are in the same segment.
    """
    stored: set[tuple[Any, Any]] = {(message.segment_id, message.position) for message in messages}
    places = {
        (segment, position - 1)
        for segment, position in stored  # SQLite may have other values than numbers
        if isinstance(segment, int) and isinstance(position, int) and position > 0
    }
    rows = read_messages_along_segments.read_chains_at_places(connection, sorted(places))
    return {(segment, position + 1): chain for segment, position, chain in rows}


def verify_nonconsecutive_message(
    connection: BaseDatabaseWrapper, message: Message, chains: Mapping[tuple[int, int], Any]
) -> None:
    """Verify a message as `verify_consecutive_messages` does, with chains of `read_chains_before_messages`."""
    previous = chains.get((message.segment_id, message.position))
    if previous is None:  # it is the first one of its segment
        previous = _read_chain_of_preceding_message(connection, message.segment_id, message.position)
    verify_message(message, message.position, bytes(previous))


def verify_message(message: Message, position: int, previous: bytes | None) -> None:
    """Verify the message at a position of a transcript by its seal and its chain.

    `previous` is the stored chain of the message before it, None if there is no such message. Raises `IntegrityError`.
    """
    row_seals.verify_row(message)
    if position == 0:
        previous = digests.EMPTY_CHAIN
    if previous is None:
        raise IntegrityError(_MESSAGE_TABLE, f"at position {position - 1}", "it is missing")
    chain = digests.extend_hash_chain(previous, message.body)
    if bytes(message.chain) != chain or message.position != position:
        raise IntegrityError(_MESSAGE_TABLE, row_seals.describe_row(message), "its text does not match its chain")


def iterate_verified_messages(
    connection: BaseDatabaseWrapper, segment_id: int, messages: QuerySet[Message]
) -> Iterator[Message]:
    """Iterate over consecutive messages of a segment in order, each verified as `verify_consecutive_messages` does."""
    batch: list[Message] = []
    for message in iterate_rows_read_in_batches(messages, by="position"):
        batch.append(message)
        if len(batch) == _BATCH_SIZE:
            verify_consecutive_messages(connection, segment_id, batch)
            yield from batch
            batch = []
    verify_consecutive_messages(connection, segment_id, batch)
    yield from batch


def _read_chain_of_preceding_message(connection: BaseDatabaseWrapper, segment_id: int, position: int) -> bytes:
    """Read the chain of the message before a position of the transcript that ends in a segment."""
    if position == 0:
        return digests.EMPTY_CHAIN
    rows = read_messages_along_segments.read_message_field_rows(
        connection, segment_id, position, ("chain",), position - 1
    )
    if not rows:
        raise IntegrityError(_MESSAGE_TABLE, f"at position {position - 1}", "it is missing")
    return bytes(rows[0][0])


def _raise_error_of_first_mismatch(
    connection: BaseDatabaseWrapper, segment_id: int, bodies: Sequence[str], first: int
) -> None:
    """Raise the error that names the first message whose chain is not the one of its text."""
    previous = _read_chain_of_preceding_message(connection, segment_id, first)
    rows = read_messages_along_segments.read_message_field_rows(
        connection, segment_id, first + len(bodies), ("id", "chain"), first
    )
    for position, ((pk, stored), body) in enumerate(zip(rows, bodies, strict=False), first):
        previous = digests.extend_hash_chain(previous, body)
        if bytes(stored) != previous:
            raise IntegrityError(_MESSAGE_TABLE, f"{pk} (message {position})", "its text does not match its chain")
    raise IntegrityError(
        _MESSAGE_TABLE, f"at position {first + len(bodies) - 1}", "its chain is not the one of the version"
    )
