"""The stored results that a resumed agent uses instead of dispatching the calls."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView
from typing import Any, Self

from checkpoints.models import ToolCall
from checkpoints.outcomes import ToolResult
from checkpoints.resuming import outlook
from checkpoints.saving.open_operations import OpenOperations


class ReplayableResults(dict[str, ToolResult]):
    """Results by call id. Looking one up by its id takes it: another call with the same tool and arguments is then
    another operation, and does not get this result once more.

    That holds for who knows the ids. Who has got them from this very mapping may only want to see what is in it, and
    ask a model anew: from the first listing on, nothing is taken, and calls pair off in order.
    """

    _operations: OpenOperations | None = None
    _rows: dict[str, int] = {}
    _listed = False

    @classmethod
    def of(cls, operations: OpenOperations, answers: Iterable[ToolCall]) -> Self:
        """The results of `answers`, whose operations are among `operations`."""
        calls = list(answers)
        results = cls({call.call_id: outlook.replayed(call) for call in calls})
        results._operations = operations
        results._rows = {call.call_id: call.pk for call in calls}
        return results

    def _take(self, call_id: str) -> None:
        if self._operations is not None and call_id in self._rows and not self._listed:
            self._operations.take(self._rows[call_id], call_id)

    def __iter__(self) -> Iterator[str]:
        self._listed = True
        return super().__iter__()

    def keys(self) -> KeysView[str]:  # type: ignore[override]  # a view of a dict cannot be made
        return KeysView(self)

    def items(self) -> ItemsView[str, ToolResult]:  # type: ignore[override]
        return ItemsView(self)

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
