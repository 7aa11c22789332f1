"""Search for the spans in which calls ran, by the id, the name or the arguments of a call.

A trace may have thousands of calls without ids, so spans are found through indexes and not compared one by one.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from checkpoints.formats.digests import digest_text
from checkpoints.importers.normalized_span import Span

#: Spans of one tool in the order of time, each with its number in it.
_Queue = deque[tuple[int, Span]]


class ToolSpanSearch:
    """Index of the spans of tools of one trace, before any of their calls has been found."""

    def __init__(self, spans: Sequence[Span]) -> None:
        """Index spans, which are in the order of time."""
        self._starts_by_call: defaultdict[str, list[datetime]] = defaultdict(list)
        self._starts_by_tool: defaultdict[str, list[datetime]] = defaultdict(list)
        self._by_tool: defaultdict[tuple[str, bool], _Queue] = defaultdict(deque)
        self._by_args: defaultdict[tuple[str, bool, str], _Queue] = defaultdict(deque)
        self._tools_by_name: dict[str, list[str]] = {}
        for number, span in enumerate(spans):
            self._index_span(number, span)
        self._tools = list({tool for tool, _ in self._by_tool})

    def _index_span(self, number: int, span: Span) -> None:
        tool = _get_tool_name(span)
        if span.start is not None:
            starts = self._starts_by_call[span.call_id] if span.call_id else self._starts_by_tool[tool]
            starts.append(span.start)
        keys = [_build_input_key("whole", span.inputs)]
        if isinstance(span.inputs, dict):
            keys += {_build_input_key("value", value) for value in span.inputs.values()}
        for may_have_id in (True, False) if not span.call_id else (True,):
            self._by_tool[tool, may_have_id].append((number, span))
            for key in keys:
                self._by_args[tool, may_have_id, key].append((number, span))

    def find_start_of_first_call(
        self, call_ids: Iterable[str], names: Iterable[str], after: datetime
    ) -> datetime | None:
        """Find when the first of some calls began.

        Args:
            call_ids: Ids of the calls.
            names: Names of their tools, for spans without an id.
            after: Earliest time.

        Returns:
            The start of the first span; None if no span fits.
        """
        tools = {tool for name in names for tool in self._list_known_tool_names_containing(name)}
        lists = [self._starts_by_call.get(call_id, []) for call_id in call_ids if call_id]
        lists += [self._starts_by_tool.get(tool, []) for tool in tools]
        places = ((starts, bisect_left(starts, after)) for starts in lists)
        return min((starts[place] for starts, place in places if place < len(starts)), default=None)

    def find_unmatched_tool_span(self, name: str, args: Any, *, may_have_id: bool) -> Span | None:
        """Find the span of a call that no span names.

        Args:
            name: Name of the tool.
            args: Arguments of the call.
            may_have_id: Whether spans with an id of another call fit, because the call has none.

        Returns:
            The first free span with these arguments, otherwise the first free one of the tool.
        """
        tools = self._list_known_tool_names_containing(name)
        keys = [_build_input_key("whole", args), *([_build_input_key("value", args)] if args else [])]
        same = (self._by_args.get((tool, may_have_id, key)) for tool in tools for key in keys)
        every = (self._by_tool.get((tool, may_have_id)) for tool in tools)
        return _discard_matched_and_find_first_span(
            same, may_have_id=may_have_id
        ) or _discard_matched_and_find_first_span(every, may_have_id=may_have_id)

    def _list_known_tool_names_containing(self, name: str) -> list[str]:
        """List the tools whose names contain a name: some sources write the span's name around it."""
        if name not in self._tools_by_name:
            self._tools_by_name[name] = [tool for tool in self._tools if name in tool]
        return self._tools_by_name[name]


def _get_tool_name(span: Span) -> str:
    return span.tool or span.name


def _build_input_key(kind: str, value: Any) -> str:
    return kind + digest_text(json.dumps(value, sort_keys=True, default=repr))


def _discard_matched_and_find_first_span(queues: Iterable[_Queue | None], *, may_have_id: bool) -> Span | None:
    """Find the first span that no call has yet. Those before it are removed: they are never free again."""
    return min(
        _discard_matched_and_iterate_first_spans(queues, may_have_id=may_have_id),
        key=lambda pair: pair[0],
        default=(0, None),
    )[1]


def _discard_matched_and_iterate_first_spans(
    queues: Iterable[_Queue | None], *, may_have_id: bool
) -> Iterator[tuple[int, Span]]:
    for queue in queues:
        while queue:
            span = queue[0][1]
            if not span.matched and (may_have_id or not span.call_id):
                yield queue[0]
                break
            queue.popleft()
