"""Import a session from its file: the same history in another database.

Runs that were alive when the file was written are lost here, and a call that may have happened since is undecided as
after a crash; approvals that were not used have to be given again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import IntegrityError, models, transaction
from django.db.models.functions import Now

from checkpoints.archive import row_serializers, upgrade_archive_rows
from checkpoints.archive.archive_results import ImportedSession
from checkpoints.archive.session_file_reader_and_writer import SessionFileReader
from checkpoints.audit import insert_unchained_events
from checkpoints.calls import require_unaltered_call, unfinished_call_queries
from checkpoints.constants import MAX_VALUE_BYTES
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import (
    DECIDING_KINDS,
    FINISHED_SESSION_STATUSES,
    OWNING_RUN_STATUSES,
    UNDECIDED_CALL_STATUSES,
    AuditKind,
    CallStatus,
    DecisionKind,
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
    TooLarge,
    WrongWorkspace,
)
from checkpoints.formats import digests
from checkpoints.formats.shell_command_exit_codes import find_exit_code
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.models import (
    Blob,
    Checkpoint,
    Decision,
    FrameworkWrite,
    Message,
    Run,
    Segment,
    Session,
    ToolCall,
    Workspace,
)
from checkpoints.seals import session_names_in_witness
from checkpoints.store.database_client_state import Store

#: Number of rows that are written at once.
_BATCH_SIZE = 500
#: Number of bytes for each byte of the file that its compressed values may have together: zlib reaches a thousand, with
#: values that are made for that.
_MAX_COMPRESSION = 200
_KEY_SPACE = re.compile("[0-9a-f]{32}")
_OPEN_STATUSES = frozenset({CallStatus.ISSUED, CallStatus.INTERRUPTED, CallStatus.RERUN_APPROVED})


def import_session_file(store: Store, path: str | Path, *, session_id: str | None = None) -> ImportedSession:
    """Import the session in `path`, which has to be `session_id` if that is given.

    The whole file is read and verified before anything is written, and it is written in one transaction. Raises
    `FileNotReadable`, `FileDamaged`, `SchemaFromFuture`, `WrongSession`, `WrongWorkspace`, `SessionExists`,
    `ImportConflict`, and `TooLarge` for values of a framework that are too large once they are decompressed.
    """
    reader = SessionFileReader(Path(path).absolute(), session_id)
    header = reader.header
    validate_id("session id", header.session_id)
    if header.workspace != store.workspace:
        raise WrongWorkspace(reader.path, header.workspace, store.workspace)
    with database_operation(store.using):
        try:
            with transaction.atomic(using=store.using):
                return _SessionImport(store, reader).import_session()
        except IntegrityError as error:
            raise ImportConflict(reader.path, str(error).splitlines()[0]) from error
        except CheckpointCorrupted as error:
            raise FileDamaged(reader.path, error.detail.rstrip(".")) from error
        except CheckpointsError:
            raise
        except ValueError as error:
            raise FileDamaged(reader.path, str(error)) from error


@dataclass
class _SessionImport:
    store: Store
    reader: SessionFileReader
    #: New keys by table and old key, and the chain at the end of each position of a segment.
    keys: dict[type[models.Model], dict[Any, Any]] = field(default_factory=dict)
    chains: dict[int, dict[int, bytes]] = field(default_factory=dict)
    parents: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    head: int | None = None
    #: Kind of the last final decision about each call, by its new key.
    final_kinds: dict[int, str] = field(default_factory=dict)
    #: Number of bytes of the values of frameworks that the file has compressed.
    decompressed: int = 0

    def import_session(self) -> ImportedSession:
        rows = self._iterate_deserialized_rows()
        session = self._verify_and_insert_session_row(next(rows, None))
        for batch in _batch_rows_by_model(rows):
            self._verify_and_insert_batch(session, batch)
        answered = [pk for pk, kind in self.final_kinds.items() if kind == DecisionKind.RESPOND]
        ToolCall.objects.using(self.store.using).filter(pk__in=answered).update(exit_code=None)  # their tools never ran
        undecided = unfinished_call_queries.list_verified_undecided_calls_of_session(self.store, session)
        self._verify_and_save_head_and_status(session, has_undecided=bool(undecided))
        self._record_import_events(session, undecided)
        return ImportedSession(session.session_id, session.latest_version, len(undecided))

    def _iterate_deserialized_rows(self) -> Iterator[models.Model]:
        order = list(row_serializers.TABLES)
        place = 0
        for kind, values in self.reader.iterate_rows():
            if kind not in row_serializers.TABLES or order.index(kind) < place:
                raise ValueError(f"{kind!r} does not belong where it stands")
            place = order.index(kind)
            self.counts[kind] += 1
            yield row_serializers.deserialize_row(
                row_serializers.TABLES[kind],
                upgrade_archive_rows.upgrade_row_values(kind, values, self.reader.header.version),
            )

    def _verify_and_insert_session_row(self, row: models.Model | None) -> Session:
        header, store = self.reader.header, self.store
        if not isinstance(row, Session) or row.session_id != header.session_id:
            raise ValueError("its session is not the one of its first line")
        if row.latest_version != header.latest_version:
            raise ValueError("its version is not the one of its first line")
        if _KEY_SPACE.fullmatch(row.key_space) is None:  # a witness writes it between spaces
            raise ValueError("its key space is not one")
        sessions = Session.objects.using(store.using).filter(workspace_id=store.workspace_id)
        if sessions.filter(session_id=row.session_id).exists():
            raise SessionExists(row.session_id)
        self.keys[Workspace] = {row.workspace_id: store.workspace_id}
        self.head, old = row.head_segment_id, row.pk
        row.pk, row.workspace_id, row.head_segment_id = None, store.workspace_id, None
        row.owner_id, row.forked_from_id, row.fence = None, None, row.fence + 1
        row.save(using=store.using, force_insert=True)
        session_names_in_witness.record_new_session_name_or_raise(
            store.workspace, row.session_id, row.key_space, row.pk
        )
        self.keys[Session] = {old: row.pk}
        return row

    def _verify_and_insert_batch(self, session: Session, batch: list[models.Model]) -> None:
        model = type(batch[0])
        old_keys = [row.pk for row in batch]
        for row in batch:
            self._verify_and_remember_chain(row)
            if isinstance(row, Blob | FrameworkWrite):
                self._verify_opaque_digest_and_total_size(row)
            if isinstance(row, ToolCall):
                _require_matching_call_digests(row)
                row.exit_code = find_exit_code(row.tool, row.result)
            self._assign_new_keys_and_end_open_work(session, row)
            if isinstance(row, Decision) and row.final and row.kind in DECIDING_KINDS:
                self.final_kinds[row.tool_call_id] = row.kind
        model._default_manager.using(self.store.using).bulk_create(batch)
        new_keys = self.keys.setdefault(model, {})
        new_keys.update(zip(old_keys, [row.pk for row in batch], strict=True))

    def _verify_opaque_digest_and_total_size(self, row: Blob | FrameworkWrite) -> None:
        """Require that bytes are those of their digest, and that all of them together are no bomb of a small file."""
        if row.content is None:
            return
        size = len(row.read_content())
        if row.compressed:
            self.decompressed += size
            limit = max(MAX_VALUE_BYTES, self.reader.path.stat().st_size * _MAX_COMPRESSION)
            if self.decompressed > limit:
                raise TooLarge("What the file has compressed", self.decompressed, limit)

    def _assign_new_keys_and_end_open_work(self, session: Session, row: models.Model) -> None:
        """Give a row new keys, and point its foreign keys to the rows in this database."""
        for relation in row_serializers.iterate_serialized_foreign_keys(type(row)):
            old_key = getattr(row, relation.attname)
            if old_key is None:
                continue
            new_key = (
                session.pk
                if relation.related_model is Session
                else self._get_new_key_for_old_key(relation.related_model, old_key)
            )
            setattr(row, relation.attname, new_key)
        if not isinstance(row, Run):  # runs keep their ids: people may have written them down
            row.pk = None
        if isinstance(row, Run) and row.status in OWNING_RUN_STATUSES:
            row.status, row.ended_at = RunStatus.LOST, row.heartbeat_at
        if isinstance(row, ToolCall):
            _mark_call_undecided_or_discarded_if_open(row)

    def _get_new_key_for_old_key(self, model: Any, old_key: Any) -> Any:
        new_keys = self.keys.get(model, {})
        if old_key not in new_keys:
            raise ValueError(f"a {model._meta.verbose_name} that it names is not in it")
        return new_keys[old_key]

    @property
    def _uses_former_chain_format(self) -> bool:
        """Whether the chains in the file were computed otherwise. Its own digest says that its texts are unchanged."""
        return self.reader.header.version < upgrade_archive_rows.CHAINS_SINCE_VERSION

    def _verify_and_remember_chain(self, row: models.Model) -> None:
        """Verify that a message or a version has the chain of the messages before it, and keep it for the next ones."""
        if isinstance(row, Segment):
            self.parents[row.pk] = (row.parent_id, row.parent_length)
            self.chains[row.pk] = {}
        elif isinstance(row, Message):
            chain = digests.extend_hash_chain(self._get_hash_chain_at(row.segment_id, row.position - 1), row.body)
            if row.segment_id not in self.chains:
                raise ValueError("a segment that it names is not in it")
            self._require_chain_or_set_in_former_format(
                row, "chain", chain, f"message {row.position} is not the one that was said there"
            )
            self.chains[row.segment_id][row.position] = chain
        elif isinstance(row, Checkpoint):
            chain = self._get_hash_chain_at(row.segment_id, row.length - 1)
            why = f"the transcript of version {row.version} is not the one that was saved"
            self._require_chain_or_set_in_former_format(row, "chain", chain, why)

    def _require_chain_or_set_in_former_format(
        self, row: Session | Checkpoint | Message, column: str, chain: bytes, why: str
    ) -> None:
        """Require that a row has a chain; a row of an older file gets it. Raises `ValueError` with `why`."""
        if self._uses_former_chain_format:
            setattr(row, column, chain)
        elif bytes(getattr(row, column)) != chain:
            raise ValueError(why)

    def _get_hash_chain_at(self, segment: int | None, position: int) -> bytes:
        """Return the chain after the message at a position of the transcript that ends in a segment."""
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

    def _verify_and_save_head_and_status(self, session: Session, *, has_undecided: bool) -> None:
        session.head_segment_id = None if self.head is None else self._get_new_key_for_old_key(Segment, self.head)
        chain = self._get_hash_chain_at(self.head, session.message_count - 1)
        self._require_chain_or_set_in_former_format(
            session, "head_chain", chain, "its newest transcript is not the one that was saved"
        )
        if session.status not in FINISHED_SESSION_STATUSES and has_undecided:
            session.status = SessionStatus.NEEDS_REVIEW
        session.updated_at = Now()
        session.save(using=self.store.using, update_fields=["head_segment", "head_chain", "status", "updated_at"])

    def _record_import_events(self, session: Session, undecided: Iterable[ToolCall]) -> None:
        """Record the import, and that each interrupted call is interrupted, in the audit trail."""
        insert_unchained_events.record_event(
            self.store,
            AuditKind.SESSION_IMPORTED,
            session_pk=session.pk,
            actor="import",
            version=session.latest_version,
            rows=sum(self.counts.values()),
        )
        for call in undecided:
            if call.status == CallStatus.INTERRUPTED:
                insert_unchained_events.record_call_interrupted_event(self.store, call, actor="import")


def _require_matching_call_digests(call: ToolCall) -> None:
    """Raise `ValueError` if the arguments or the result of a call do not match their digests."""
    why = require_unaltered_call.describe_digest_mismatch(
        call.args, call.args_digest, call.result, call.result_digest, call.error_message
    )
    if why is not None:
        raise ValueError(f"call {call.call_id!r} was altered: {why}")


def _mark_call_undecided_or_discarded_if_open(call: ToolCall) -> None:
    """Mark a call undecided if it may have happened since the file was written."""
    if call.status == CallStatus.APPROVED:
        call.status = CallStatus.AWAITING_APPROVAL
    elif call.status in _OPEN_STATUSES and call.status not in UNDECIDED_CALL_STATUSES:
        has_side_effects = call.has_side_effects
        call.status = CallStatus.INTERRUPTED if has_side_effects else CallStatus.DISCARDED
        call.reason = InterruptReason.RUN_LOST if has_side_effects else ""
        call.interrupted_at = Now() if has_side_effects else None


def _batch_rows_by_model(rows: Iterator[models.Model]) -> Iterator[list[models.Model]]:
    """Batch the rows by kind, with a row that points to its own kind in a later batch than its target."""
    batch: list[models.Model] = []
    for row in rows:
        if batch and (type(row) is not type(batch[0]) or len(batch) == _BATCH_SIZE or _points_to_row_of_own_model(row)):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _points_to_row_of_own_model(row: models.Model) -> bool:
    related = (
        field
        for field in row_serializers.iterate_serialized_foreign_keys(type(row))
        if field.related_model is type(row)
    )
    return any(getattr(row, field.attname) is not None for field in related)
