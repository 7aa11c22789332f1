"""Verify the rows of a session: each by its seal, its transcripts by their chains."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import itemgetter
from typing import Any, Self

from django.db import connections, models, transaction

from checkpoints.calls import call_log_tampering_detection, require_unaltered_call, verify_calls_against_decisions
from checkpoints.db.batched_row_iteration import BATCH_SIZE, iterate_rows_read_in_batches
from checkpoints.db.sql_names_and_values import quote_column, quote_table
from checkpoints.exceptions import CheckpointCorrupted, IntegrityError, RowNotSealed, SealKeyMissing
from checkpoints.formats import digests
from checkpoints.integrity.mistyped_values import MistypedValue
from checkpoints.models import (
    AuditEvent,
    Blob,
    CallValue,
    Checkpoint,
    Decision,
    EarlyResponse,
    FrameworkState,
    FrameworkWrite,
    Join,
    LateResult,
    Message,
    PausedTask,
    PeerCall,
    Segment,
    Session,
    ToolCall,
    Workflow,
    WorkflowStep,
)
from checkpoints.seals import row_seals, session_heads, witness
from checkpoints.seals.seal_keys import KEY_SETTING, get_seal_keys
from checkpoints.seals.session_heads import CountedRow
from checkpoints.versions import (
    opaque_bytes_as_message_differences,
    parse_state_channels_and_collect_digests,
    read_messages_along_segments,
    version_seals_and_transcript_verification,
)

#: Tables whose rows decide what a resumed run does, beside its transcript.
RECORD_MODELS: tuple[type[models.Model], ...] = (
    ToolCall,
    Decision,
    LateResult,
    CallValue,
    Workflow,
    WorkflowStep,
    PausedTask,
    Join,
    PeerCall,
)
#: Tables whose rows are verified when they are read, and counted before a run.
COUNTED_MODELS: tuple[type[models.Model], ...] = (Checkpoint, FrameworkState, FrameworkWrite)
#: All tables whose rows belong to a session, beside its messages.
SESSION_MODELS: tuple[type[models.Model], ...] = (*COUNTED_MODELS, Segment, *RECORD_MODELS, AuditEvent)
#: The same, and the contents of frameworks, whose rows have no seal.
_LISTED_MODELS: tuple[type[models.Model], ...] = (*SESSION_MODELS, Blob)
#: Number of sessions or segments whose rows one statement reads.
_GROUPS_PER_STATEMENT = 500


@dataclass(frozen=True)
class IntegrityProblem:
    """Row that is not as this library wrote it, and what does not match."""

    table: str
    row: str
    why: str
    #: Whether the row was altered for certain: see `IntegrityError`.
    is_alteration: bool = True
    #: Id of the key that the seal of the row names, if that key is not configured.
    unknown_key: str | None = None

    @classmethod
    def from_error(cls, error: IntegrityError) -> Self:
        """Build the problem of an error."""
        return cls(error.table, error.row, error.why, error.is_alteration)

    @classmethod
    def from_mistyped_value(cls, value: MistypedValue) -> Self:
        """Build the problem of a value of another type than its column."""
        return cls(value.table, value.row, value.why)

    @classmethod
    def from_unknown_key(cls, table: str, row: str, error: SealKeyMissing) -> Self:
        """Build the problem of a row by a key that is not configured. Raises `error` if no key is configured at all."""
        if error.key_id is None:
            raise error
        why = (
            f"it is sealed with the key {error.key_id}, which is not configured: add it to {KEY_SETTING} behind the "
            "present key if it is a former one; if it never was a key of this site, somebody has changed the row"
        )
        return cls(table, row, why, is_alteration=False, unknown_key=error.key_id)

    def to_error(self) -> IntegrityError | SealKeyMissing:
        """Return the error of a row that is needed."""
        if self.unknown_key is not None:
            return SealKeyMissing(f"row {self.row} of {self.table}: {self.why}", self.unknown_key)
        if self.is_alteration:
            return IntegrityError(self.table, self.row, self.why)
        return RowNotSealed(self.table, self.row)

    def to_dict(self) -> dict[str, str]:
        """Return what a person reads of it."""
        return {"table": self.table, "row": self.row, "why": self.why}


@dataclass
class VerificationCounts:
    """Number of rows that were verified."""

    rows: int = 0


def verify_records_and_hash_live_call_keys(using: str, session: Session) -> set[int]:
    """Verify all calls, decisions, steps and answers of other agents of a session, before a run uses them.

    None of them, and no version, may be missing, added, or in a former state. Raises `IntegrityError` naming the first
    row that is not as it was written. Without seals, only the signatures of decisions are verified, where they are
    required.

    Args:
        using: Connection alias.
        session: The session, locked.

    Returns:
        Hashes of the keys of its live calls, which the run remembers; empty if sealing is off.
    """
    verify_calls_against_decisions.verify_session_calls_against_decisions(using, session.pk)
    live_keys: set[int] = set()
    keys = get_seal_keys()
    if keys is None:
        return live_keys
    head = session_heads.verify_session_row_and_build_head(session, keys)
    if head.seal is not None:
        witness.require_head_is_newest(session.session_id, head.to_witnessed_head())
    rows: list[CountedRow] = []
    for model in RECORD_MODELS:
        for row in iterate_rows_read_in_batches(model._default_manager.using(using).filter(session=session)):
            row_seals.verify_row(row)
            _append_row_if_sealed(rows, model, getattr(row, "row_seal", None))
            if isinstance(row, ToolCall):
                live_keys |= call_log_tampering_detection.collect_live_key_hashes([row])
    for model in COUNTED_MODELS:
        of_session = model._default_manager.using(using).filter(session=session)
        for seal in of_session.values_list("row_seal", flat=True):
            _append_row_if_sealed(rows, model, seal)
    versions = Checkpoint.objects.using(using).filter(session=session)
    if head.seal is not None and session_heads.compute_row_sum(keys, rows) != head.total:
        raise session_heads.build_row_sum_mismatch_error(session)
    newest = versions.order_by("-version").first()
    version_seals_and_transcript_verification.require_version_is_newest_and_ends_transcript(session, newest)
    return live_keys


def _append_row_if_sealed(rows: list[CountedRow], model: type[models.Model], seal: Any) -> None:
    if seal:
        rows.append((model, bytes(memoryview(seal))))  # another value is no seal: `bytes(5)` would be five zeros


def require_session_unaltered(using: str, session: Session) -> None:
    """Require that all rows and transcripts of a session are as they were written. Nothing if sealing is off.

    Raises `IntegrityError` naming the first one that is not, `RowNotSealed`, or `SealKeyMissing`.
    """
    if get_seal_keys() is None:
        return
    for problem in iterate_session_problems(using, session, VerificationCounts()):
        raise problem.to_error()


def lock_session_and_require_rows_complete(using: str, session: Session) -> None:
    """Require that no row of a session is missing, was added, or is in a former state. Nothing if sealing is off.

    Raises `IntegrityError`, or `SealKeyMissing`. The seals of the rows themselves are not verified.
    """
    for problem in _lock_session_and_iterate_head_problems(using, session.pk):
        raise problem.to_error()


def iterate_session_problems(using: str, session: Session, counts: VerificationCounts) -> Iterator[IntegrityProblem]:
    """Find every row of a session that is not as it was written. Raises `SealKeyMissing` without any key."""
    return (problem for _, problem in iterate_problems_of_sessions(using, [session], counts))


def iterate_problems_of_sessions(
    using: str, sessions: Sequence[Session], counts: VerificationCounts
) -> Iterator[tuple[int, IntegrityProblem]]:
    """Find every row of sessions that is not as it was written. Raises `SealKeyMissing` without any key.

    Of the rows of a session by a key that is not configured, the first one is found. Whether rows of such a session are
    missing stays unknown: their sum needs all keys. A statement reads a table for all of the sessions, at most
    `BATCH_SIZE` rows at once.

    Args:
        using: Connection alias.
        sessions: The sessions. A change that another process makes meanwhile may be reported as a problem, unless they
            are locked.
        counts: Gets the number of rows that were verified.

    Yields:
        The key of the session and the problem, in the order of the tables.
    """
    unknown_keys: set[tuple[int, str]] = set()
    for session_pk, problem in _iterate_problems_of_all_rows(using, sessions, counts, unknown_keys):
        if problem.unknown_key is not None:
            if (session_pk, problem.unknown_key) in unknown_keys:
                continue
            unknown_keys.add((session_pk, problem.unknown_key))
        yield session_pk, problem


def _iterate_problems_of_all_rows(
    using: str, sessions: Sequence[Session], counts: VerificationCounts, unknown_keys: Collection[tuple[int, str]]
) -> Iterator[tuple[int, IntegrityProblem]]:
    """Find every row of sessions that is not as it was written.

    `unknown_keys` has the sessions and keys that are not configured of what was yielded before.
    """
    counts.rows += len(sessions)
    with_head: list[Session] = []
    for session in sessions:
        if (problem := _find_seal_problem_of_row(session)) is not None:
            yield session.pk, problem
        elif session.row_seal:
            with_head.append(session)
    session_pks = sorted(session.pk for session in sessions)
    found, collected = _list_models_with_rows_in_key_range(using, session_pks), _VersionEndsAndSegments()
    for model in [model for model in found if model in SESSION_MODELS]:
        yield from _iterate_row_problems_and_collect_version_ends(using, model, session_pks, counts, collected)
    for session_pk, error in verify_calls_against_decisions.iterate_decision_errors_of_sessions(using, session_pks):
        yield session_pk, IntegrityProblem.from_error(error)
    without_sum = {session_pk for session_pk, _ in unknown_keys}
    with_head = [session for session in with_head if session.pk not in without_sum]
    for session_pk in _list_session_keys_with_unexpected_head(using, with_head, collected):
        for problem in _lock_session_and_iterate_head_problems(using, session_pk):
            yield session_pk, problem
    chains: dict[tuple[int, int], bytes] = dict.fromkeys(
        ((end.segment_id, end.position) for end in collected.ends), b""
    )
    yield from _iterate_message_problems_and_collect_chains(using, collected, counts, chains)
    yield from _iterate_version_end_problems(using, collected, chains)
    with_contents = collected.sessions_with_states | _load_session_keys_with_blobs(using, found, session_pks)
    yield from _iterate_opaque_content_problems(using, [one for one in sessions if one.pk in with_contents], counts)


def iterate_problems_of_early_responses(
    using: str, workspace_pk: int, counts: VerificationCounts
) -> Iterator[IntegrityProblem]:
    """Find every row of a workspace that belongs to no session and is not as it was written: early responses.

    Entries of the audit trail are verified with their chain. Raises `SealKeyMissing` without any key.
    """
    for row in iterate_rows_read_in_batches(EarlyResponse.objects.using(using).filter(workspace=workspace_pk)):
        counts.rows += 1
        if (problem := _find_seal_problem_of_row(row)) is not None:
            yield problem


def _list_models_with_rows_in_key_range(using: str, session_pks: Sequence[int]) -> list[type[models.Model]]:
    """List the tables that may have rows of sessions, in one statement: most sessions have none in most of them.

    A table is also listed for the rows of a session whose key is between those of two given ones.
    """
    with connections[using].cursor() as cursor:
        cursor.execute(_build_tables_with_rows_sql(), [session_pks[0], session_pks[-1]] * len(_LISTED_MODELS))
        return [_LISTED_MODELS[place] for (place,) in cursor.fetchall()]


@cache
def _build_tables_with_rows_sql() -> str:
    return " UNION ALL ".join(
        f"SELECT {place} WHERE EXISTS "  # noqa: S608 - names of models
        f"(SELECT 1 FROM {quote_table(model)} WHERE {quote_column(model, 'session')} BETWEEN %s AND %s)"
        for place, model in enumerate(_LISTED_MODELS)
    )


def _load_session_keys_with_blobs(
    using: str, found: Sequence[type[models.Model]], session_pks: Sequence[int]
) -> set[int]:
    if Blob not in found:
        return set()
    blobs: models.QuerySet[Blob] = models.QuerySet(Blob, using=using).filter(session__in=session_pks)
    return set(blobs.order_by().values_list("session_id", flat=True).distinct())


def _list_session_keys_with_unexpected_head(
    using: str, sessions: Sequence[Session], collected: _VersionEndsAndSegments
) -> list[int]:
    """List the sessions, of those that match their seals, whose rows may not be those that their heads count.

    One that another process changes while its rows are read is among them.
    """
    keys = get_seal_keys()
    if keys is None or not sessions:
        return []
    try:
        sums = session_heads.read_session_seals_and_compute_row_sums(
            using, sorted(session.pk for session in sessions), keys
        )
    except SealKeyMissing:  # of a row that another process has written meanwhile
        return [session.pk for session in sessions]
    unexpected = []
    for session in sessions:
        newest, head = collected.newest.get(session.pk), session_heads.build_unverified_head(session, keys)
        newest_seal = None if session.newest_seal is None else bytes(session.newest_seal)
        end = (newest_seal, session.head_segment_id, session.message_count, bytes(session.head_chain))
        own_segment = collected.segments.get(session.head_segment_id or 0, (None,))[0] == session.pk
        expected = (
            (None, session.head_segment_id if own_segment else None, 0, digests.EMPTY_CHAIN)
            if newest is None
            else (newest.seal, newest.segment_id, newest.position + 1, newest.chain)
        )
        if sums.get(session.pk) != (head.seal, head.total) or end != expected:
            unexpected.append(session.pk)
    return unexpected


def _lock_session_and_iterate_head_problems(using: str, session_pk: int) -> Iterator[IntegrityProblem]:
    """Verify the sum of a session, and what it says about its newest version, as they are stored at one moment."""
    keys = get_seal_keys()
    if keys is None:
        return
    with transaction.atomic(using=using):
        row = Session.objects.using(using).select_for_update().filter(pk=session_pk).first()
        if row is None or not row.row_seal or _find_seal_problem_of_row(row) is not None:
            return  # deleted, or reported already
        head = session_heads.build_unverified_head(row, keys)
        try:
            if session_heads.compute_row_sum_from_database(using, row.pk, keys) != head.total:
                yield IntegrityProblem.from_error(session_heads.build_row_sum_mismatch_error(row))
            newest = Checkpoint.objects.using(using).filter(session=row).order_by("-version").first()
            version_seals_and_transcript_verification.require_version_is_newest_and_ends_transcript(row, newest)
        except IntegrityError as error:
            yield IntegrityProblem.from_error(error)
        except SealKeyMissing as error:
            yield IntegrityProblem.from_unknown_key(Session._meta.db_table, row_seals.describe_row(row), error)


def _find_seal_problem_of_row(row: models.Model) -> IntegrityProblem | None:
    try:
        row_seals.verify_row(row)
    except IntegrityError as error:
        return IntegrityProblem.from_error(error)
    except SealKeyMissing as error:
        return IntegrityProblem.from_unknown_key(row_seals.get_table_name(row), row_seals.describe_row(row), error)
    return None


@dataclass(frozen=True, slots=True)
class _VersionEnd:
    """End of a version's transcript as the version has it: the place of the last message and its chain; its seal."""

    pk: int
    session_pk: int
    number: int
    segment_id: int
    position: int
    chain: bytes
    seal: bytes | None


class _VersionEndsAndSegments:
    """What the rows of sessions say about the ends of versions and about segments, and which sessions have states.

    Attributes:
        ends: Ends of the versions that have messages.
        newest: End of the newest version by the key of its session.
        segments: Session, segment before (None for a root), and number of messages shared with that, by segment.
        sessions_with_states: Keys of the sessions with states or writes of frameworks.
    """

    def __init__(self) -> None:
        self.ends: list[_VersionEnd] = []
        self.newest: dict[int, _VersionEnd] = {}
        self.segments: dict[int, tuple[int, int | None, int]] = {}
        self.sessions_with_states: set[int] = set()

    def collect_from_rows(self, model: type[models.Model], rows: Sequence[tuple[Any, ...]]) -> None:
        """Add rows of a table: the keys of the session and of the row, its seal, and its sealed columns."""
        if model is Segment:
            select = _build_sealed_column_getter(Segment, "parent", "parent_length")
            self.segments |= {pk: (session_pk, *select(values)) for session_pk, pk, _, *values in rows}
        elif model is Checkpoint:
            select = _build_sealed_column_getter(Checkpoint, "version", "segment", "length", "chain")
            for session_pk, pk, seal, *values in rows:
                number, segment, length, chain = select(values)
                end = _VersionEnd(
                    pk, session_pk, number, segment, length - 1, bytes(chain), None if seal is None else bytes(seal)
                )
                if length > 0:
                    self.ends.append(end)
                known = self.newest.get(session_pk)
                if known is None or known.number < number:
                    self.newest[session_pk] = end
        elif model in (FrameworkState, FrameworkWrite):
            self.sessions_with_states.update(row[0] for row in rows)


@cache
def _build_sealed_column_getter(model: type[models.Model], *names: str) -> Callable[[Sequence[Any]], Any]:
    sealed = row_seals.get_sealed_fields(model)
    return itemgetter(*(sealed.index(name) for name in names))


def _iterate_row_problems_and_collect_version_ends(
    using: str,
    model: type[models.Model],
    session_pks: Sequence[int],
    counts: VerificationCounts,
    collected: _VersionEndsAndSegments,
) -> Iterator[tuple[int, IntegrityProblem]]:
    """Verify the seals of the rows of one table, and add them to `collected`. No object is made for a row."""
    rows: models.QuerySet[Any] = models.QuerySet(model, using=using)
    columns = rows.values_list("session_id", "pk", "row_seal", *row_seals.get_sealed_fields(model))
    for batch in _iterate_rows_of_groups_in_batches(columns, "session_id", session_pks, "pk"):
        counts.rows += len(batch)
        collected.collect_from_rows(model, batch)
        for session_pk, pk, seal, *values in batch:
            if (problem := _find_seal_problem_of_columns(using, model, pk, seal, values)) is not None:
                yield session_pk, problem
            elif model is ToolCall and (why := _find_call_digest_mismatch(values)) is not None:
                yield (
                    session_pk,
                    IntegrityProblem(model._meta.db_table, _load_and_describe_row_of_key(using, model, pk), why),
                )


def _find_call_digest_mismatch(values: Sequence[Any]) -> str | None:
    """Say which text of a call does not match its digest, from its sealed columns."""
    select = _build_sealed_column_getter(ToolCall, "args", "args_digest", "result", "result_digest", "error_message")
    return require_unaltered_call.describe_digest_mismatch(*select(values))


def _iterate_rows_of_groups_in_batches(
    rows: models.QuerySet[Any, tuple[Any, ...]], group_field: str, group_values: Sequence[int], order_field: str
) -> Iterator[list[tuple[Any, ...]]]:
    """Iterate over the rows of groups, in their order and in that of `order_field`, at most `BATCH_SIZE` at once.

    Args:
        rows: Tuples, of which the first value is that of `group_field`, and the second one is that of `order_field`.
        group_field: Name of the field that rows of one group have in common.
        group_values: Values of that field, ascending.
        order_field: Name of a field that is unique in a group.
    """
    for start in range(0, len(group_values), _GROUPS_PER_STATEMENT):
        part = group_values[start : start + _GROUPS_PER_STATEMENT]
        wanted = models.Q((f"{group_field}__in", part))
        while batch := list(rows.filter(wanted).order_by(group_field, order_field)[:BATCH_SIZE]):
            yield batch
            if len(batch) < BATCH_SIZE:
                break
            last_group, last, *_ = batch[-1]
            later = part[bisect_right(part, last_group) :]
            wanted = models.Q((group_field, last_group), (f"{order_field}__gt", last)) | models.Q(
                (f"{group_field}__in", later)
            )


def _find_seal_problem_of_columns(
    using: str, model: type[models.Model], pk: Any, seal: bytes | None, values: Sequence[Any]
) -> IntegrityProblem | None:
    try:
        row_seals.verify_sealed_columns(model, values, seal, str(pk))
    except IntegrityError as error:
        return replace(IntegrityProblem.from_error(error), row=_load_and_describe_row_of_key(using, model, pk))
    except SealKeyMissing as error:
        return IntegrityProblem.from_unknown_key(model._meta.db_table, str(pk), error)
    return None


def _load_and_describe_row_of_key(using: str, model: type[models.Model], pk: Any) -> str:
    """Describe a row that may have been deleted since it was read."""
    row: models.Model | None = models.QuerySet(model, using=using).filter(pk=pk).first()
    return str(pk) if row is None else row_seals.describe_row(row)


def _iterate_message_problems_and_collect_chains(
    using: str, collected: _VersionEndsAndSegments, counts: VerificationCounts, chains: dict[tuple[int, int], bytes]
) -> Iterator[tuple[int, IntegrityProblem]]:
    """Verify the messages of each segment, one after the other, and that the segment before it is there.

    `chains` gets the stored chains of the messages whose segment and position it names.
    """
    previous_chains = _read_chains_before_segments(using, collected)
    for segment_id, (session_pk, parent_id, _) in collected.segments.items():
        if parent_id is not None and segment_id not in previous_chains:
            problem = IntegrityProblem(Segment._meta.db_table, str(segment_id), "the segment before it is missing")
            yield session_pk, problem
    sealed = row_seals.get_sealed_fields(Message)
    chain_at = sealed.index("chain")
    messages: models.QuerySet[Message] = models.QuerySet(Message, using=using)
    columns = messages.values_list("segment_id", "position", "pk", "row_seal", "session_id", "body", *sealed)
    known, position, previous = 0, 0, digests.EMPTY_CHAIN
    for batch in _iterate_rows_of_groups_in_batches(columns, "segment_id", sorted(collected.segments), "position"):
        counts.rows += len(batch)
        for segment_id, place, pk, seal, named_session_pk, body, *values in batch:
            if segment_id != known:
                known, (session_pk, _, position) = segment_id, collected.segments[segment_id]
                previous = previous_chains.get(segment_id, digests.EMPTY_CHAIN)
            chain = bytes(values[chain_at])
            problem_of_seal = _find_seal_problem_of_columns(using, Message, pk, seal, values)
            previous = digests.extend_hash_chain(previous, body)
            places = (named_session_pk, place), (session_pk, position)
            why = _describe_message_mismatch_or_none(*places, is_chain_right=chain == previous)
            if problem_of_seal is not None:
                yield session_pk, problem_of_seal
            elif why is not None:
                yield session_pk, IntegrityProblem(Message._meta.db_table, f"{pk} (message {place})", why)
            if (segment_id, place) in chains:
                chains[segment_id, place] = chain
            position, previous = place + 1, chain


def _read_chains_before_segments(using: str, collected: _VersionEndsAndSegments) -> dict[int, bytes]:
    """Read the chain before the first message of each segment whose segment before is there, by segment."""
    children = sorted(pk for pk, (_, parent_id, _) in collected.segments.items() if parent_id is not None)
    found: dict[int, bytes] = {}
    for start in range(0, len(children), _GROUPS_PER_STATEMENT):
        last_shared: models.QuerySet[Message] = models.QuerySet(Message).filter(
            segment=models.OuterRef("parent_id"), position=models.OuterRef("parent_length") - 1
        )
        segments: models.QuerySet[Segment] = models.QuerySet(Segment, using=using).filter(
            models.Exists(Segment.objects.filter(pk=models.OuterRef("parent_id"))),
            pk__in=children[start : start + _GROUPS_PER_STATEMENT],
        )
        chains = segments.values_list("pk", models.Subquery(last_shared.values("chain")[:1]))
        found |= {pk: digests.EMPTY_CHAIN if chain is None else bytes(chain) for pk, chain in chains}
    for segment_id, chain in found.items():
        _, parent_id, length = collected.segments[segment_id]
        if not chain and length and parent_id is not None:  # the message is of a segment before that
            found[segment_id] = _read_chain_at_position(using, parent_id, length - 1)
    return found


def _read_chain_at_position(using: str, segment_id: int, position: int) -> bytes:
    """Read the chain at a position of the transcript that ends in a segment; empty if there is no such message."""
    rows = read_messages_along_segments.read_message_field_rows(
        connections[using], segment_id, position + 1, ("chain",), position
    )
    return bytes(rows[0][0]) if rows else digests.EMPTY_CHAIN


def _describe_message_mismatch_or_none(
    place: tuple[int, int], expected: tuple[int, int], *, is_chain_right: bool
) -> str | None:
    """Say what of a message does not match; None if everything does.

    Args:
        place: Its session and position.
        expected: The session and position that its segment and the message before it say.
        is_chain_right: Whether its chain is that of its text.
    """
    if place[1] != expected[1]:
        return "a message before it is missing"
    if not is_chain_right:
        return "its text was altered"
    return None if place == expected else "it names another session than its segment"


def _iterate_version_end_problems(
    using: str, collected: _VersionEndsAndSegments, chains: dict[tuple[int, int], bytes]
) -> Iterator[tuple[int, IntegrityProblem]]:
    """Verify that each version ends with the message that it names, in a segment of its session.

    A message that is not among `chains` is of a segment before, and is read.
    """
    for end in collected.ends:
        chain = chains[end.segment_id, end.position] or _read_chain_at_position(using, end.segment_id, end.position)
        segment = collected.segments.get(end.segment_id)
        if chain != end.chain or segment is None or segment[0] != end.session_pk:
            name = _load_and_describe_row_of_key(using, Checkpoint, end.pk)
            why = "its transcript is not the one it was saved with"
            yield end.session_pk, IntegrityProblem(Checkpoint._meta.db_table, name, why)


def _iterate_opaque_content_problems(
    using: str, sessions: Sequence[Session], counts: VerificationCounts
) -> Iterator[tuple[int, IntegrityProblem]]:
    """Verify the opaque contents of sessions with states or writes of frameworks, and that none is missing."""
    for session in sessions:
        problems = [_iterate_blob_problems(using, session, counts)]
        if get_seal_keys() is None:  # else the seal of a state whose channels were altered is wrong
            problems.append(_iterate_unreadable_channel_problems(using, session))
        problems.append(_lock_session_and_iterate_missing_blob_problems(using, session))
        yield from ((session.pk, problem) for found in problems for problem in found)


def _iterate_blob_problems(using: str, session: Session, counts: VerificationCounts) -> Iterator[IntegrityProblem]:
    """Verify the opaque content of a session by its digests, which sealed rows name. A row may be deleted meanwhile."""
    for model in (Blob, FrameworkWrite):
        rows: Any = model._default_manager.using(using).filter(session=session)
        for row in iterate_rows_read_in_batches(rows if model is Blob else rows.filter(content__isnull=False)):
            counts.rows += model is Blob
            (content,) = opaque_bytes_as_message_differences.read_contents_or_errors(using, [row])
            if isinstance(content, ValueError) and rows.filter(pk=row.pk).exists():
                yield IntegrityProblem(model._meta.db_table, row_seals.describe_row(row), str(content))


def _iterate_unreadable_channel_problems(using: str, session: Session) -> Iterator[IntegrityProblem]:
    """Find the states of frameworks whose channels cannot be read."""
    states: models.QuerySet[FrameworkState] = (
        models.QuerySet(FrameworkState, using=using).filter(session=session).defer("body", "metadata")
    )
    for state in iterate_rows_read_in_batches(states):
        try:
            parse_state_channels_and_collect_digests.parse_channels(session.session_id, state.channels)
        except CheckpointCorrupted as error:
            yield IntegrityProblem(FrameworkState._meta.db_table, row_seals.describe_row(state), error.detail)


def _lock_session_and_iterate_missing_blob_problems(using: str, session: Session) -> Iterator[IntegrityProblem]:
    """Find the opaque contents that a state or a write names and that are not there."""
    if not _list_digests_of_missing_blobs(using, session):
        return
    with transaction.atomic(using=using):  # states may have been removed meanwhile with their contents
        locked = Session.objects.using(using).select_for_update().filter(pk=session.pk).first()
        missing = [] if locked is None else _list_digests_of_missing_blobs(using, locked)
    for digest in missing:
        yield IntegrityProblem(Blob._meta.db_table, digest, "it is missing, and a state of a framework names it")


def _list_digests_of_missing_blobs(using: str, session: Session) -> list[str]:
    try:
        return parse_state_channels_and_collect_digests.list_digests_of_missing_blobs(using, session)
    except CheckpointCorrupted:  # an altered row, which is reported already
        return []
