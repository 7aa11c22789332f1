"""A session as one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from django.db import models, transaction

from checkpoints import clock
from checkpoints.enums import AuditKind
from checkpoints.files import reach, tables
from checkpoints.files.atomic import replacing
from checkpoints.files.format import Header, Writer
from checkpoints.models import Message, Segment, Session
from checkpoints.saving import audit, lookup
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store

#: Rows are read so many at a time.
_CHUNK = 500


@dataclass(frozen=True)
class ExportedFile:
    """File that has been written.

    Attributes:
        path: Path of the file.
        session_id: Identifier of the session in it.
        version: Newest version of the session.
        size: Size in bytes.
        digest: Digest the file ends with.
    """

    path: Path
    session_id: str
    version: int
    size: int
    digest: str


def export(store: Store, session_id: str, path: str | Path, *, audited: bool = True) -> ExportedFile:
    """Write a session, as it is at one moment, to `path`. Raises `SessionNotFound`, `FileNotWritten`.

    The session's row stays locked until the file has its name, so that of two exports the later state remains.
    """
    target = Path(path).absolute()
    store.flush(session_id)
    with operation(store.using, writes=audited), transaction.atomic(using=store.using):
        session = lookup.session(store, session_id, lock=True)
        with replacing(target) as file:
            header = Header(session_id, store.workspace, session.latest_version, clock.now().isoformat())
            writer = Writer(file, header)
            for kind, row in _rows(store, session):
                writer.row(kind, tables.dumped(row))
            digest = writer.end()
            exported = ExportedFile(target, session_id, session.latest_version, writer.size, digest)
        if audited:
            audit.record(
                store,
                AuditKind.EXPORTED,
                session_pk=session.pk,
                actor="export",
                version=exported.version,
                digest=exported.digest,
            )
    return exported


def _rows(store: Store, session: Session) -> Iterator[tuple[str, models.Model]]:
    borrowed = reach.borrowed(store.using, session)
    special: dict[type[models.Model], Callable[[], Iterable[models.Model]]] = {
        Session: lambda: [session],
        Segment: lambda: reach.segments(store.using, session, borrowed),
        Message: lambda: _messages(store, session, borrowed),
    }
    for kind, model in tables.TABLES.items():
        rows = model._default_manager.using(store.using).filter(session=session) if model not in special else None
        found = special[model]() if rows is None else rows.order_by("pk").iterator(_CHUNK)
        yield from ((kind, row) for row in found)


def _messages(store: Store, session: Session, borrowed: dict[int, int]) -> Iterator[Message]:
    """In the order of their segments and places, so that each stands behind those it goes on from."""
    for segment in reach.segments(store.using, session, borrowed):
        yield from reach.messages(store.using, segment, borrowed).iterator(_CHUNK)
