"""Quarantine: a session with a row that this library did not write stands still until an admin releases it.

Its run loses the session, no other run gets it, nobody decides about its calls, and no fork continues it. Other
sessions are not affected. The mark is not sealed, because the altered row may be that of the session. Whoever removes
it gains nothing: the next resume verifies all rows again.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import DatabaseError, connections, models, transaction
from django.db.models import F
from django.db.models.functions import Now

from checkpoints.audit import insert_unchained_events
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import OWNING_RUN_STATUSES, ActorKind, AuditKind, RunStatus
from checkpoints.exceptions import (
    CheckpointCorrupted,
    CheckpointsError,
    IntegrityError,
    NotQuarantined,
    QuarantineStays,
    ReasonRequired,
    SealError,
    SealKeyMissing,
    SessionNotFound,
    WitnessAhead,
    WitnessBehind,
)
from checkpoints.integrity import backfill_row_seals, mistyped_values, verify_session_rows
from checkpoints.integrity.mistyped_values import MistypedValue
from checkpoints.integrity.verify_session_rows import IntegrityProblem, VerificationCounts
from checkpoints.models import Message, Run, Session, Workspace
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.store.database_client_state import Store

logger = logging.getLogger(__name__)

#: Errors of Python that a value of another type than its column may raise where it is read.
UNREADABLE_VALUE_ERRORS = (TypeError, ValueError, AttributeError, ArithmeticError, LookupError, MemoryError)
#: Seconds in which the same message about skipped sessions is logged once: sweeps repeat every few seconds.
_SKIP_REPEATED_AFTER = 3600.0
#: Largest number of such messages that are remembered.
_MAX_REMEMBERED_SKIPS = 1000
_skip_logged_at: dict[str, float] = {}
#: Largest number of altered rows that the mark of a session names.
MAX_NAMED_PROBLEMS = 20


@dataclass(frozen=True)
class Quarantine:
    """Mark of a session: since when, and the altered rows that were found then."""

    since: datetime
    problems: tuple[IntegrityProblem, ...]


def parse_quarantine_of_row(session: Session) -> Quarantine | None:
    """Return the mark of a session that was read; None if it is not quarantined."""
    if session.quarantined_at is None:
        return None
    try:
        problems = tuple(
            IntegrityProblem(str(entry["table"]), str(entry["row"]), str(entry["why"]))
            for entry in json.loads(session.quarantine)
        )
    except (ValueError, TypeError, KeyError):  # the mark is not sealed
        problems = ()
    return Quarantine(session.quarantined_at, problems)


@contextmanager
def quarantine_on_integrity_error(store: Store, session_id: str) -> Iterator[None]:
    """Quarantine a session if the block raises `IntegrityError`, which is raised again.

    So does `CheckpointCorrupted` with a key of seals, as of a transcript whose messages somebody has deleted, if a row
    is missing or does not match. The error may name another session, whose call this one was about to use; then that
    one is quarantined.
    A row that merely has no seal does not quarantine its session: it may be from before sealing. Neither does a
    decision signed with a key that this process does not have: its settings may be behind those of the site.

    An error of Python is replaced by a typed one if a row of the session has a value of another type than its column:
    SQLite stores it, and what reads it may fail anywhere. It is `IntegrityError`, or `CheckpointCorrupted` without
    seals.
    """
    try:
        yield
    except IntegrityError as error:
        _quarantine_session_if_error_is_alteration(store, session_id, error)
        raise
    except CheckpointCorrupted:
        if get_seal_keys() is not None and (session_pk := _try_find_session_pk(store, session_id)) is not None:
            try_quarantine_session_if_altered(session_pk, using=store.using)
        raise
    except UNREADABLE_VALUE_ERRORS as error:
        if isinstance(error, CheckpointsError):
            raise
        typed = _find_mistyped_value_error_of_session_id(store, session_id)
        if typed is None:
            raise
        if isinstance(typed, IntegrityError):
            _quarantine_session_if_error_is_alteration(store, session_id, typed)
        raise typed from error


@contextmanager
def quarantine_on_error_of_any_session(store: Store) -> Iterator[None]:
    """Do what `quarantine_on_integrity_error` does for a block that reads rows of any sessions of the workspace.

    An `IntegrityError` quarantines the session that it names.
    """
    try:
        yield
    except IntegrityError as error:
        if error.session_pk is not None and error.is_alteration:
            try_quarantine_session_if_altered(error.session_pk, using=store.using)
        raise
    except UNREADABLE_VALUE_ERRORS as error:
        if isinstance(error, CheckpointsError):
            raise
        typed = find_mistyped_value_error_of_workspace(store.using, store.workspace_id)
        if typed is None:
            raise
        if isinstance(typed, IntegrityError) and typed.session_pk is not None:
            try_quarantine_session_if_altered(typed.session_pk, using=store.using)
        raise typed from error


@contextmanager
def quarantine_and_skip_altered_session(using: str, session_pk: int) -> Iterator[None]:
    """Suppress the error of an altered session, and quarantine it, so that a sweep goes on with the other sessions.

    A session that cannot be verified, because a row has no seal or one by a key that is not configured, is skipped
    too, and not quarantined. The error is logged.

    Args:
        using: Connection alias.
        session_pk: Key of the session that the block works on.
    """
    try:
        yield
    except (CheckpointsError, *UNREADABLE_VALUE_ERRORS) as error:
        typed = (
            error
            if isinstance(error, CheckpointsError)
            else find_mistyped_value_error_of_session(using, session_pk, str(session_pk))
        )
        if not is_error_about_one_session(typed):
            raise
        log_skipped_sessions_at_most_hourly(f"The session with the key {session_pk} was skipped: {typed}")
        if isinstance(typed, IntegrityError) and typed.is_alteration:
            try_quarantine_session_if_altered(session_pk if typed.session_pk is None else typed.session_pk, using=using)


def log_skipped_sessions_at_most_hourly(message: str) -> None:
    """Log that a sweep has skipped sessions: the same message once in an hour of this process."""
    now = time.monotonic()
    if now - _skip_logged_at.get(message, -math.inf) < _SKIP_REPEATED_AFTER:
        return
    if len(_skip_logged_at) >= _MAX_REMEMBERED_SKIPS:
        _skip_logged_at.clear()
    _skip_logged_at[message] = now
    logger.error("%s", message)


def is_unverifiable_session_error_or_raise(error: SealError) -> bool:
    """Return whether an error says that a session cannot be verified by this process, and not that it was altered.

    A process without any key can verify none: that error is raised again.
    """
    if not is_error_about_one_session(error):
        raise error
    return not (isinstance(error, IntegrityError) and error.is_alteration)


def is_error_about_one_session(error: CheckpointsError | None) -> bool:
    """Return whether an error is about the rows of one session, or about what the witness knows of one.

    It is not if this process has no key at all, or if the witness as a whole is damaged or away.
    """
    if isinstance(error, SealKeyMissing):
        return error.key_id is not None
    return isinstance(error, IntegrityError | CheckpointCorrupted | WitnessAhead | WitnessBehind)


def _quarantine_session_if_error_is_alteration(store: Store, session_id: str, error: IntegrityError) -> None:
    if not error.is_alteration:
        return
    session_pk = _try_find_session_pk(store, session_id) if error.session_pk is None else error.session_pk
    if session_pk is not None:
        try_quarantine_session_if_altered(session_pk, using=store.using)


def _find_mistyped_value_error_of_session_id(
    store: Store, session_id: str
) -> IntegrityError | CheckpointCorrupted | None:
    session_pk = _try_find_session_pk(store, session_id)
    return None if session_pk is None else find_mistyped_value_error_of_session(store.using, session_pk, session_id)


def find_mistyped_value_error_of_session(
    using: str, session_pk: int, session_id: str
) -> IntegrityError | CheckpointCorrupted | None:
    """Return the error of a row of a session with a value of another type than its column; None if there is none.

    None also if the database cannot answer, so that the error that was noticed first is raised.

    Args:
        using: Connection alias.
        session_pk: Key of the session.
        session_id: Name of the session, for the error.
    """
    value = _try_find_first_mistyped_value(
        using, mistyped_values.iterate_mistyped_values_of_sessions(using, [session_pk])
    )
    return None if value is None else value.to_error(session_id)


def find_mistyped_value_error_of_workspace(
    using: str, workspace_pk: int
) -> IntegrityError | CheckpointCorrupted | None:
    """Return the error of such a row of any session of a workspace, except of messages and contents; None as above.

    The `session_pk` of an `IntegrityError` is the key of its session.
    """
    value = _try_find_first_mistyped_value(
        using, mistyped_values.iterate_mistyped_noncontent_values_of_workspace(using, workspace_pk)
    )
    if value is None:
        return None
    names = _select_sessions_without_verifying_seals(using).filter(pk=value.session_pk)
    error = value.to_error(str(names.values_list("session_id", flat=True).first()))
    if isinstance(error, IntegrityError):
        error.session_pk = value.session_pk
    return error


def _try_find_first_mistyped_value(using: str, values: Iterator[MistypedValue]) -> MistypedValue | None:
    """Return the first value that is found; None if there is none, or if the database cannot answer."""
    if connections[using].needs_rollback:
        return None
    try:
        return next(values, None)
    except (CheckpointsError, DatabaseError) as error:
        logger.error("Columns could not be compared with their types: %s", error)
        return None


def _try_find_session_pk(store: Store, session_id: str) -> int | None:
    """Find the key of a session; None if there is none, or if the database cannot answer.

    A run knows the key of its session, whose row somebody may have renamed or moved to another workspace.
    """
    if connections[store.using].needs_rollback:
        return None
    owned_session = store.find_owned_session(session_id)
    if owned_session is not None:
        return owned_session.pk
    try:
        sessions = _select_sessions_without_verifying_seals(store.using)
        names = sessions.filter(workspace_id=store.workspace_id, session_id=session_id)
        return names.values_list("pk", flat=True).first()
    except (CheckpointsError, DatabaseError) as error:
        logger.error("Session %r could not be quarantined: %s", session_id, error)
        return None


def try_quarantine_session_if_altered(session_pk: int, *, using: str = "default") -> bool:
    """Quarantine a session after `IntegrityError`, which is not replaced by an error about the database.

    Args:
        session_pk: Key of the session.
        using: Connection alias.

    Returns:
        Whether the session is quarantined now.
    """
    if connections[using].needs_rollback:
        return False
    try:
        with database_operation(using):
            marked = quarantine_session_if_altered(using, session_pk)
            rows = _select_sessions_without_verifying_seals(using).filter(pk=session_pk, quarantined_at__isnull=False)
            return marked or rows.exists()
    except (CheckpointsError, DatabaseError) as error:  # such as `InsideTransaction`
        logger.error("The session with the key %s could not be quarantined: %s", session_pk, error)
        return False


def quarantine_session_if_altered(using: str, session_pk: int, *, noticed_by: str = "verification") -> bool:
    """Mark a session as altered and take it from its run, if one of its rows does not match.

    All rows are verified under the session's lock first, so that a reader that was overtaken by a removal of versions
    does not stop a session.

    Args:
        using: Connection alias.
        session_pk: Key of the session.
        noticed_by: Name of what found it, for the audit trail.

    Returns:
        Whether the session was marked now.
    """
    with transaction.atomic(using=using):
        session = _select_sessions_without_verifying_seals(using).filter(pk=session_pk)
        locked = session.filter(quarantined_at__isnull=True).select_for_update()
        name = locked.values_list("session_id", flat=True).first()
        if name is None:
            return False
        problems = _list_problems_of_altered_rows(using, session_pk)
        if not problems:
            return False
        mark = json.dumps([problem.to_dict() for problem in problems[:MAX_NAMED_PROBLEMS]])
        Run.objects.using(using).filter(session=session_pk, status__in=sorted(OWNING_RUN_STATUSES)).update(
            status=RunStatus.LOST, ended_at=Now()
        )
        _update_session_columns_outside_seal(
            using, session_pk, quarantined_at=Now(), quarantine=mark, owner=None, fence=F("fence") + 1
        )
        workspace = Workspace.objects.using(using).filter(pk__in=session.values("workspace"))
        workspace_pk = workspace.values_list("pk", flat=True).first()
        if workspace_pk is not None:  # else the session names none, and no audit trail has it
            insert_unchained_events.record_event_of_workspace(
                using,
                workspace_pk,
                AuditKind.SESSION_QUARANTINED,
                session_pk=session_pk,
                actor=noticed_by,
                actor_kind=ActorKind.MACHINE,
                details={"rows": len(problems), "table": problems[0].table, "row": problems[0].row},
            )
    logger.error(
        "Session %s was quarantined: row %s of %s: %s", name, *_get_row_table_and_reason_of_first_problem(problems)
    )
    return True


def _get_row_table_and_reason_of_first_problem(problems: Sequence[IntegrityProblem]) -> tuple[str, str, str]:
    return problems[0].row, problems[0].table, problems[0].why


def release_quarantine(
    store: Store,
    session_id: str,
    *,
    actor: str,
    actor_kind: ActorKind = ActorKind.PERSON,
    actor_details: Mapping[str, str] | None = None,
    reason: str,
    accept_altered: bool = False,
) -> int:
    """Let a quarantined session go on, and record who did it and why.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        actor: Name of the admin.
        actor_kind: Kind of the actor.
        actor_details: Details of the actor that are added to those in the audit trail.
        reason: Why, in a sentence.
        accept_altered: Whether to seal the rows as they are now. Without it, all rows have to match their seals, as
            they do after they were restored from a backup.

    Returns:
        The number of rows that were sealed as they are.

    Raises:
        SessionNotFound: There is no such session.
        NotQuarantined: The session is not quarantined.
        ReasonRequired: There is no reason.
        QuarantineStays: Rows do not match, and they are not accepted, or cannot be: a text that does not match its
            digest has to be restored, and so has every row where there is no key of seals.
        SealKeyMissing: This process has no key, or not the one of a row.
    """
    reason = reason.strip()
    if not reason:
        raise ReasonRequired
    with database_operation(store.using), transaction.atomic(using=store.using):
        session = _lock_quarantined_session(store, session_id)
        accepted = _require_intact_rows_or_reseal(store.using, session, accept_altered=accept_altered)
        _update_session_columns_outside_seal(store.using, session.pk, quarantined_at=None, quarantine="")
        insert_unchained_events.record_event(
            store,
            AuditKind.QUARANTINE_RELEASED,
            session_pk=session.pk,
            actor=actor,
            actor_kind=actor_kind,
            reason=reason,
            accepted=accepted,
            **(actor_details or {}),
        )
    return accepted


def _lock_quarantined_session(store: Store, session_id: str) -> Session:
    """Return the locked row of a session in quarantine.

    Raises `SessionNotFound`, `NotQuarantined`, and `QuarantineStays` if a value of it has another type than its column.
    """
    sessions = _select_sessions_without_verifying_seals(store.using)
    sessions = sessions.select_for_update().filter(workspace_id=store.workspace_id, session_id=session_id)
    session_pk = sessions.values_list("pk", flat=True).first()
    if session_pk is None:
        raise SessionNotFound(session_id)
    mistyped = mistyped_values.find_first_mistyped_value_of_session(store.using, session_pk)
    if mistyped is not None:
        raise QuarantineStays(session_id, 1, mistyped.table, mistyped.row)
    session = sessions.get()
    if session.quarantined_at is None:
        raise NotQuarantined(session_id)
    return session


def _require_intact_rows_or_reseal(using: str, session: Session, *, accept_altered: bool) -> int:
    """Require that all rows of a session match their seals, or seal altered ones as they are if they are accepted.

    Returns the number of rows that were sealed. Raises `QuarantineStays`, `SealKeyMissing`.
    """
    found = list(verify_session_rows.iterate_session_problems(using, session, VerificationCounts()))
    _raise_on_unknown_seal_key(found)
    problems = [problem for problem in found if problem.is_alteration]
    if not problems:
        return 0
    if not accept_altered or get_seal_keys() is None:
        raise QuarantineStays(session.session_id, len(problems), problems[0].table, problems[0].row)
    return _reseal_altered_rows(using, session)


def _select_sessions_without_verifying_seals(using: str) -> models.QuerySet[Session]:
    """Select sessions by a query set that neither verifies nor seals."""
    return models.QuerySet(Session, using=using)


def _list_problems_of_altered_rows(using: str, session_pk: int) -> list[IntegrityProblem]:
    """List the altered rows of a locked session. If values have another type than their column, only these are read."""
    mistyped = list(
        map(
            IntegrityProblem.from_mistyped_value,
            mistyped_values.iterate_mistyped_values_of_sessions(using, [session_pk]),
        )
    )
    if mistyped:
        return mistyped
    session = _select_sessions_without_verifying_seals(using).get(pk=session_pk)
    problems = verify_session_rows.iterate_session_problems(using, session, VerificationCounts())
    return [problem for problem in problems if problem.is_alteration]


def _raise_on_unknown_seal_key(problems: Iterable[IntegrityProblem]) -> None:
    for problem in problems:
        if problem.unknown_key is not None:
            raise problem.to_error()


def _update_session_columns_outside_seal(using: str, session_pk: int, **changes: Any) -> None:
    """Change columns of a session that are not sealed, whether its seal matches or not."""
    changes |= {"revision": F("revision") + 1, "updated_at": Now()}
    _select_sessions_without_verifying_seals(using).filter(pk=session_pk).update(**changes)


def _reseal_altered_rows(using: str, session: Session) -> int:
    """Seal the rows of a session that do not match their seals. Raises `QuarantineStays`."""
    count = 0
    tables: tuple[type[models.Model], ...] = (*verify_session_rows.SESSION_MODELS, Message)
    for model in tables:
        rows: models.QuerySet[Any] = models.QuerySet(model, using=using).filter(session=session)
        altered = [row.pk for row in rows.order_by("pk").iterator(1000) if not _does_row_match_seal(row)]
        count += rows.filter(pk__in=altered).update(row_seal=None)
    _select_sessions_without_verifying_seals(using).filter(pk=session.pk).update(row_seal=None)
    try:
        backfill_row_seals.seal_unsealed_rows_ignoring_witness(using, session.pk)
    except IntegrityError as error:
        raise QuarantineStays(session.session_id, 1, error.table, error.row) from error
    return count + 1


def _does_row_match_seal(row: models.Model) -> bool:
    try:
        row_seals.verify_row(row)
    except IntegrityError:
        return False
    return True
