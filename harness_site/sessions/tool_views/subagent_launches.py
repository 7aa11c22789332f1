"""View of launches of subagents."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext as _

from harness_site.sessions.tool_views.tool_view_types import ToolUse, ToolView

#: How Claude Code begins the result of a launch that does not wait for the subagent.
_LAUNCHED: Final = "Async agent launched"


def build_subagent_launch_view(use: ToolUse) -> ToolView | None:
    """Show the task of a subagent and its answer."""
    prompt = use.get_first_text_argument_or_empty("prompt", "task", "message", "instructions")
    if not prompt:
        return None
    task, answer = (
        use.mask_and_cut_text_for_display(prompt),
        use.mask_and_cut_text_for_display((use.result or "").strip()),
    )
    is_launch = not use.is_error and (use.result or "").lstrip().startswith(_LAUNCHED)
    return ToolView(
        "subagent",
        _("Subagent"),
        use.mask_line_for_display(use.get_first_text_argument_or_empty("description", "title") or prompt[:80]),
        chip=("off", _("Launched in the background")) if is_launch else None,
        note=use.mask_line_for_display(use.get_first_text_argument_or_empty("subagent_type", "agent_type", "agent")),
        content={"prompt": task.text, "answer": answer.text},
        has_result=not use.is_error,
        is_launch=is_launch,
        is_complete=task.whole and answer.whole,
        size=task.size + answer.size,
    )
