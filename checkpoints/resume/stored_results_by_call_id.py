"""Stored results that a resumed agent uses instead of dispatching the calls."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping
from types import MappingProxyType
from typing import Any

from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.store.replayed_call_matching import OpenOperations


class StoredResultsByCallId(dict[str, ToolResult]):
    """Results by call id. A lookup by id takes the result: another call with the same tool and arguments is then
    another operation, and does not get this result again.

    That holds for callers that know the ids. A caller that lists the ids of this mapping may only inspect it and ask a
    model again: from the first listing on, nothing is taken, and calls are paired in order.
    """

    def __init__(
        self,
        results: Mapping[str, ToolResult] = MappingProxyType({}),
        operations: OpenOperations | None = None,
        rows: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Create the mapping of `results`, whose calls have `rows` in the log and are among `operations`."""
        super().__init__(results)
        self._operations = operations
        self._rows = rows
        self._listed = False

    def _remember_result_as_replayed(self, call_id: str) -> None:
        if self._operations is not None and call_id in self._rows and not self._listed:
            self._operations.remember_result_as_replayed(self._rows[call_id], call_id)

    def __iter__(self) -> Iterator[str]:
        self._listed = True
        return super().__iter__()

    def keys(self) -> KeysView[str]:  # type: ignore[override]  # a view of a dict cannot be made
        return KeysView(self)

    def items(self) -> ItemsView[str, ToolResult]:  # type: ignore[override]
        return ItemsView(self)

    def __getitem__(self, call_id: str) -> ToolResult:
        result = super().__getitem__(call_id)
        self._remember_result_as_replayed(call_id)
        return result

    def get(self, call_id: str, default: Any = None) -> Any:
        if call_id in self:
            self._remember_result_as_replayed(call_id)
        return super().get(call_id, default)

    def pop(self, call_id: str, *default: Any) -> Any:
        if call_id in self:
            self._remember_result_as_replayed(call_id)
        return super().pop(call_id, *default)

    def __reduce__(self) -> tuple[type[dict[str, ToolResult]], tuple[dict[str, ToolResult]]]:
        return dict, (dict(self),)
