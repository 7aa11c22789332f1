"""Tool calls in the compared messages, with what is known about their outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, groupby, takewhile
from typing import Any

from checkpoints.formats.caller_argument_order import restore_argument_order
from checkpoints.formats.parse_message_parts import CallPart, ResultPart
from harness_site.sessions.compare.compare_versions import Comparison
from harness_site.sessions.compare.message_alignment import (
    Added,
    ComparedMessage,
    Edited,
    FurtherMessages,
    Line,
    Moved,
    MovedAway,
    Removed,
    Same,
)
from harness_site.sessions.selectors.call_records import CallRecord
from harness_site.sessions.selectors.call_result_pairs import pair_calls_with_results
from harness_site.sessions.selectors.conversation_window import CallCard, canonicalize_arguments_or_empty


@dataclass(frozen=True, slots=True)
class ComparedCall:
    """A call of a compared message. `is_outcome_known`: the log or a displayed result tells what became of it.

    With `is_shown_with_result`, its result is displayed in it and not as a line of its own.
    """

    card: CallCard
    is_outcome_known: bool
    is_shown_with_result: bool


class ComparedCalls:
    """The calls of a comparison, with the results that its lines display and the calls of the log between versions."""

    def __init__(self, comparison: Comparison) -> None:
        self._records = (*comparison.calls_a.first, *comparison.calls.first_at_start, *comparison.calls.first)
        self._results: dict[int, ResultPart] = {}
        self._tools: dict[int, str] = {}
        self._shown_with_result: set[int] = set()
        self._results_in_calls: set[int] = set()
        self._record_results_displayed_in_calls(comparison.lines)
        self.displayed_lines: list[Line] = []
        self._positions_in_line: dict[int, list[int]] = {}
        for line in comparison.lines:
            if not self._has_only_results_displayed_in_calls(line):
                self.displayed_lines.append(line)
            elif isinstance(line, Same):
                shown_in = self._positions_in_line.setdefault(id(self.displayed_lines[-1]), [])
                shown_in.append(line.message.position)
        self._messages = (
            list(_iterate_old_sides_of_changed_messages(comparison.lines)),
            list(_iterate_messages_of_newer_version(comparison.lines)),
        )
        for messages in self._messages:
            self._add_results([*comparison.preceding, *messages])

    def build_compared_call(self, call: CallPart) -> ComparedCall:
        """Find what is known about a call, which has to be an object of one of the lines."""
        result, record = self._results.get(id(call)), self._find_newest_record_of_call(call)
        call_of_line = call
        if record is not None:
            call = replace(call, args=restore_argument_order(call.args, record.args_order))
        card = CallCard(call, result, None, () if record is None else (record,))
        return ComparedCall(
            card,
            is_outcome_known=result is not None or record is not None,
            is_shown_with_result=id(call_of_line) in self._shown_with_result,
        )

    @property
    def has_no_common_message_after_start(self) -> bool:
        """Whether the lines after the first common ones are only messages of the first side, and then of the second.

        Such sides are read side by side.
        """
        return bool(self.lines_of_first_side) and set(map(_get_kind_of_line, self.lines_of_second_side)) == {"added"}

    @property
    def lines_before_sides(self) -> list[Line]:
        """The common lines before the first message that only one side has."""
        return list(takewhile(_is_common, self.displayed_lines))

    @property
    def lines_of_first_side(self) -> list[Line]:
        """The lines after the first common ones that are messages of the first side only."""
        return list(
            takewhile(lambda line: _get_kind_of_line(line) == "removed", dropwhile(_is_common, self.displayed_lines))
        )

    @property
    def lines_of_second_side(self) -> list[Line]:
        """The lines that follow those of the first side; all are messages of the second if the sides stand apart."""
        return self.displayed_lines[len(self.lines_before_sides) + len(self.lines_of_first_side) :]

    def list_arguments(self) -> list[Any]:
        """Return the arguments of all calls in the lines, including those that the log does not have."""
        parts = (part for messages in self._messages for message in messages for part in message.parts)
        return [part.args for part in parts if isinstance(part, CallPart)]

    def list_positions_displayed_in_line(self, line: Line) -> list[int]:
        """List the positions of the unchanged messages of which a line displays the results in its calls."""
        return self._positions_in_line.get(id(line), [])

    def is_result_displayed_in_call(self, result: ResultPart) -> bool:
        return id(result) in self._results_in_calls

    def find_tool_of_result(self, result: ResultPart) -> str:
        """Find the tool of a result of one of the lines; empty if neither a line nor the log has its call."""
        tools = {record.tool for record in self._records if record.call_id == result.call_id}
        return self._tools.get(id(result)) or (tools.pop() if len(tools) == 1 else "")

    def _record_results_displayed_in_calls(self, lines: Sequence[Line]) -> None:
        """Find the results whose calls are lines of the same kind before them, with no line of another kind between."""
        for _, group in groupby(lines, key=lambda line: line.kind):
            messages = [line.message for line in group if isinstance(line, Added | Removed | Same)]
            parts = [message.parts for message in messages]
            for (index, number), (result_index, result_number) in pair_calls_with_results(parts).answers.items():
                self._shown_with_result.add(id(parts[index][number]))
                self._results_in_calls.add(id(parts[result_index][result_number]))

    def _has_only_results_displayed_in_calls(self, line: Line) -> bool:
        """Return whether a line has nothing but results that are displayed in their calls."""
        return (
            isinstance(line, Added | Removed | Same)
            and bool(line.message.parts)
            and all(id(part) in self._results_in_calls for part in line.message.parts)
        )

    def _add_results(self, messages: Sequence[ComparedMessage]) -> None:
        parts = [message.parts for message in messages]
        for (index, number), (result_index, result_number) in pair_calls_with_results(parts).answers.items():
            call, result = parts[index][number], parts[result_index][result_number]
            if isinstance(call, CallPart) and isinstance(result, ResultPart):
                self._results[id(call)] = result
                self._tools[id(result)] = call.name

    def _find_newest_record_of_call(self, call: CallPart) -> CallRecord | None:
        """Find the newest attempt in the log; providers reuse ids, so the arguments decide between several calls."""
        records = [record for record in self._records if record.call_id == call.call_id and record.tool == call.name]
        if len({record.step for record in records}) > 1:
            args = canonicalize_arguments_or_empty(call.args)
            records = [record for record in records if record.args == args]
        return records[-1] if len({record.step for record in records}) == 1 else None


def _get_kind_of_line(line: Line) -> str:
    return line.what if isinstance(line, FurtherMessages) else line.kind


def _is_common(line: Line) -> bool:
    return _get_kind_of_line(line) in {"same", "fold"}


def _iterate_old_sides_of_changed_messages(lines: Sequence[Line]) -> Iterator[ComparedMessage]:
    for line in lines:
        if isinstance(line, Removed):
            yield line.message
        elif isinstance(line, Edited | MovedAway):
            yield line.old


def _iterate_messages_of_newer_version(lines: Sequence[Line]) -> Iterator[ComparedMessage]:
    for line in lines:
        if isinstance(line, Added | Same):
            yield line.message
        elif isinstance(line, Edited | Moved):
            yield line.new
