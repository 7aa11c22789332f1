"""The database side of an import: what is there of a session, and the turns that are added to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import IntegrityError, connections, transaction

from checkpoints.adapters.importing import rows
from checkpoints.adapters.importing.calls import CallLog
from checkpoints.adapters.importing.refusal import ImportOvertaken
from checkpoints.adapters.importing.rows import Origin
from checkpoints.conf import SCHEMA_VERSION
from checkpoints.enums import SessionStatus
from checkpoints.exceptions import StorageError
from checkpoints.models import Message, Run, Session, ToolCall
from checkpoints.saving import paths, statements, transcripts
from checkpoints.saving.checkpoints import head_of
from checkpoints.saving.operations import operation
from checkpoints.saving.state import State, total_tokens
from checkpoints.saving.statements import Base, NewMessage
from checkpoints.saving.store import Head, Store
from checkpoints.serde import money
from checkpoints.serde.canonical import parse


@dataclass(frozen=True, slots=True)
class Place:
    """A message of the transcript as it stands: its key, its role, and the chain after it."""

    key: str
    role: str
    chain: bytes


@dataclass
class Turn:
    """What becomes one version. `keep`: it branches off behind so many messages."""

    keep: int | None = None
    messages: list[NewMessage] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    characters: int = 0
    state: State | None = None


class Writer:
    """One session in the store. Nothing is written before the first turn, so that an empty transcript makes none."""

    def __init__(self, store: Store, origin: Origin) -> None:
        self.store, self.origin = store, origin
        self.known: set[str] = set()
        self.path: list[Place] = []
        self._row: Session | None = None
        self._run: Run | None = None
        self._head: Head | None = None

    def load(self, calls: CallLog) -> None:
        """What earlier imports wrote. Raises `ImportRefused`."""
        store = self.store
        with operation(store.using, writes=False) as connection:
            sessions = Session.objects.using(store.using).filter(workspace_id=store.workspace_id)
            row = sessions.filter(session_id=self.origin.session_id).first()
            if row is None:
                return
            runs = list(Run.objects.using(store.using).filter(session=row).order_by("number"))
            rows.require_imported(row, runs, self.origin)
            self._row, self._run, self._head = row, runs[0], head_of(row)
            messages = Message.objects.using(store.using).filter(session=row)
            self.known = set(messages.values_list("message_id", flat=True).iterator())
            fields = ("message_id", "role", "chain")
            found = paths.read_messages(connection, self._head.segment_id, self._head.length, fields)
            self.path = [Place(key, role, bytes(chain)) for key, role, chain in found]
            calls.load(row)

    def last_body(self) -> Any:
        """The last message that an earlier import wrote; None where there is none."""
        if self._head is None or self._head.length == 0:
            return None
        length = self._head.length
        with operation(self.store.using, writes=False) as connection:
            found = paths.read_messages(connection, self._head.segment_id, length, ("body",), length - 1)
        return parse(found[0][0])

    def write(self, turns: Sequence[Turn], calls: CallLog, *, first: datetime) -> bool:
        """Write turns and their calls, all or none. Says whether that made the session."""
        made = self._row is None
        try:
            with operation(self.store.using), transaction.atomic(using=self.store.using):
                row, run = self._create(first) if made else self._locked()
                for turn in turns:
                    self._add(row, run, turn)
                calls.write(row, run, [call for turn in turns for call in turn.calls])
        except StorageError as error:
            if isinstance(error.__cause__, IntegrityError):
                raise ImportOvertaken(self.origin.session_id) from error
            raise
        return made

    def _create(self, first: datetime) -> tuple[Session, Run]:
        self._row, self._run = rows.create(self.store, self.origin, first)
        self._head = head_of(self._row)
        return self._row, self._run

    def _locked(self) -> tuple[Session, Run]:
        """The session under its lock, as this import left it; open again where it was finished."""
        assert self._row is not None and self._run is not None  # noqa: S101, PT018 - set together
        sessions = Session.objects.using(self.store.using).filter(pk=self._row.pk)
        row = sessions.select_for_update().first()
        if row is None or row.owner_id is not None:  # the save itself finds out what else is different
            raise ImportOvertaken(self.origin.session_id)
        if row.finished:
            row.status = SessionStatus.ACTIVE
            sessions.update(status=SessionStatus.ACTIVE)
        self._row = row
        return row, self._run

    def _add(self, row: Session, run: Run, turn: Turn) -> None:
        head = self._branched(row, turn.keep)
        assert turn.state is not None  # noqa: S101 - given when the turn ended
        last, state = turn.messages[-1], turn.state
        length = last.position + 1
        version = statements.save(
            connections[self.store.using],
            Base(row.pk, row.fence, head.segment_id, head.length, head.chain, head.version),
            {
                "head_chain": last.chain,
                "message_count": length,
                "budget_spent_usd": money.as_decimal(state.budget),
                "total_tokens": total_tokens(state.usage),
            },
            turn.messages,
            {
                "run": run.pk,
                "phase": state.phase,
                "segment": head.segment_id,
                "length": length,
                "chain": last.chain,
                "plan": state.plan,
                "budget_spent_usd": state.budget,
                "usage": state.usage,
                "payload": state.payload,
                "schema_version": SCHEMA_VERSION,
                "created_at": last.created_at,
            },
        )
        if version is None:
            raise ImportOvertaken(self.origin.session_id)
        for call in turn.calls:
            call.step = version
        self._head = Head(head.segment_id, length, last.chain, version)

    def _branched(self, row: Session, keep: int | None) -> Head:
        """Where a turn begins: the end of the transcript, or a new segment behind its first `keep` messages."""
        assert self._head is not None  # noqa: S101 - set with the session
        if keep is None:
            return self._head
        segment = transcripts.branch(self.store.using, row.pk, self._head, keep)
        Session.objects.using(self.store.using).filter(pk=row.pk).update(head_segment=segment)
        return Head(segment.pk, self._head.length, self._head.chain, self._head.version)

    def finish(self, *, last: datetime, broken_off: bool) -> None:
        """What is only known at the end: title, metadata, status. Changes nothing that is so already."""
        if self._row is None or self._run is None:
            return
        with operation(self.store.using), transaction.atomic(using=self.store.using):
            row, run = self._row, self._run
            row.refresh_from_db(using=self.store.using)
            rows.finish(self.store, row, run, self.origin, last=last, broken_off=broken_off)
