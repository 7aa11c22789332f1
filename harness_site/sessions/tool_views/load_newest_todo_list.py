"""Plan of a session that saves none: the newest todo list that its agent kept with a tool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Final

from django.db.models import Q
from django.db.models.functions import Length
from django.db.models.lookups import IContains

from checkpoints.db.decompressed_text_sql import DecompressedText, StoredSize
from checkpoints.formats import parse_json_or_return_text
from checkpoints.formats.parse_message_parts import CallPart, parse_message_parts
from checkpoints.models import ToolCall
from harness_site.sessions.plan_steps_and_changes import Plan
from harness_site.sessions.selectors import transcript_message_queries
from harness_site.sessions.selectors.calls_between_versions import (
    SavedVersion,
    build_calls_between_versions_condition,
)
from harness_site.sessions.selectors.conversation_window import TranscriptVersion
from harness_site.sessions.selectors.find_words_errors_and_decisions import query_version_messages
from harness_site.sessions.tool_views import todo_lists, tool_view_registry

#: Newest calls that are tried.
_MAX_CALLS_TRIED = 5
#: Number of the newest messages of a transcript that are searched.
MAX_MESSAGES_SEARCHED: Final = 1_000
#: Largest number of characters of a message that is searched.
MAX_MESSAGE_LENGTH: Final = 50_000
#: Number of bytes that so many characters have at most.
_MAX_STORED_SIZE: Final = 4 * MAX_MESSAGE_LENGTH
#: Messages that name such a tool and are tried: most of them call it, and some only speak of it.
_MAX_MESSAGES_TRIED: Final = 20
#: Parts of the names of tools that keep todo lists, as `tool_view_registry.TOOL_VIEWS` lists them.
_PARTS_OF_TOOL_NAMES: Final = ("todo", "update_plan", '"plan_', '_plan"')


@dataclass(frozen=True, slots=True)
class NewestTodoList:
    """A todo list and what wrote it: a logged call, or a message of the transcript, at a position."""

    plan: Plan
    at: datetime
    call_pk: int | None = None
    position: int | None = None

    @property
    def plan_with_first_steps(self) -> Plan:
        """Return the list with the steps that a page shows."""
        return replace(self.plan, steps=self.plan.steps[: todo_lists.MOST_STEPS])

    @property
    def number_of_other_steps(self) -> int:
        return max(0, len(self.plan.steps) - todo_lists.MOST_STEPS)


def list_tools_with_todo_lists(session_pk: int) -> list[str]:
    """List the tools that a session has called and that keep a todo list, in one query."""
    names = ToolCall.objects.filter(session=session_pk).order_by().values_list("tool", flat=True).distinct()
    return [name for name in names if _keeps_todo_list(name)]


def load_newest_todo_list(
    session_pk: int, tools: Sequence[str], *, upto: SavedVersion | None = None
) -> NewestTodoList | None:
    """Load the newest todo list from the logged calls of a session, or from those up to a version.

    Runs one query, none without `tools`, which are the ones of the session that keep todo lists.
    """
    if not tools:
        return None
    calls = ToolCall.objects.filter(session=session_pk, tool__in=tools)
    if upto is not None:
        calls = calls.filter(build_calls_between_versions_condition(None, upto))
    for pk, args, at in calls.order_by("-pk").values_list("pk", "args", "issued_at")[:_MAX_CALLS_TRIED]:
        plan = todo_lists.parse_todo_list_arguments(parse_json_or_return_text(args))
        if plan is not None:
            return NewestTodoList(plan, at, call_pk=pk)
    return None


def find_newest_todo_list_in_transcript(transcript: TranscriptVersion) -> NewestTodoList | None:
    """Find the newest todo list among the newest `MAX_MESSAGES_SEARCHED` messages of a version.

    Calls of tools that only read, and of tools that the library does not run, are in the transcript alone. Messages of
    more than `MAX_MESSAGE_LENGTH` characters are left out. Raises `IntegrityError` for a message that was altered.
    """
    if transcript.segment_id is None:
        return None
    names = reduce(or_, (Q(IContains(DecompressedText("body"), part)) for part in _PARTS_OF_TOOL_NAMES))
    messages = query_version_messages(transcript).filter(position__gte=transcript.length - MAX_MESSAGES_SEARCHED)
    # To count the characters of a text reads and decompresses it, so its size is compared first.
    sized = messages.alias(stored_size=StoredSize("body"), length=Length(DecompressedText("body")))
    short = sized.filter(stored_size__lte=_MAX_STORED_SIZE, length__lte=MAX_MESSAGE_LENGTH)
    positions = short.filter(names).order_by("-position").values_list("position", flat=True)[:_MAX_MESSAGES_TRIED]
    for position in positions:
        for message in transcript_message_queries.load_message_window_or_raise_if_gap(
            transcript.segment_id, position, position + 1
        ):
            if (plan := _find_last_todo_list_of_message(message.body)) is not None:
                return NewestTodoList(plan, message.created_at, position=position)
    return None


def _find_last_todo_list_of_message(body: str) -> Plan | None:
    calls = (part for part in reversed(parse_message_parts(body)) if isinstance(part, CallPart))
    lists = (todo_lists.parse_todo_list_arguments(call.args) for call in calls if _keeps_todo_list(call.name))
    return next((plan for plan in lists if plan is not None), None)


def _keeps_todo_list(tool: str) -> bool:
    return todo_lists.build_todo_list_view in tool_view_registry.list_view_builders_of_tool(tool)
