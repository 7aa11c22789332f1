"""View of launches of subagents."""

from __future__ import annotations

from django.utils.translation import gettext as _

from harness_site.sessions.tool_views.base import ToolUse, ToolView


def view_launch(use: ToolUse) -> ToolView | None:
    """Show the task of a subagent and its answer."""
    prompt = use.get_text("prompt", "task", "message", "instructions")
    if not prompt:
        return None
    task, answer = use.show(prompt), use.show((use.result or "").strip())
    return ToolView(
        "subagent",
        _("Subagent"),
        use.show_line(use.get_text("description", "title") or prompt[:80]),
        note=use.show_line(use.get_text("subagent_type", "agent_type", "agent")),
        content={"prompt": task.text, "answer": answer.text},
        has_result=not use.is_error,
        is_complete=task.whole and answer.whole,
        size=task.size + answer.size,
    )
