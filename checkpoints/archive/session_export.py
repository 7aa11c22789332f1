"""Export a session to one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from django.db import connections, models, transaction

from checkpoints.archive import own_and_origin_segments, row_serializers
from checkpoints.archive.archive_results import ExportedFile
from checkpoints.archive.atomic_file import open_atomic_replacement
from checkpoints.archive.session_file_reader_and_writer import FileHeader, SessionFileWriter
from checkpoints.audit import insert_unchained_events
from checkpoints.db import clock
from checkpoints.db.batched_row_iteration import iterate_rows_read_in_batches
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import AuditKind
from checkpoints.integrity import verify_session_rows
from checkpoints.models import Blob, FrameworkWrite, Message, Segment, Session
from checkpoints.seals import row_seals
from checkpoints.seals.sealed_model import SealedModel
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.database_client_state import Store
from checkpoints.versions import opaque_bytes_as_message_differences, version_seals_and_transcript_verification


def export_session(store: Store, session_id: str, path: str | Path, *, audited: bool = True) -> ExportedFile:
    """Write a session, as it is at one moment, to `path`. Raises `SessionNotFound`, `FileNotWritten`.

    The session's row stays locked until the file is renamed, so that of two exports the later state remains.
    """
    target = Path(path).absolute()
    store.flush_pending_writes(session_id)
    with database_operation(store.using, writes=audited), transaction.atomic(using=store.using):
        session = look_up_and_lock_rows.get_session(store, session_id, lock=True)
        with open_atomic_replacement(target) as file:
            header = FileHeader(session_id, store.workspace, session.latest_version, clock.now().isoformat())
            writer = SessionFileWriter(file, header)
            for kind, row in _lock_session_and_iterate_verified_rows(store, session):
                writer.write_row(kind, row_serializers.serialize_row(row))
            digest = writer.write_end_line()
            exported_file = ExportedFile(target, session_id, session.latest_version, writer.size, digest)
        if audited:
            insert_unchained_events.record_event(
                store,
                AuditKind.EXPORTED,
                session_pk=session.pk,
                actor="export",
                version=exported_file.version,
                digest=exported_file.digest,
            )
    return exported_file


def _lock_session_and_iterate_verified_rows(store: Store, session: Session) -> Iterator[tuple[str, models.Model]]:
    verify_session_rows.lock_session_and_require_rows_complete(store.using, session)
    segment_lengths = own_and_origin_segments.map_origin_segments_to_needed_lengths(store.using, session)
    special: dict[type[models.Model], Callable[[], Iterable[models.Model]]] = {
        Session: lambda: [session],
        Segment: lambda: own_and_origin_segments.select_own_and_origin_segments(store.using, session, segment_lengths),
        Message: lambda: _iterate_verified_messages(store, session, segment_lengths),
    }
    for kind, model in row_serializers.TABLES.items():
        rows = model._default_manager.using(store.using).filter(session=session) if model not in special else None
        model_rows = special[model]() if rows is None else iterate_rows_read_in_batches(rows)
        for row in model_rows:
            if isinstance(row, SealedModel):
                row_seals.verify_row(row)
            if isinstance(row, Blob | FrameworkWrite):
                opaque_bytes_as_message_differences.complete_differences_in_place(store.using, [row])
            yield kind, row


def _iterate_verified_messages(store: Store, session: Session, segment_lengths: dict[int, int]) -> Iterator[Message]:
    """Iterate over the messages by segment and position, so that each comes after its predecessors."""
    for segment in own_and_origin_segments.select_own_and_origin_segments(store.using, session, segment_lengths):
        messages = own_and_origin_segments.select_needed_messages_of_segment(store.using, segment, segment_lengths)
        yield from version_seals_and_transcript_verification.iterate_verified_messages(
            connections[store.using], segment.pk, messages
        )
