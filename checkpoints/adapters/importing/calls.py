"""The tool calls of an imported transcript, as rows of the call log.

No run of this store made them, so nothing here is an intent, and nobody is ever asked about one: a call without a
result is kept as `discarded`, with a sentence that says why. Their keys are no dispatch's keys, so none of them is ever
replayed instead of running a tool.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from checkpoints.adapters.importing.report import ImportReport
from checkpoints.enums import CallStatus, InterruptReason
from checkpoints.exceptions import InvalidInput
from checkpoints.ids import checked
from checkpoints.models import Run, Session, ToolCall
from checkpoints.queries.blocks import Call, Image, Part, Result, plain
from checkpoints.saving.intents import checked_tool_name
from checkpoints.saving.store import Store
from checkpoints.serde import digests
from checkpoints.serde.canonical import canonical

#: Stands where a tool declares its side effects: what an imported call did to the world is not known.
IMPORTED: Final = "imported"
UNANSWERED: Final = (
    "The imported transcript ends before this call was answered. Whether it happened is not known, and nobody has to "
    "decide: no run of this store made it."
)
_CHUNK = 200
_SETTLED = ("status", "reason", "sentence", "result", "result_digest", "interrupted_at", "settled_at", "revision")


@dataclass(slots=True)
class _Asked:
    """A call of the transcript; `row` is None where the log keeps none or it is settled there."""

    row: ToolCall | None
    answered: bool = False


class CallLog:
    """Follows one transcript from its start, and gathers the rows that have to be written."""

    def __init__(self, store: Store, report: ImportReport) -> None:
        self._using = store.using
        self._report = report
        self._logged: set[str] = set()
        self._unsettled: dict[str, ToolCall] = {}
        self._open: defaultdict[str, list[_Asked]] = defaultdict(list)
        self._newest: list[_Asked] = []
        self._settled: dict[int, ToolCall] = {}

    def load(self, session: Session) -> None:
        """Remember the calls that earlier imports wrote, and whole those that they found no result for."""
        rows = ToolCall.objects.using(self._using).filter(session=session, side_effects=IMPORTED)
        self._logged = set(rows.values_list("idempotency_key", flat=True).iterator())
        self._unsettled = {row.idempotency_key: row for row in rows.filter(status=CallStatus.DISCARDED)}

    def follow(self, key: str, parts: Sequence[Part], at: datetime, *, new: bool) -> list[ToolCall]:
        """Take note of what a message asks and answers. Returns the rows of its calls where the message is `new`."""
        asked: defaultdict[str, list[_Asked]] = defaultdict(list)
        made: list[ToolCall] = []
        for number, part in enumerate(parts):
            if isinstance(part, Result):
                self._answer(part, at)
            elif isinstance(part, Call):
                row = self._row(key, number, part, at, new=new)
                if row is not None and row._state.adding:
                    row.attempt = 1 + len(asked[part.call_id])
                    made.append(row)
                self._ask(part.call_id, _Asked(row), asked)
        if asked:
            self._newest = [call for calls in asked.values() for call in calls]
        self._report.new_calls += len(made)
        return made

    def _ask(self, call_id: str, call: _Asked, asked: defaultdict[str, list[_Asked]]) -> None:
        """Providers reuse ids: what an earlier message left unanswered is not answered any more."""
        if not asked[call_id]:
            self._open[call_id] = []
        asked[call_id].append(call)
        self._open[call_id].append(call)
        self._report.calls += 1
        self._report.unanswered += 1

    def _row(self, key: str, number: int, call: Call, at: datetime, *, new: bool) -> ToolCall | None:
        idempotency_key = f"{IMPORTED}:{digests.key_digest(key, call.call_id, number)}"
        if not new or idempotency_key in self._logged:
            return self._unsettled.get(idempotency_key)
        try:
            checked("call id", call.call_id)
            checked_tool_name(call.name)
        except InvalidInput:
            return None
        args = canonical(call.args)
        return ToolCall(
            call_id=call.call_id,
            tool=call.name,
            args=args,
            args_digest=digests.text_digest(args),
            idempotency_key=idempotency_key,
            side_effects=IMPORTED,
            sentence=UNANSWERED,
            status=CallStatus.DISCARDED,
            reason=InterruptReason.RUN_LOST,
            issued_at=at,
            interrupted_at=at,
        )

    def _answer(self, result: Result, at: datetime) -> None:
        waiting = self._open.get(result.call_id)
        if not waiting:
            return
        asked = waiting.pop(0)
        asked.answered = True
        self._report.unanswered -= 1
        row = asked.row
        if row is None:
            return
        row.status = CallStatus.FAILED if result.is_error else CallStatus.COMPLETED
        row.result = canonical(_text(result))
        row.result_digest = digests.text_digest(row.result)
        row.reason = row.sentence = ""
        row.interrupted_at, row.settled_at = None, at
        if not row._state.adding:
            row.revision += 1
            self._settled[row.pk] = row

    @property
    def broken_off(self) -> bool:
        """Whether the transcript ends before the last calls were answered."""
        return any(not asked.answered for asked in self._newest)

    def write(self, session: Session, run: Run, calls: Sequence[ToolCall]) -> None:
        """Insert `calls`, which know their step, and write down the results that came for earlier ones."""
        rows = ToolCall.objects.using(self._using)
        for call in calls:
            call.session_id, call.workspace_id, call.run_id = session.pk, session.workspace_id, run.pk
        rows.bulk_create(calls, batch_size=_CHUNK)
        settled = list(self._settled.values())
        for first in range(0, len(settled), _CHUNK):
            rows.bulk_update(settled[first : first + _CHUNK], _SETTLED)
        self._settled.clear()


def _text(result: Result) -> str:
    """What a result says; images in it stay in the transcript."""
    said: list[Any] = [f"[image {part.number}]" if isinstance(part, Image) else plain((part,)) for part in result.parts]
    return "\n\n".join(said)
