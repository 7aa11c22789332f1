"""Views of todo lists and plans that agents keep with a tool."""

from __future__ import annotations

from typing import Any, Final

from django.utils.translation import gettext as _

from checkpoints.exceptions import InvalidInput
from checkpoints.formats import to_canonical_json
from harness_site.sessions.plan_steps_and_changes import Plan, parse_checkpoint_plan
from harness_site.sessions.tool_views.tool_view_types import ToolUse, ToolView

#: Largest number of steps of a checklist; a call with a longer list is shown with its arguments.
MOST_STEPS: Final = 200
_LISTS: Final = ("todos", "plan", "steps", "items", "tasks", "todo_list")


def build_todo_list_view(use: ToolUse) -> ToolView | None:
    """Show a todo list as a checklist."""
    plan = parse_todo_list_arguments(use.args)
    if plan is None or len(plan.steps) > MOST_STEPS:
        return None
    return ToolView(
        "todo",
        _("Todo list"),
        note=_("%(done)d of %(total)d done") % {"done": plan.done_count, "total": len(plan.steps)},
        content={
            "plan": plan,
            "explanation": use.mask_line_for_display(use.get_first_text_argument_or_empty("explanation")),
        },
        has_result=not use.is_error,
    )


def parse_todo_list_arguments(args: Any) -> Plan | None:
    """Read the list that the arguments of a call hold; None if they hold none."""
    values = args if isinstance(args, dict) or hasattr(args, "get") else {}
    given = next((values[name] for name in _LISTS if isinstance(values.get(name), list) and values[name]), None)
    if given is None:
        return None
    try:
        plan = parse_checkpoint_plan(to_canonical_json({"steps": given}))
    except InvalidInput:
        return None
    return plan if plan is not None and plan.steps else None
