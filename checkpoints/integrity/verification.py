"""Verify the rows of a session: each by its seal, its transcripts by their chains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db import connections, models

from checkpoints.db.row_batches import iterate_rows
from checkpoints.exceptions import IntegrityError
from checkpoints.formats import digests
from checkpoints.models import (
    AuditEvent,
    Checkpoint,
    Decision,
    Join,
    LateResult,
    Message,
    PausedTask,
    PeerCall,
    Segment,
    Session,
    ToolCall,
    WorkflowStep,
)
from checkpoints.seals import row_seals
from checkpoints.seals.keys import get_seal_keys
from checkpoints.versions import segment_queries

#: Tables whose rows decide what a resumed run does, beside its transcript.
RECORD_MODELS: tuple[type[models.Model], ...] = (
    ToolCall,
    Decision,
    LateResult,
    WorkflowStep,
    PausedTask,
    Join,
    PeerCall,
)
#: All tables whose rows belong to a session, beside its messages.
SESSION_MODELS: tuple[type[models.Model], ...] = (Segment, Checkpoint, *RECORD_MODELS, AuditEvent)


@dataclass(frozen=True)
class IntegrityProblem:
    """Row that is not as this library wrote it, and what does not match."""

    table: str
    row: str
    why: str


@dataclass
class VerificationCounts:
    """Number of rows that were verified."""

    rows: int = 0


def verify_session_records(using: str, session_pk: int) -> None:
    """Verify all calls, decisions, steps and answers of other agents of a session, before a run uses them.

    Raises `IntegrityError` naming the first row that is not as it was written. Nothing if sealing is off.
    """
    if get_seal_keys() is None:
        return
    for model in RECORD_MODELS:
        row_seals.verify_rows(iterate_rows(model._default_manager.using(using).filter(session=session_pk)))


def find_session_problems(using: str, session: Session, counts: VerificationCounts) -> Iterator[IntegrityProblem]:
    """Find every row of a session that is not as it was written. Raises `SealKeyMissing`."""
    counts.rows += 1
    if (problem := _find_row_problem(session)) is not None:
        yield problem
    for model in SESSION_MODELS:
        for row in iterate_rows(model._default_manager.using(using).filter(session=session)):
            counts.rows += 1
            if (problem := _find_row_problem(row)) is not None:
                yield problem
    yield from _find_message_problems(using, session, counts)
    yield from _find_version_problems(using, session)


def _find_row_problem(row: models.Model) -> IntegrityProblem | None:
    try:
        row_seals.verify_row(row)
    except IntegrityError as error:
        return IntegrityProblem(error.table, error.row, error.why)
    return None


def _find_message_problems(using: str, session: Session, counts: VerificationCounts) -> Iterator[IntegrityProblem]:
    """Verify the messages of each segment of a session, one after the other."""
    connection = connections[using]
    for segment in Segment.objects.using(using).filter(session=session).order_by("pk"):
        position, previous = segment.parent_length, digests.EMPTY_CHAIN
        if segment.parent_id is not None and position:
            chains = segment_queries.read_messages(connection, segment.parent_id, position, ("chain",), position - 1)
            previous = bytes(chains[0][0]) if chains else digests.EMPTY_CHAIN
        for message in iterate_rows(Message.objects.using(using).filter(segment=segment), by="position"):
            counts.rows += 1
            problem = _find_row_problem(message)
            previous = digests.extend_hash_chain(previous, message.body)
            if problem is None and (message.position != position or bytes(message.chain) != previous):
                why = "a message before it is missing" if message.position != position else "its text was altered"
                problem = IntegrityProblem(Message._meta.db_table, row_seals.describe_row(message), why)
            if problem is not None:
                yield problem
            position, previous = message.position + 1, bytes(message.chain)


def _find_version_problems(using: str, session: Session) -> Iterator[IntegrityProblem]:
    """Verify that each version of a session ends with the message that it names."""
    connection = connections[using]
    for version in iterate_rows(Checkpoint.objects.using(using).filter(session=session), by="version"):
        if version.length == 0:
            continue
        rows = segment_queries.read_messages(
            connection, version.segment_id, version.length, ("chain",), version.length - 1
        )
        if not rows or bytes(rows[0][0]) != bytes(version.chain):
            yield IntegrityProblem(
                Checkpoint._meta.db_table,
                row_seals.describe_row(version),
                "its transcript is not the one it was saved with",
            )
