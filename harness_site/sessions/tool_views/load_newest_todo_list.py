"""Plan of a session that saves none: the newest todo list that its agent kept with a tool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from checkpoints.formats import parse_json_or_return_text
from checkpoints.models import ToolCall
from harness_site.sessions.plan_steps import Plan
from harness_site.sessions.selectors.calls_between_versions import (
    SavedVersion,
    build_calls_between_versions_condition,
)
from harness_site.sessions.tool_views import todo_lists, tool_view_registry

#: Newest calls that are tried.
_MAX_CALLS_TRIED = 5


@dataclass(frozen=True, slots=True)
class LoggedTodoList:
    """A todo list and the call that wrote it."""

    plan: Plan
    call_pk: int
    at: datetime


def list_tools_with_todo_lists(session_pk: int) -> list[str]:
    """List the tools that a session has called and that keep a todo list, in one query."""
    names = ToolCall.objects.filter(session=session_pk).order_by().values_list("tool", flat=True).distinct()
    return [
        name for name in names if todo_lists.build_todo_list_view in tool_view_registry.list_view_builders_of_tool(name)
    ]


def load_newest_todo_list(
    session_pk: int, tools: Sequence[str], *, upto: SavedVersion | None = None
) -> LoggedTodoList | None:
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
            return LoggedTodoList(plan, pk, at)
    return None
