"""Tool calls in the compared messages, with what is known about their outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from checkpoints.exceptions import InvalidInput
from checkpoints.formats import to_canonical_json
from checkpoints.formats.caller_argument_order import restore_argument_order
from checkpoints.formats.parse_message_parts import CallPart, ResultPart
from harness_site.sessions.compare.compare_versions import Comparison
from harness_site.sessions.compare.message_alignment import (
    Added,
    ComparedMessage,
    Edited,
    Line,
    Moved,
    MovedAway,
    Removed,
    Same,
)
from harness_site.sessions.selectors.call_records import CallRecord
from harness_site.sessions.selectors.call_result_pairs import pair_calls_with_results
from harness_site.sessions.selectors.conversation_window import CallCard


@dataclass(frozen=True, slots=True)
class ComparedCall:
    """A call of a compared message. `is_outcome_known`: the log or a displayed result tells what became of it."""

    card: CallCard
    is_outcome_known: bool


class ComparedCalls:
    """The calls of a comparison, with the results that its lines display and the calls of the log between versions."""

    def __init__(self, found: Comparison) -> None:
        self._records = (*found.calls_a.first, *found.calls.first)
        self._results: dict[int, ResultPart] = {}
        self._tools: dict[int, str] = {}
        for messages in (
            list(_iterate_old_sides_of_changed_messages(found.lines)),
            list(_iterate_messages_of_newer_version(found.lines)),
        ):
            self._add_results(messages)

    def build_compared_call(self, call: CallPart) -> ComparedCall:
        """Find what is known about a call, which has to be an object of one of the lines."""
        result, record = self._results.get(id(call)), self._find_newest_record_of_call(call)
        if record is not None:
            call = replace(call, args=restore_argument_order(call.args, record.args_order))
        card = CallCard(call, result, None, () if record is None else (record,))
        return ComparedCall(card, is_outcome_known=result is not None or record is not None)

    def find_tool_of_result(self, result: ResultPart) -> str:
        """Find the tool of a result of one of the lines; empty if neither a line nor the log has its call."""
        tools = {record.tool for record in self._records if record.call_id == result.call_id}
        return self._tools.get(id(result)) or (tools.pop() if len(tools) == 1 else "")

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
            args = _canonicalize_arguments_or_empty(call)
            records = [record for record in records if record.args == args]
        return records[-1] if len({record.step for record in records}) == 1 else None


def _canonicalize_arguments_or_empty(call: CallPart) -> str:
    try:
        return to_canonical_json(call.args)
    except InvalidInput:
        return ""


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
