"""A session from its file: the same history, in another database.

What was alive when the file was written is not alive here. Its runs are lost, and a call that may have happened since
is as undecided as after a crash; approvals that were not used are asked for again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import IntegrityError, models, transaction
from django.db.models.functions import Now

from checkpoints.enums import (
    FINISHED_SESSION,
    OWNING_RUN,
    UNDECIDED_CALL,
    AuditKind,
    CallStatus,
    InterruptReason,
    RunStatus,
    SessionStatus,
)
from checkpoints.exceptions import (
    CheckpointCorrupted,
    CheckpointsError,
    FileDamaged,
    ImportConflict,
    SessionExists,
    WrongWorkspace,
)
from checkpoints.files import tables
from checkpoints.files.format import Reader
from checkpoints.ids import checked
from checkpoints.models import Checkpoint, Message, Run, Segment, Session, ToolCall, Workspace
from checkpoints.saving import audit, calls
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store
from checkpoints.serde import digests

#: Rows are written so many at a time.
_BATCH = 500
_OPEN = frozenset({CallStatus.ISSUED, CallStatus.INTERRUPTED, CallStatus.RERUN_APPROVED})


@dataclass(frozen=True)
class ImportedSession:
    """Session that has been imported.

    Attributes:
        session_id: Identifier of the session.
        version: Its newest version.
        undecided: Number of calls a person has to decide about.
    """

    session_id: str
    version: int
    undecided: int


def import_file(store: Store, path: str | Path, *, session_id: str | None = None) -> ImportedSession:
    """Take over the session in `path`, which has to be `session_id` where that is given.

    The whole file is read and proved before anything is written, and it is written in one transaction. Raises
    `FileNotReadable`, `FileDamaged`, `SchemaFromFuture`, `WrongSession`, `WrongWorkspace`, `SessionExists`,
    `ImportConflict`.
    """
    reader = Reader(Path(path).absolute(), session_id)
    header = reader.header
    checked("session id", header.session_id)
    if header.workspace != store.workspace:
        raise WrongWorkspace(reader.path, header.workspace, store.workspace)
    with operation(store.using):
        try:
            with transaction.atomic(using=store.using):
                return _Import(store, reader).run()
        except IntegrityError as error:
            raise ImportConflict(reader.path, str(error).splitlines()[0]) from error
        except CheckpointCorrupted as error:
            raise FileDamaged(reader.path, error.detail.rstrip(".")) from error
        except CheckpointsError:
            raise
        except ValueError as error:
            raise FileDamaged(reader.path, str(error)) from error


@dataclass
class _Import:
    store: Store
    reader: Reader
    #: New keys by table and old key, and the chain at the end of each place of a segment.
    keys: dict[type[models.Model], dict[Any, Any]] = field(default_factory=dict)
    chains: dict[int, dict[int, bytes]] = field(default_factory=dict)
    parents: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    head: int | None = None

    def run(self) -> ImportedSession:
        rows = self._rows()
        session = self._session(next(rows, None))
        for batch in _batches(rows):
            self._write(session, batch)
        self._finish(session)
        undecided = len(calls.undecided(self.store, session))
        return ImportedSession(session.session_id, session.latest_version, undecided)

    def _rows(self) -> Iterator[models.Model]:
        order = list(tables.TABLES)
        place = 0
        for kind, values in self.reader.rows():
            if kind not in tables.TABLES or order.index(kind) < place:
                raise ValueError(f"{kind!r} does not belong where it stands")
            place = order.index(kind)
            self.counts[kind] += 1
            yield tables.loaded(tables.TABLES[kind], tables.upgraded(kind, values, self.reader.header.version))

    def _session(self, row: models.Model | None) -> Session:
        header, store = self.reader.header, self.store
        if not isinstance(row, Session) or row.session_id != header.session_id:
            raise ValueError("its session is not the one of its first line")
        if row.latest_version != header.latest_version:
            raise ValueError("its version is not the one of its first line")
        sessions = Session.objects.using(store.using).filter(workspace_id=store.workspace_id)
        if sessions.filter(session_id=row.session_id).exists():
            raise SessionExists(row.session_id)
        self.keys[Workspace] = {row.workspace_id: store.workspace_id}
        self.head, old = row.head_segment_id, row.pk
        row.pk, row.workspace_id, row.head_segment_id = None, store.workspace_id, None
        row.owner_id, row.forked_from_id, row.fence = None, None, row.fence + 1
        row.save(using=store.using, force_insert=True)
        self.keys[Session] = {old: row.pk}
        return row

    def _write(self, session: Session, batch: list[models.Model]) -> None:
        model = type(batch[0])
        old = [row.pk for row in batch]
        for row in batch:
            self._check(row)
            self._place(session, row)
        model._default_manager.using(self.store.using).bulk_create(batch)
        known = self.keys.setdefault(model, {})
        known.update(zip(old, [row.pk for row in batch], strict=True))

    def _place(self, session: Session, row: models.Model) -> None:
        """Give a row new keys and let it point to the rows that are here."""
        for relation in tables.relations(type(row)):
            old = getattr(row, relation.attname)
            if old is None:
                continue
            new = session.pk if relation.related_model is Session else self._key(relation.related_model, old)
            setattr(row, relation.attname, new)
        if not isinstance(row, Run):  # runs keep their ids: people may have written them down
            row.pk = None
        if isinstance(row, Run) and row.status in OWNING_RUN:
            row.status, row.ended_at = RunStatus.LOST, row.heartbeat_at
        if isinstance(row, ToolCall):
            calls.require_intact(row)
            _unsettle(row)

    def _key(self, model: Any, old: Any) -> Any:
        known = self.keys.get(model, {})
        if old not in known:
            raise ValueError(f"a {model._meta.verbose_name} that it names is not in it")
        return known[old]

    def _check(self, row: models.Model) -> None:
        """The messages have to be those that were chained."""
        if isinstance(row, Segment):
            self.parents[row.pk] = (row.parent_id, row.parent_length)
            self.chains[row.pk] = {}
        elif isinstance(row, Message):
            before = self._chain(row.segment_id, row.position - 1)
            if row.segment_id not in self.chains:
                raise ValueError("a segment that it names is not in it")
            if bytes(row.chain) != digests.link(before, row.body):
                raise ValueError(f"message {row.position} is not the one that was said there")
            self.chains[row.segment_id][row.position] = bytes(row.chain)
        elif isinstance(row, Checkpoint) and bytes(row.chain) != self._chain(row.segment_id, row.length - 1):
            raise ValueError(f"the transcript of version {row.version} is not the one that was saved")

    def _chain(self, segment: int | None, position: int) -> bytes:
        """The chain after the message at a place of the transcript that ends in a segment."""
        while position >= 0:
            if segment not in self.parents:
                raise ValueError("a segment that it names is not in it")
            parent, start = self.parents[segment]
            if position >= start or parent is None:
                break
            segment = parent
        if position < 0:
            return digests.EMPTY_CHAIN
        if segment is None or position not in self.chains[segment]:
            raise ValueError(f"message {position} is not in it")
        return self.chains[segment][position]

    def _finish(self, session: Session) -> None:
        session.head_segment_id = None if self.head is None else self._key(Segment, self.head)
        if bytes(session.head_chain) != self._chain(self.head, session.message_count - 1):
            raise ValueError("its newest transcript is not the one that was saved")
        if session.status not in FINISHED_SESSION and calls.undecided(self.store, session):
            session.status = SessionStatus.NEEDS_REVIEW
        session.updated_at = Now()
        session.save(using=self.store.using, update_fields=["head_segment", "status", "updated_at"])
        audit.record(
            self.store,
            AuditKind.SESSION_IMPORTED,
            session_pk=session.pk,
            actor="import",
            version=session.latest_version,
            rows=sum(self.counts.values()),
        )


def _unsettle(call: ToolCall) -> None:
    """What may have happened since the file was written is undecided here."""
    if call.status == CallStatus.APPROVED:
        call.status = CallStatus.AWAITING_APPROVAL
    elif call.status in _OPEN and call.status not in UNDECIDED_CALL:
        mutates = call.mutates
        call.status = CallStatus.INTERRUPTED if mutates else CallStatus.DISCARDED
        call.reason = InterruptReason.RUN_LOST if mutates else ""
        call.interrupted_at = Now() if mutates else None


def _batches(rows: Iterator[models.Model]) -> Iterator[list[models.Model]]:
    """Rows of one kind together; what points to its own kind in a batch behind what it points to."""
    batch: list[models.Model] = []
    for row in rows:
        if batch and (type(row) is not type(batch[0]) or len(batch) == _BATCH or _points_to_its_kind(row)):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _points_to_its_kind(row: models.Model) -> bool:
    related = (field for field in tables.relations(type(row)) if field.related_model is type(row))
    return any(getattr(row, field.attname) is not None for field in related)
