"""Seals for rows that were written before a key was configured."""

from __future__ import annotations

from typing import Any

from django.db import models, transaction

from checkpoints.audit import insert_unchained_events
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.exceptions import IntegrityError, SealKeyMissing, WitnessedSessionMissing
from checkpoints.integrity import mistyped_values, verify_session_rows
from checkpoints.models import AuditEvent, EarlyResponse, Message, Session
from checkpoints.seals import row_seals, sealed_model, session_names_in_witness, witness
from checkpoints.seals.seal_keys import KEY_SETTING, get_seal_keys
from checkpoints.seals.witness_records import build_session_name, parse_session_pk

_CHUNK_SIZE = 1000


def seal_unsealed_session_rows(using: str, session_pk: int) -> int:
    """Seal the rows of a session that have no seal, unless somebody has removed the seal of the session.

    As `seal_unsealed_rows_ignoring_witness`; `IntegrityError` also if a value has another type than its column, or if
    the witness knows the session and it has no seal, or knows another session of its name.
    """
    mistyped = mistyped_values.find_first_mistyped_value_of_session(using, session_pk)
    if mistyped is not None:
        raise mistyped.to_error(str(session_pk))
    with transaction.atomic(using=using):
        session = Session.objects.using(using).select_for_update().filter(pk=session_pk).first()
        if session is not None:
            _require_seal_was_not_removed(session)
            _require_no_other_witnessed_session_of_name(session)
        return seal_unsealed_rows_ignoring_witness(using, session_pk)


def seal_unsealed_rows_ignoring_witness(using: str, session_pk: int) -> int:
    """Seal the rows of a session that have no seal, whatever the witness knows. Returns their number.

    What is sealed is what the database holds now: nothing tells whether a row was altered before. Only a transcript
    whose chain does not match is refused. The session's row is locked meanwhile. Raises `SealKeyMissing` without a key,
    and `IntegrityError`, after which nothing is sealed.
    """
    keys = get_seal_keys()
    if keys is None:
        raise SealKeyMissing(f"{KEY_SETTING} is empty")
    with transaction.atomic(using=using):
        session = Session.objects.using(using).select_for_update().filter(pk=session_pk).first()
        if session is None:
            return 0
        session_names_in_witness.record_stored_session_name_if_unknown(
            session.workspace.slug, session.session_id, session.key_space, session.pk
        )
        count = 0
        tables: tuple[type[models.Model], ...] = (*verify_session_rows.SESSION_MODELS, Message)
        for model in tables:
            count += _seal_rows_in_batches(
                model._default_manager.using(using).filter(session=session, row_seal=None),
                counted=bool(session.row_seal),
            )
        count += _seal_rows_in_batches(Session.objects.using(using).filter(pk=session_pk, row_seal=None))
        if count:
            session.refresh_from_db(using=using)
            for problem in verify_session_rows.iterate_session_problems(
                using, session, verify_session_rows.VerificationCounts()
            ):
                raise problem.to_error()
            insert_unchained_events.record_event_of_workspace(
                using,
                session.workspace_id,
                AuditKind.SESSION_SEALED,
                session_pk=session_pk,
                actor="seal_sessions",
                actor_kind=ActorKind.MACHINE,
                details={"rows": count, "key": keys.current.id.hex()},
            )
    return count


def _require_seal_was_not_removed(session: Session) -> None:
    """Require that the witness, if there is one, does not know a session without a seal. Raises `IntegrityError`."""
    kept = witness.get_witness()
    if session.row_seal or kept is None:
        return
    known = kept.find_session(build_session_name(session.key_space, session.pk))
    if known is not None and known.number >= 0:
        why = "it has no seal, and the witness knows one: somebody has removed it"
        raise IntegrityError(Session._meta.db_table, row_seals.describe_row(session), why)


def _require_no_other_witnessed_session_of_name(session: Session) -> None:
    """Require that the witness, if there is one, knows no other session of this name. Raises `WitnessedSessionMissing`.

    Whoever has deleted or renamed that one could put a row without a seal in its place.
    """
    own = build_session_name(session.key_space, session.pk)
    for name, number in session_names_in_witness.list_sessions_with_name_in_witness(
        session.workspace.slug, session.session_id
    ):
        if name != own:
            raise WitnessedSessionMissing(session.session_id, parse_session_pk(name), number)


def seal_unsealed_audit_events_and_early_responses(using: str) -> int:
    """Seal the entries of the audit trail, and the early responses to other agents' calls, that have no seal.

    Returns their number.
    """
    with transaction.atomic(using=using):
        tables: tuple[type[models.Model], ...] = (AuditEvent, EarlyResponse)
        return sum(_seal_rows_in_batches(model._default_manager.using(using).filter(row_seal=None)) for model in tables)


def _seal_rows_in_batches(rows: models.QuerySet[Any], *, counted: bool = True) -> int:
    count = 0
    while pks := list(rows.order_by("pk").values_list("pk", flat=True)[:_CHUNK_SIZE]):
        sealed_model.seal_stored_rows(rows.filter(pk__in=pks), counted=counted)
        count += len(pks)
    return count
