"""Rows of an imported session beside its transcript: the session, and one run for its whole life."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db.models import F
from django.db.models.functions import Now

from checkpoints.audit import log
from checkpoints.enums import AuditKind, RunStatus, SessionStatus
from checkpoints.exceptions import InvalidIdentifier
from checkpoints.formats.canonical import parse_json, to_canonical_json
from checkpoints.formats.digests import digest_text
from checkpoints.ids import validate_id
from checkpoints.importers.import_errors import ImportRefused
from checkpoints.models import Run, Segment, Session
from checkpoints.sessions.lifecycle import SessionDescription
from checkpoints.store.store import Store

#: Machine of an imported session's run, which is unknown.
IMPORT_HOST: Final = "imported"
IMPORT_MARK: Final = "import"


@dataclass
class TranscriptOrigin:
    """Description of a transcript by itself. `metadata` and `title` may grow while it is read."""

    session_id: str
    format: str
    agent: str = ""
    program: str = ""
    title: str = ""
    labels: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    def get_session_columns(self) -> dict[str, Any]:
        """Return the columns of the session that an import sets."""
        metadata = {**self.metadata, IMPORT_MARK: {**self.metadata.get(IMPORT_MARK, {}), "format": self.format}}
        return SessionDescription(
            title=self.title, agent=self.agent, metadata=metadata, labels=self.labels
        ).get_columns()


def make_session_id(told: str, *parts: str) -> str:
    """Make a session id from a transcript's own name; if that is not a valid one, from a digest of it."""
    name = "/".join([told, *parts])
    try:
        return validate_id("session id", name)
    except InvalidIdentifier:
        return f"{IMPORT_MARK}-{digest_text(name)[:32]}"


def truncate_to_storable(text: str, length: int) -> str:
    """Truncate text to a column of that length, without characters that a database cannot store."""
    return text[:length].encode("utf-8", "replace").decode().replace("\0", "")


def require_unchanged_import(row: Session, runs: list[Run], origin: TranscriptOrigin) -> None:
    """Refuse a session that was not imported, or that has been continued since it was imported."""
    import_mark = parse_json(row.metadata).get(IMPORT_MARK)
    if not isinstance(import_mark, dict) or "format" not in import_mark:
        raise ImportRefused(origin.session_id, "it was not imported")
    if import_mark["format"] != origin.format:
        raise ImportRefused(origin.session_id, f"it was imported from {import_mark['format']}")
    if any(run.owner_token != IMPORT_MARK for run in runs):
        raise ImportRefused(origin.session_id, "an agent has gone on with it since it was imported")


def create_session_and_run(store: Store, origin: TranscriptOrigin, first: datetime) -> tuple[Session, Run]:
    """Create the session and its run; both carry the time of the first message."""
    row = Session(
        workspace_id=store.workspace_id, session_id=origin.session_id, created_at=first, **origin.get_session_columns()
    )
    row.save(using=store.using, force_insert=True)
    row.head_segment = Segment.objects.using(store.using).create(session=row)
    row.save(using=store.using, update_fields=["head_segment"])
    run = Run(
        session=row,
        number=1,
        status=RunStatus.COMPLETED,
        fence=0,
        host=IMPORT_HOST,
        host_identity="",
        pid=0,
        owner_token=IMPORT_MARK,
        code_version=truncate_to_storable(origin.program, 200),
        started_at=first,
        heartbeat_at=first,
        lease_expires_at=first,
        ended_at=first,
    )
    run.save(using=store.using, force_insert=True)
    log.record_event(store, AuditKind.SESSION_STARTED, session_pk=row.pk, actor=IMPORT_MARK, format=origin.format)
    return row, run


def finish_imported_session(
    store: Store, row: Session, run: Run, origin: TranscriptOrigin, *, last: datetime, broken_off: bool
) -> None:
    """Update the columns that are only known at the end of a transcript. Changes nothing if they are equal."""
    status = SessionStatus.CANCELLED if broken_off else SessionStatus.COMPLETED
    columns = origin.get_session_columns()
    new_values = {"title": columns["title"], "metadata": columns["metadata"], "status": status}
    if all(getattr(row, name) == value for name, value in new_values.items()):
        return
    rows = Session.objects.using(store.using).filter(pk=row.pk)
    rows.update(**new_values, revision=F("revision") + 1, updated_at=Now())
    Run.objects.using(store.using).filter(pk=run.pk).update(
        status=RunStatus(status),
        code_version=truncate_to_storable(origin.program, 200),
        heartbeat_at=last,
        lease_expires_at=last,
        ended_at=last,
    )
    log.record_event(
        store,
        AuditKind.SESSION_FINISHED,
        session_pk=row.pk,
        actor=IMPORT_MARK,
        status=str(status),
        format=origin.format,
        version=row.latest_version,
    )


def to_storable(values: dict[str, Any]) -> dict[str, Any]:
    """Return `values` without empty ones, checked to be storable."""
    storable_values = {name: value for name, value in values.items() if value not in (None, "", [], {})}
    to_canonical_json(storable_values, "metadata")
    return storable_values
