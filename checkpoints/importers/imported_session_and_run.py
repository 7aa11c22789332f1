"""Rows of an imported session beside its transcript: the session, and one run for its whole life."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import F
from django.db.models.functions import Now

from checkpoints.audit import insert_unchained_events
from checkpoints.db import clock
from checkpoints.db.clock import read_database_time
from checkpoints.db.execute_cached_row_sql import (
    insert_rows_and_set_keys,
    insert_rows_sealed_if_enabled,
    update_columns_of_rows,
)
from checkpoints.enums import IMPORTED_RUN_HOST, IMPORTED_RUN_OWNER, ActorKind, AuditKind, RunStatus, SessionStatus
from checkpoints.exceptions import InvalidIdentifier
from checkpoints.formats.canonical_json import parse_json, to_canonical_json
from checkpoints.formats.digests import digest_text
from checkpoints.formats.storable_text import truncate_to_storable
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.importers.find_and_read_transcript_files import LIVE_SECONDS
from checkpoints.importers.import_errors import ImportRefused
from checkpoints.importers.price_table import ESTIMATE_MARKS, Cost
from checkpoints.models import Run, Segment, Session
from checkpoints.seals import session_names_in_witness
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store.database_client_state import Store

#: Machine of an imported session's run, which is unknown.
IMPORT_MARK: Final = "import"
_SURELY_OLD: Final = timedelta(days=2)
#: Format of the sessions that the adapter of the Claude Agent SDK writes while they run.
MIRROR_FORMAT: Final = "claude-agent-sdk"


@dataclass
class TranscriptOrigin:
    """Description of a transcript by itself. `metadata` and `title` may grow while it is read.

    `source_path` is the path of its file, empty for values from memory; `imported_by` names who imports it.
    """

    session_id: str
    format: str
    source_path: str = ""
    imported_by: str = ""
    parent_session_id: str = ""
    agent: str = ""
    program: str = ""
    title: str = ""
    labels: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    def get_session_columns(self) -> dict[str, Any]:
        """Return the columns of the session that an import sets."""
        mark = {**self.metadata.get(IMPORT_MARK, {}), "format": self.format}
        if self.source_path:
            mark["path"] = self.source_path
        description = NewSessionFields(
            title=self.title, agent=self.agent, metadata={**self.metadata, IMPORT_MARK: mark}, labels=self.labels
        )
        return {**description.build_columns(), "parent_session_id": self.parent_session_id}


@dataclass(frozen=True)
class SessionEnd:
    """End of a transcript, as far as it has been read.

    `live`: it may go on. `interrupted`: it ends before the last calls were answered, or says that it was interrupted.
    """

    last: datetime
    has_times: bool
    live: bool
    interrupted: bool
    cost: Cost


def make_valid_session_id(own_name: str, *parts: str) -> str:
    """Make a session id from a transcript's own name; if that is not a valid one, from a digest of it."""
    name = "/".join([own_name, *parts])
    try:
        return validate_id("session id", name)
    except InvalidIdentifier:
        return f"{IMPORT_MARK}-{digest_text(name)[:32]}"


def require_unchanged_import_and_get_path(row: Session, runs: list[Run], origin: TranscriptOrigin) -> str:
    """Refuse a session that was not imported, or that has been continued since it was imported.

    Returns the path of the file that it was imported from, or an empty text.
    """
    import_mark = parse_json(row.metadata).get(IMPORT_MARK)
    if not isinstance(import_mark, dict) or "format" not in import_mark:
        raise ImportRefused(origin.session_id, "it was not imported")
    if import_mark["format"] != origin.format:
        raise ImportRefused(origin.session_id, f"it was imported from {import_mark['format']}")
    if any(run.owner_token != IMPORTED_RUN_OWNER for run in runs):
        raise ImportRefused(origin.session_id, "an agent has gone on with it since it was imported")
    return str(import_mark.get("path", ""))


def build_session_and_run(
    store: Store, origin: TranscriptOrigin, first: datetime, end: SessionEnd | None
) -> tuple[Session, Run]:
    """Build a new session and its run, which carry the time of the first message, as they are at `end` if that is
    known."""
    row = Session(
        workspace_id=store.workspace_id, session_id=origin.session_id, created_at=first, **origin.get_session_columns()
    )
    run = build_import_run(row, 1, first, origin.program)
    if end is not None:
        for name, value in _build_session_columns_at_end(origin, end, row, run).items():
            setattr(row, name, value)
        for name, value in _build_run_columns_at_end(origin, end, end.last).items():
            setattr(run, name, value)
    return row, run


def insert_sessions_with_runs_and_events(
    store: Store, sessions: Sequence[tuple[TranscriptOrigin, Session, Run]]
) -> None:
    """Insert built sessions with an empty segment each, and their runs, and record that they were imported.

    The sessions have no seals: these are written with their first versions, in the same transaction. Raises
    `WitnessedSessionMissing` if the witness knows another session of the name of one.
    """
    rows = [row for _, row, _ in sessions]
    insert_rows_and_set_keys(store.using, rows)
    for row in rows:
        session_names_in_witness.record_new_session_name_or_raise(
            store.workspace, row.session_id, row.key_space, row.pk
        )
    segments = [Segment(session=row) for row in rows]
    insert_rows_sealed_if_enabled(store.using, segments)
    events = []
    for (origin, row, run), segment in zip(sessions, segments, strict=True):
        row.head_segment, run.session_id = segment, row.pk
        details = {"format": origin.format, **({"path": origin.source_path} if origin.source_path else {})}
        events.append(
            insert_unchained_events.build_event(
                store.workspace_id,
                AuditKind.SESSION_IMPORTED,
                session_pk=row.pk,
                actor=origin.imported_by or IMPORT_MARK,
                actor_kind=ActorKind.PERSON if origin.imported_by else ActorKind.MACHINE,
                **details,
            )
        )
    head_segments = [(row.head_segment_id, row.pk) for row in rows]
    update_columns_of_rows(store.using, Session, ("head_segment",), head_segments)
    insert_rows_and_set_keys(store.using, [run for _, _, run in sessions])
    insert_unchained_events.insert_events(store.using, events)


def update_imported_session_and_run_at_end(
    store: Store, row: Session, run: Run, origin: TranscriptOrigin, end: SessionEnd, *, has_new_versions: bool
) -> None:
    """Update the columns that are only known at the end of a transcript. Changes nothing if those of `row` are equal.

    The activity of a session is that of its transcript. A recent one is that of the import, so that open pages refresh.
    Without new versions the cost stays as it is, because its amount is that of the newest version.
    """
    new_values = _build_session_columns_at_end(origin, end, row, run)
    if not has_new_versions:
        new_values |= _build_columns_keeping_stored_cost(row, new_values["metadata"])
    is_recent = is_transcript_end_recent(store.using, end)
    rows = Session.objects.using(store.using).filter(pk=row.pk)
    if any(getattr(row, name) != value for name, value in new_values.items()) or (
        row.updated_at != end.last and not is_recent
    ):
        new_values["updated_at"] = Now() if is_recent else end.last
        rows.update(**new_values, revision=F("revision") + 1)
    lease_end = read_database_time(store.using) + timedelta(seconds=LIVE_SECONDS) if end.live else end.last
    Run.objects.using(store.using).filter(pk=run.pk).update(**_build_run_columns_at_end(origin, end, lease_end))


def is_transcript_end_recent(using: str, end: SessionEnd) -> bool:
    """Return whether a transcript went on so recently that its import counts as activity."""
    if clock.now() - end.last > _SURELY_OLD:  # whatever the clocks differ by
        return False
    return (read_database_time(using) - end.last).total_seconds() < LIVE_SECONDS


def _build_session_columns_at_end(origin: TranscriptOrigin, end: SessionEnd, row: Session, run: Run) -> dict[str, Any]:
    """Return the columns of a session that are only known at the end of its transcript."""
    columns = build_transcript_derived_columns(origin, end)
    columns["status"] = SessionStatus.ACTIVE if end.live else _get_closed_status(end)
    columns["owner_id"] = run.pk if end.live else None
    if row.created_at > end.last:
        columns["created_at"] = end.last
    return columns


def _build_columns_keeping_stored_cost(row: Session, metadata: str) -> dict[str, Any]:
    """Return the columns that describe the stored cost of a session, with its estimate in the new `metadata`."""
    described, stored = parse_json(metadata), parse_json(row.metadata)
    for name in ESTIMATE_MARKS:
        described[IMPORT_MARK].pop(name, None)
        if (mark := stored[IMPORT_MARK].get(name)) is not None:
            described[IMPORT_MARK][name] = mark
    return {"cost_basis": row.cost_basis, "metadata": to_canonical_json(described, "metadata")}


def _build_run_columns_at_end(origin: TranscriptOrigin, end: SessionEnd, lease_end: datetime) -> dict[str, Any]:
    return {
        "status": RunStatus.RUNNING if end.live else RunStatus(_get_closed_status(end)),
        "code_version": truncate_to_storable(origin.program, 200),
        "heartbeat_at": end.last,
        "lease_expires_at": lease_end,
        "ended_at": None if end.live else end.last,
    }


def _get_closed_status(end: SessionEnd) -> SessionStatus:
    return SessionStatus.CANCELLED if end.interrupted else SessionStatus.COMPLETED


def build_transcript_derived_columns(origin: TranscriptOrigin, end: SessionEnd, *also: str) -> dict[str, Any]:
    """Return the columns of a session that describe its transcript as far as it has been read.

    Args:
        origin: The transcript.
        end: Its end so far.
        also: Names of further columns that an import sets.
    """
    columns = origin.get_session_columns()
    if mark := end.cost.build_import_mark():
        metadata = parse_json(columns["metadata"])
        metadata[IMPORT_MARK] |= mark
        columns["metadata"] = to_canonical_json(metadata, "metadata")
    described = {name: columns[name] for name in ("title", "metadata", "parent_session_id", *also)}
    return {**described, "has_times": end.has_times, "cost_basis": end.cost.basis}


def build_import_run(row: Session, number: int, at: datetime, program: str = "") -> Run:
    """Build the run to which the calls of a foreign transcript belong; nothing executes in it."""
    return Run(
        session=row,
        number=number,
        status=RunStatus.COMPLETED,
        fence=0,
        host=IMPORTED_RUN_HOST,
        host_identity="",
        pid=0,
        owner_token=IMPORTED_RUN_OWNER,
        code_version=truncate_to_storable(program, 200),
        started_at=at,
        heartbeat_at=at,
        lease_expires_at=at,
        ended_at=at,
    )


def omit_empty_values_and_require_storable(values: dict[str, Any]) -> dict[str, Any]:
    """Return `values` without empty ones, checked to be storable."""
    storable_values = {name: value for name, value in values.items() if value not in (None, "", [], {})}
    to_canonical_json(storable_values, "metadata")
    return storable_values
