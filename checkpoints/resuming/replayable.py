"""The stored results that a resumed agent uses instead of dispatching the calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from checkpoints.models import ToolCall
from checkpoints.outcomes import ToolResult
from checkpoints.resuming import outlook
from checkpoints.saving.open_operations import OpenOperations


class ReplayableResults(dict[str, ToolResult]):
    """Results by call id. Looking one up by its id takes it: another call with the same tool and arguments is then
    another operation, and does not get this result once more. Reading them all in one go takes none."""

    _operations: OpenOperations | None = None
    _rows: dict[str, int] = {}

    @classmethod
    def of(cls, operations: OpenOperations, answers: Iterable[ToolCall]) -> Self:
        """The results of `answers`, whose operations are among `operations`."""
        calls = list(answers)
        results = cls({call.call_id: outlook.replayed(call) for call in calls})
        results._operations = operations
        results._rows = {call.call_id: call.pk for call in calls}
        return results

    def _take(self, call_id: str) -> None:
        if self._operations is not None and call_id in self._rows:
            self._operations.take(self._rows[call_id], call_id)

    def __getitem__(self, call_id: str) -> ToolResult:
        result = super().__getitem__(call_id)
        self._take(call_id)
        return result

    def get(self, call_id: str, default: Any = None) -> Any:
        if call_id in self:
            self._take(call_id)
        return super().get(call_id, default)

    def pop(self, call_id: str, *default: Any) -> Any:
        if call_id in self:
            self._take(call_id)
        return super().pop(call_id, *default)

    def __reduce__(self) -> tuple[type[dict[str, ToolResult]], tuple[dict[str, ToolResult]]]:
        return dict, (dict(self),)
