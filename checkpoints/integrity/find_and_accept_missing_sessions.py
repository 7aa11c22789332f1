"""Sessions that the witness knows and the database lacks, although this library has not deleted them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db import transaction

from checkpoints.audit import insert_unchained_events
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.exceptions import ReasonRequired
from checkpoints.integrity.verify_session_rows import IntegrityProblem
from checkpoints.models import AuditEvent, Session, Workspace
from checkpoints.seals import session_names_in_witness, witness
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.seals.witness_records import (
    build_head_of_deleted_session,
    build_session_name,
    is_session_name_not_digest,
    parse_session_pk,
)

#: Number of sessions that one statement looks for.
_BATCH_SIZE = 500


@dataclass(frozen=True)
class MissingSession:
    """Session that the witness knows and the database lacks.

    Attributes:
        name: Name of the session in the witness.
        pk: Key that its row had.
        number: Number of its last write.
        workspace_pk: Key of its workspace, by the audit trail; of the first one if no entry is left.
    """

    name: str
    pk: int
    number: int
    workspace_pk: int

    def to_problem(self) -> IntegrityProblem:
        """Return what a verification says about it."""
        why = (
            f"the witness knows it, with {self.number} writes, and it is missing: somebody has deleted it, or has put "
            "an older copy of the database back"
        )
        return IntegrityProblem(Session._meta.db_table, str(self.pk), why)


def find_sessions_missing_from_database(using: str) -> list[MissingSession]:
    """Find the sessions that the witness knows, and that were neither deleted by this library nor are in the database.

    None without a witness or without a key of seals. Raises the witness's own subclasses of `WitnessError`.
    """
    kept = witness.get_witness()
    if kept is None or get_seal_keys() is None:
        return []
    missing = []
    # The names are read before the database, so that one that is created meanwhile is in both.
    for name in _iterate_names_without_row(using, list(filter(is_session_name_not_digest, kept.list_session_names()))):
        known = kept.find_session(name)
        if known is not None and known.number >= 0:
            missing.append(_build_missing_session(using, name, known.number))
    return missing


def find_sessions_of_name_missing_from_database(using: str, session_id: str) -> list[MissingSession]:
    """Find the missing sessions of one name, in every workspace. Raises as `find_sessions_missing_from_database` does.

    Args:
        using: Connection alias.
        session_id: Name of the sessions.
    """
    workspaces = Workspace.objects.using(using).values_list("slug", flat=True)
    found = dict(
        session
        for workspace in workspaces
        for session in session_names_in_witness.list_sessions_with_name_in_witness(workspace, session_id)
    )
    return [_build_missing_session(using, name, found[name]) for name in _iterate_names_without_row(using, list(found))]


def accept_missing_session_in_witness(using: str, missing: MissingSession, *, actor: str, reason: str) -> None:
    """Note in the witness that a session is gone, and record who did it and why.

    Args:
        using: Connection alias.
        missing: The session, as `find_sessions_missing_from_database` returns it.
        actor: Name of who does it.
        reason: Why, in a sentence.

    Raises:
        ReasonRequired: There is no reason.
    """
    kept = witness.get_witness()
    if not reason.strip():
        raise ReasonRequired
    if kept is None:
        return
    with transaction.atomic(using=using):
        insert_unchained_events.record_event_of_workspace(
            using,
            missing.workspace_pk,
            AuditKind.WITNESS_ADOPTED,
            session_pk=missing.pk,
            actor=actor,
            actor_kind=ActorKind.MACHINE,
            details={"reason": reason, "known": missing.number, "stored": -1},
        )
        kept.record_adopted_head(build_head_of_deleted_session(missing.name))


def _build_missing_session(using: str, name: str, number: int) -> MissingSession:
    pk = parse_session_pk(name)
    return MissingSession(name, pk, number, _get_workspace_key_of_missing_session(using, pk))


def _iterate_names_without_row(using: str, names: list[str]) -> Iterator[str]:
    for start in range(0, len(names), _BATCH_SIZE):
        batch = names[start : start + _BATCH_SIZE]
        rows = Session.objects.using(using).filter(pk__in=[parse_session_pk(name) for name in batch])
        stored = {build_session_name(key_space, pk) for pk, key_space in rows.values_list("pk", "key_space")}
        yield from (name for name in batch if name not in stored)


def _get_workspace_key_of_missing_session(using: str, session_pk: int) -> int:
    """Find the workspace of a session that is gone by its newest entry in the audit trail; else the first workspace."""
    events = AuditEvent.objects.using(using).filter(session=session_pk).order_by("-pk")
    known = events.values_list("workspace_id", flat=True).first()
    if known is None:
        known = Workspace.objects.using(using).order_by("pk").values_list("pk", flat=True)[0]
    return known
