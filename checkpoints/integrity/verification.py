"""Verify the rows of a session: each by its seal, its transcripts by their chains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from django.db import connections, models, transaction

from checkpoints.calls import log_completeness, signed_decisions
from checkpoints.db.row_batches import BATCH_SIZE, iterate_rows
from checkpoints.db.sql_quoting import quote_column, quote_table
from checkpoints.exceptions import CheckpointCorrupted, IntegrityError, RowNotSealed
from checkpoints.formats import digests
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
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.seals.session_heads import CountedRow
from checkpoints.versions import opaque_contents, segment_queries, state_channels, version_seals

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
SESSION_MODELS: tuple[type[models.Model], ...] = (Segment, *COUNTED_MODELS, *RECORD_MODELS, AuditEvent)
#: The same, and the contents of frameworks, whose rows have no seal.
_LISTED_MODELS: tuple[type[models.Model], ...] = (*SESSION_MODELS, Blob)


@dataclass(frozen=True)
class IntegrityProblem:
    """Row that is not as this library wrote it, and what does not match."""

    table: str
    row: str
    why: str
    #: Whether the row was altered for certain: see `IntegrityError`.
    is_alteration: bool = True

    @classmethod
    def from_error(cls, error: IntegrityError, row: models.Model | None = None) -> Self:
        """Build the problem of an error; `row` names it better than the error does."""
        name = error.row if row is None else row_seals.describe_row(row)
        return cls(error.table, name, error.why, error.is_alteration)

    def to_dict(self) -> dict[str, str]:
        """Return what a person reads of it."""
        return {"table": self.table, "row": self.row, "why": self.why}


@dataclass
class VerificationCounts:
    """Number of rows that were verified."""

    rows: int = 0


def verify_session_records(using: str, session: Session) -> set[int]:
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
    signed_decisions.verify_decisions_of_session(using, session.pk)
    live_keys: set[int] = set()
    keys = get_seal_keys()
    if keys is None:
        return live_keys
    head = session_heads.build_verified_head(session, keys)
    if head.seal is not None:
        witness.require_head_is_newest(session.session_id, head.to_witnessed_head())
    rows: list[CountedRow] = []
    for model in RECORD_MODELS:
        for row in iterate_rows(model._default_manager.using(using).filter(session=session)):
            row_seals.verify_row(row)
            _append_row_if_sealed(rows, model, getattr(row, "row_seal", None))
            if isinstance(row, ToolCall):
                live_keys |= log_completeness.list_live_key_hashes([row])
    for model in COUNTED_MODELS:
        of_session = model._default_manager.using(using).filter(session=session)
        for seal in of_session.values_list("row_seal", flat=True):
            _append_row_if_sealed(rows, model, seal)
    versions = Checkpoint.objects.using(using).filter(session=session)
    if head.seal is not None and session_heads.compute_row_sum(keys, rows) != head.total:
        raise session_heads.build_row_sum_mismatch_error(session)
    newest = versions.order_by("-version").first()
    version_seals.require_newest_version_of_session(session, newest)
    return live_keys


def _append_row_if_sealed(rows: list[CountedRow], model: type[models.Model], seal: Any) -> None:
    if seal:
        rows.append((model, bytes(seal)))


def _find_head_problem(session: Session, newest: Checkpoint | None) -> IntegrityProblem | None:
    """Compare what a session says about its newest version with that version."""
    try:
        version_seals.require_newest_version_of_session(session, newest)
    except IntegrityError as error:
        return IntegrityProblem.from_error(error)
    return None


def require_session_unaltered(using: str, session: Session) -> None:
    """Require that all rows and transcripts of a session are as they were written. Nothing if sealing is off.

    Raises `IntegrityError` naming the first one that is not, or `RowNotSealed`.
    """
    if get_seal_keys() is None:
        return
    for problem in find_session_problems(using, session, VerificationCounts()):
        if problem.is_alteration:
            raise IntegrityError(problem.table, problem.row, problem.why)
        raise RowNotSealed(problem.table, problem.row)


def require_session_rows_complete(using: str, session: Session) -> None:
    """Require that no row of a session is missing, was added, or is in a former state. Nothing if sealing is off.

    Raises `IntegrityError`. The seals of the rows themselves are not verified.
    """
    for problem in _find_session_head_problems(using, session):
        raise IntegrityError(problem.table, problem.row, problem.why)


def find_session_problems(using: str, session: Session, counts: VerificationCounts) -> Iterator[IntegrityProblem]:
    """Find every row of a session that is not as it was written. Raises `SealKeyMissing`."""
    counts.rows += 1
    if (problem := _find_row_problem(session)) is not None:
        yield problem
    found = _list_models_with_rows(using, session.pk)
    for model in [model for model in found if model in SESSION_MODELS]:
        for batch in _read_sealed_column_batches(models.QuerySet(model, using=using).filter(session=session), model):
            counts.rows += len(batch)
            for pk, seal, *values in batch:
                if (problem := _find_column_problem(using, model, pk, seal, values)) is not None:
                    yield problem
    for error in signed_decisions.find_signature_errors(using, session.pk):
        yield IntegrityProblem.from_error(error)
    yield from _find_session_head_problems(using, session)
    ends = _read_version_ends(using, session)
    chains: dict[tuple[int, int], bytes] = dict.fromkeys(((end.segment_id, end.position) for end in ends), b"")
    yield from _find_message_problems(using, session, counts, chains)
    yield from _find_version_problems(using, ends, chains)
    if {Blob, FrameworkState, FrameworkWrite}.isdisjoint(found):
        return
    yield from _find_blob_problems(using, session, counts)
    if get_seal_keys() is None:  # else the seal of a state whose channels were altered is wrong
        yield from _find_channel_problems(using, session)
    yield from _find_missing_blob_problems(using, session)


def find_workspace_problems(using: str, workspace_pk: int, counts: VerificationCounts) -> Iterator[IntegrityProblem]:
    """Find every row of a workspace that belongs to no session and is not as it was written: early responses.

    Entries of the audit trail are verified with their chain. Raises `SealKeyMissing`.
    """
    for row in iterate_rows(EarlyResponse.objects.using(using).filter(workspace=workspace_pk)):
        counts.rows += 1
        if (problem := _find_row_problem(row)) is not None:
            yield problem


def _list_models_with_rows(using: str, session_pk: int) -> list[type[models.Model]]:
    """List the tables that have rows of a session, in one statement: most sessions have none in most of them."""
    with connections[using].cursor() as cursor:
        cursor.execute(_build_tables_with_rows_sql(), [session_pk] * len(_LISTED_MODELS))
        return [_LISTED_MODELS[place] for (place,) in cursor.fetchall()]


@cache
def _build_tables_with_rows_sql() -> str:
    return " UNION ALL ".join(
        f"SELECT {place} WHERE EXISTS "  # noqa: S608 - names of models
        f"(SELECT 1 FROM {quote_table(model)} WHERE {quote_column(model, 'session')} = %s)"
        for place, model in enumerate(_LISTED_MODELS)
    )


def _find_session_head_problems(using: str, session: Session) -> Iterator[IntegrityProblem]:
    """Verify the sum of a session, and what it says about its newest version, as they are stored at one moment."""
    keys = get_seal_keys()
    if keys is None:
        return
    with transaction.atomic(using=using):
        row = Session.objects.using(using).select_for_update().filter(pk=session.pk).first()
        if row is None or not row.row_seal or _find_row_problem(row) is not None:
            return  # deleted, or reported already
        head = session_heads.build_head(row, keys)
        if session_heads.compute_row_sum_from_database(using, row.pk, keys) != head.total:
            error = session_heads.build_row_sum_mismatch_error(row)
            yield IntegrityProblem.from_error(error)
        newest = Checkpoint.objects.using(using).filter(session=row).order_by("-version").first()
        if (problem := _find_head_problem(row, newest)) is not None:
            yield problem


def _find_row_problem(row: models.Model) -> IntegrityProblem | None:
    try:
        row_seals.verify_row(row)
    except IntegrityError as error:
        return IntegrityProblem.from_error(error)
    return None


def _read_sealed_column_batches(
    rows: models.QuerySet[Any], model: type[models.Model]
) -> Iterator[list[tuple[Any, ...]]]:
    """Read the key, the seal and the sealed columns of rows, without an object for each of them."""
    ordered = rows.order_by("pk").values_list("pk", "row_seal", *row_seals.get_sealed_fields(model))
    batch = list(ordered[:BATCH_SIZE])
    while batch:
        yield batch
        batch = [] if len(batch) < BATCH_SIZE else list(ordered.filter(pk__gt=batch[-1][0])[:BATCH_SIZE])


def _find_column_problem(
    using: str, model: type[models.Model], pk: Any, seal: bytes | None, values: Sequence[Any]
) -> IntegrityProblem | None:
    try:
        row_seals.verify_columns(model, values, seal, str(pk))
    except IntegrityError as error:
        row: models.Model | None = models.QuerySet(model, using=using).filter(pk=pk).first()
        return IntegrityProblem.from_error(error, row)
    return None


def _find_message_problems(
    using: str, session: Session, counts: VerificationCounts, chains: dict[tuple[int, int], bytes]
) -> Iterator[IntegrityProblem]:
    """Verify the messages of each segment of a session, one after the other, and that the segment before it is there.

    `chains` gets the stored chains of the messages whose segment and position it names.
    """
    connection = connections[using]
    sealed = row_seals.get_sealed_fields(Message)
    chain_at = sealed.index("chain")
    has_parent = models.Exists(Segment.objects.filter(pk=models.OuterRef("parent_id")))
    segments = Segment.objects.using(using).filter(session=session).annotate(has_parent=has_parent)
    for segment in segments.order_by("pk"):
        position, previous = segment.parent_length, digests.EMPTY_CHAIN
        if segment.parent_id is not None and not segment.has_parent:
            yield IntegrityProblem(Segment._meta.db_table, str(segment.pk), "the segment before it is missing")
        if segment.parent_id is not None and position:
            stored = segment_queries.read_message_field_rows(
                connection, segment.parent_id, position, ("chain",), position - 1
            )
            previous = bytes(stored[0][0]) if stored else digests.EMPTY_CHAIN
        messages: models.QuerySet[Message] = (
            models.QuerySet(Message, using=using).filter(segment=segment).order_by("position")
        )
        columns, last = messages.values_list("pk", "row_seal", "session_id", "position", "body", *sealed), -1
        while batch := list(columns.filter(position__gt=last)[:BATCH_SIZE]):
            counts.rows += len(batch)
            for pk, seal, session_pk, last, body, *values in batch:
                chain = bytes(values[chain_at])
                problem = _find_column_problem(using, Message, pk, seal, values)
                previous = digests.extend_hash_chain(previous, body)
                places = (session_pk, last), (session.pk, position)
                why = _find_message_mismatch(*places, is_chain_right=chain == previous)
                if problem is None and why is not None:
                    problem = IntegrityProblem(Message._meta.db_table, f"{pk} (message {last})", why)
                if problem is not None:
                    yield problem
                if (segment.pk, last) in chains:
                    chains[segment.pk, last] = chain
                position, previous = last + 1, chain
            if len(batch) < BATCH_SIZE:
                break


def _find_message_mismatch(place: tuple[int, int], expected: tuple[int, int], *, is_chain_right: bool) -> str | None:
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


@dataclass(frozen=True, slots=True)
class _VersionEnd:
    """Last message of a version: its place and its chain, as the version has them, and whether its segment is there and
    belongs to its session."""

    pk: int
    segment_id: int
    position: int
    chain: bytes
    has_segment: bool


def _read_version_ends(using: str, session: Session) -> list[_VersionEnd]:
    versions: models.QuerySet[Checkpoint] = (
        models.QuerySet(Checkpoint, using=using).filter(session=session, length__gt=0).order_by("version")
    )
    has_segment = models.Exists(Segment.objects.filter(pk=models.OuterRef("segment_id"), session=session))
    columns = versions.values_list("pk", "segment_id", "length", "chain", has_segment)
    return [
        _VersionEnd(pk, segment_id, length - 1, bytes(chain), has_segment)
        for pk, segment_id, length, chain, has_segment in columns
    ]


def _find_version_problems(
    using: str, ends: list[_VersionEnd], chains: dict[tuple[int, int], bytes]
) -> Iterator[IntegrityProblem]:
    """Verify that each version of a session ends with the message that it names, in a segment of the session.

    A message that is not among `chains` is of a segment before, and is read.
    """
    connection = connections[using]
    for end in ends:
        chain = chains[end.segment_id, end.position]
        if not chain:
            rows = segment_queries.read_message_field_rows(
                connection, end.segment_id, end.position + 1, ("chain",), end.position
            )
            chain = bytes(rows[0][0]) if rows else b""
        if chain != end.chain or not end.has_segment:
            version: Checkpoint | None = models.QuerySet(Checkpoint, using=using).filter(pk=end.pk).first()
            yield IntegrityProblem(
                Checkpoint._meta.db_table,
                str(end.pk) if version is None else row_seals.describe_row(version),
                "its transcript is not the one it was saved with",
            )


def _find_blob_problems(using: str, session: Session, counts: VerificationCounts) -> Iterator[IntegrityProblem]:
    """Verify the opaque content of a session by its digests, which sealed rows name. A row may be deleted meanwhile."""
    for model in (Blob, FrameworkWrite):
        rows: Any = model._default_manager.using(using).filter(session=session)
        for row in iterate_rows(rows if model is Blob else rows.filter(content__isnull=False)):
            counts.rows += model is Blob
            (content,) = opaque_contents.read_contents(using, [row])
            if isinstance(content, ValueError) and rows.filter(pk=row.pk).exists():
                yield IntegrityProblem(model._meta.db_table, row_seals.describe_row(row), str(content))


def _find_channel_problems(using: str, session: Session) -> Iterator[IntegrityProblem]:
    """Find the states of frameworks whose channels cannot be read."""
    states: models.QuerySet[FrameworkState] = (
        models.QuerySet(FrameworkState, using=using).filter(session=session).defer("body", "metadata")
    )
    for state in iterate_rows(states):
        try:
            state_channels.parse_channels(session.session_id, state.channels)
        except CheckpointCorrupted as error:
            yield IntegrityProblem(FrameworkState._meta.db_table, row_seals.describe_row(state), error.detail)


def _find_missing_blob_problems(using: str, session: Session) -> Iterator[IntegrityProblem]:
    """Find the opaque contents that a state or a write names and that are not there."""
    if not _list_missing_blobs(using, session):
        return
    with transaction.atomic(using=using):  # states may have been removed meanwhile with their contents
        locked = Session.objects.using(using).select_for_update().filter(pk=session.pk).first()
        missing = [] if locked is None else _list_missing_blobs(using, locked)
    for digest in missing:
        yield IntegrityProblem(Blob._meta.db_table, digest, "it is missing, and a state of a framework names it")


def _list_missing_blobs(using: str, session: Session) -> list[str]:
    try:
        return state_channels.list_missing_blobs(using, session)
    except CheckpointCorrupted:  # an altered row, which is reported already
        return []
