"""Tool calls of an imported transcript, as rows of the call log.

No run of this store made them, so nothing here is an intent, and nobody is ever asked about one: a call without a
result is stored as `discarded`, with a reason, or as `issued` while its transcript may go on. Their keys are never
those of a dispatch, so none of them is ever replayed instead of running a tool.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connections

from checkpoints.db.hot_statements import bulk_insert_converted_rows
from checkpoints.db.sql_names_and_values import convert_values_of_fields
from checkpoints.enums import IMPORTED_MARK, UNANSWERED_RESULT, CallStatus, InterruptReason
from checkpoints.exceptions import InvalidInput
from checkpoints.formats import digests
from checkpoints.formats.caller_argument_order import encode_argument_order
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.formats.parse_message_parts import AudioPart, CallPart, ImagePart, Part, ResultPart, parts_to_text
from checkpoints.formats.shell_command_exit_codes import find_exit_code
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.importers.import_report import ImportReport
from checkpoints.importers.imported_message_and_usage import ImportedMessage
from checkpoints.models import Run, Session, ToolCall
from checkpoints.seals.sealed_model import seal_unsaved_rows_and_compute_sum
from checkpoints.store.call_intent_and_outcome_types import validate_tool_name
from checkpoints.store.database_client_state import Store
from checkpoints.store.replayed_call_matching import CallFingerprint

_CHUNK_SIZE = 200
_OPEN_STATUSES = (CallStatus.DISCARDED, CallStatus.ISSUED)
_FIELDS = [field for field in ToolCall._meta.concrete_fields if not field.primary_key]
_COLUMNS, _ATTRIBUTES = tuple(field.name for field in _FIELDS), tuple(field.attname for field in _FIELDS)
#: Values of a new row in the order of the columns: the ORM takes them in half the time of keyword arguments.
_NEW_ROW = {field.attname: field.get_default() for field in ToolCall._meta.concrete_fields}
_SETTLED_COLUMNS = (
    "status",
    "reason",
    "sentence",
    "result",
    "result_digest",
    "exit_code",
    "interrupted_at",
    "settled_at",
    "revision",
)


@dataclass(slots=True)
class _TranscriptCall:
    """Call of the transcript; `row` is None if the log has none or it is settled there."""

    row: ToolCall | None
    answered: bool = False


class ImportedCallLog:
    """Collector of the call rows to write, which follows one transcript from its start."""

    def __init__(self, store: Store, report: ImportReport, *, live: bool = False) -> None:
        self._using = store.using
        self._live = live
        self._report = report
        self._logged: set[str] = set()
        self._unsettled: dict[str, ToolCall] = {}
        self._open: defaultdict[str, list[_TranscriptCall]] = defaultdict(list)
        self._newest: list[_TranscriptCall] = []
        self._settled: dict[int, ToolCall] = {}
        #: Kinds of the calls of a live transcript by call id, also of those that were recorded before.
        self.kinds: dict[str, CallFingerprint] = {}

    def load_existing_calls(self, session: Session) -> None:
        """Load the calls that earlier imports wrote; those without a result are loaded whole."""
        rows = ToolCall.objects.using(self._using).filter(session=session, side_effects=IMPORTED_MARK)
        self._logged = set(rows.values_list("idempotency_key", flat=True).iterator())
        unsettled = rows.filter(status__in=_OPEN_STATUSES, result__isnull=True)
        self._unsettled = {row.idempotency_key: row for row in unsettled}

    def add_message_calls_and_results(
        self, message: ImportedMessage, parts: Sequence[Part], at: datetime, *, new: bool
    ) -> list[ToolCall]:
        """Register the calls and results of a message. Returns the rows of its calls if the message is `new`."""
        message_calls: defaultdict[str, list[_TranscriptCall]] = defaultdict(list)
        rows: list[ToolCall] = []
        for number, part in enumerate(parts):
            if isinstance(part, ResultPart):
                self._answer_open_call(part, message.times.get(part.call_id, at))
            elif isinstance(part, CallPart):
                if self._live:
                    self.kinds[part.call_id] = (part.name, digests.digest_text(to_canonical_json(part.args)))
                issued_at = message.times.get(part.call_id, at)
                row = self._find_unsettled_or_build_new_call_row(message.key, number, part, issued_at, new=new)
                if row is not None and row._state.adding:
                    row.attempt = 1 + len(message_calls[part.call_id])
                    rows.append(row)
                self._add_open_call(part.call_id, _TranscriptCall(row), message_calls)
        if message_calls:
            self._newest = [call for calls in message_calls.values() for call in calls]
        self._report.new_calls += len(rows)
        return rows

    def _add_open_call(
        self, call_id: str, call: _TranscriptCall, message_calls: defaultdict[str, list[_TranscriptCall]]
    ) -> None:
        """Add a call. Providers reuse ids: an earlier open call of the same id is not answered any more."""
        if not message_calls[call_id]:
            self._open[call_id] = []
        message_calls[call_id].append(call)
        self._open[call_id].append(call)
        self._report.calls += 1
        self._report.unanswered += 1

    def _find_unsettled_or_build_new_call_row(
        self, key: str, number: int, call: CallPart, at: datetime, *, new: bool
    ) -> ToolCall | None:
        idempotency_key = f"{IMPORTED_MARK}:{digests.digest_key_parts(key, call.call_id, number)}"
        if not new or idempotency_key in self._logged:
            return self._unsettled.get(idempotency_key)
        try:
            validate_id("call id", call.call_id)
            validate_tool_name(call.name)
        except InvalidInput:
            return None
        args = to_canonical_json(call.args)
        values = {
            "call_id": call.call_id,
            "tool": call.name,
            "args": args,
            "args_digest": digests.digest_text(args),
            "args_order": encode_argument_order(call.args),
            "idempotency_key": idempotency_key,
            "side_effects": IMPORTED_MARK,
            "status": CallStatus.ISSUED,
            "issued_at": at,
        }
        return ToolCall(*{**_NEW_ROW, **values}.values())

    def _answer_open_call(self, result: ResultPart, at: datetime) -> None:
        open_calls = self._open.get(result.call_id)
        if not open_calls:
            return
        call = open_calls.pop(0)
        call.answered = True
        self._report.unanswered -= 1
        row = call.row
        if row is None:
            return
        row.status = CallStatus.FAILED if result.is_error else CallStatus.COMPLETED
        row.result = to_canonical_json(_result_to_text(result))
        row.result_digest = digests.digest_text(row.result)
        row.exit_code = find_exit_code(row.tool, row.result)
        row.reason = row.sentence = ""
        row.interrupted_at, row.settled_at = None, max(at, row.issued_at)
        if not row._state.adding:
            row.revision += 1
            self._settled[row.pk] = row
            self._unsettled.pop(row.idempotency_key, None)

    @property
    def has_unanswered_calls_at_end(self) -> bool:
        """Return whether the transcript ends before the last calls were answered."""
        return any(not call.answered for call in self._newest)

    def complete_call_rows_and_sum_seals(self, session: Session, run: Run, calls: Sequence[ToolCall]) -> int:
        """Complete the rows of calls that have their step. Returns what they add to the sum of the session."""
        for call in calls:
            if call.status == CallStatus.ISSUED and not self._live:
                _mark_call_discarded(call)
            call.session_id, call.workspace_id, call.run_id = session.pk, session.workspace_id, run.pk
        return seal_unsaved_rows_and_compute_sum(calls)

    def insert_calls_and_late_results(self, session: Session, calls: Sequence[ToolCall]) -> None:
        """Insert complete rows, which are counted in the head of their session already, and write late results."""
        insert_call_rows(self._using, calls)
        self._logged.update(call.idempotency_key for call in calls)
        self._set_pks_and_remember_unsettled_calls(
            {call.idempotency_key: call for call in calls if call.result is None}, session
        )
        self._write_late_results()

    def has_unwritten_late_results(self) -> bool:
        """Return whether results came for calls which were inserted before, and are not written yet."""
        return bool(self._settled)

    def _write_late_results(self) -> None:
        """Write the results that came for calls which were inserted before."""
        settled_rows = list(self._settled.values())
        for start in range(0, len(settled_rows), _CHUNK_SIZE):
            chunk = settled_rows[start : start + _CHUNK_SIZE]
            ToolCall.objects.using(self._using).bulk_update(chunk, _SETTLED_COLUMNS)
        self._settled.clear()

    def _set_pks_and_remember_unsettled_calls(self, calls: dict[str, ToolCall], session: Session) -> None:
        """Keep inserted calls without a result, with the primary keys that the database gave them."""
        if not calls:
            return
        rows = ToolCall.objects.using(self._using).filter(
            session=session, step__in={call.step for call in calls.values()}
        )
        for key, pk in rows.values_list("idempotency_key", "pk"):
            if key in calls:
                calls[key].pk, calls[key]._state.adding, calls[key]._state.db = pk, False, self._using
        self._unsettled |= calls

    def write_late_results_and_discard_unanswered(self, *, live: bool) -> None:
        """Write results that came for earlier calls; unless the transcript may go on, no call is issued any more."""
        self._write_late_results()
        if live:
            return
        for call in (call for call in self._unsettled.values() if call.status == CallStatus.ISSUED):
            _mark_call_discarded(call)
            call.revision += 1
            call.save(using=self._using, update_fields=_SETTLED_COLUMNS)


def insert_call_rows(using: str, calls: Sequence[ToolCall]) -> None:
    """Insert complete rows at once, without the ORM's work for each; their keys are not read."""
    if not calls:
        return
    connection = connections[using]
    rows = [
        convert_values_of_fields(connection, ToolCall, _COLUMNS, [getattr(call, name) for name in _ATTRIBUTES])
        for call in calls
    ]
    with connection.cursor() as cursor:
        bulk_insert_converted_rows(connection, cursor, ToolCall, _COLUMNS, rows)


def _mark_call_discarded(call: ToolCall) -> None:
    call.status, call.reason, call.sentence = CallStatus.DISCARDED, InterruptReason.NO_RESULT, UNANSWERED_RESULT
    call.interrupted_at = call.issued_at


def _result_to_text(result: ResultPart) -> str:
    """Convert a result to text; images and recordings in it stay in the transcript."""
    values: list[Any] = [
        f"[{part.kind} {part.number}]" if isinstance(part, ImagePart | AudioPart) else parts_to_text((part,))
        for part in result.parts
    ]
    return "\n\n".join(values)
