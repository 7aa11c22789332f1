"""Views of launches of subagents, questions to the user, and tools of MCP servers."""

from __future__ import annotations

from typing import Any, Final

from django.utils.translation import gettext as _

from harness_site.sessions.tool_views.base import ToolUse, ToolView

#: Questions and options of one call that are displayed.
_MAX_QUESTIONS: Final = 20


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


def view_question(use: ToolUse) -> ToolView | None:
    """Show questions to the user with their options."""
    questions = use.args.get("questions")
    asked: list[Any] = questions if isinstance(questions, list) else [use.args]
    shown = [_show_question(use, item) for item in asked[:_MAX_QUESTIONS] if isinstance(item, dict)]
    known = [item for item in shown if item["question"]]
    if not known:
        return None
    answer = use.show((use.result or "").strip())
    return ToolView(
        "question",
        _("Question to the user"),
        content={"questions": known, "answer": answer.text},
        has_result=not use.is_error,
        is_complete=answer.whole and len(asked) <= _MAX_QUESTIONS,
        size=answer.size,
    )


def _show_question(use: ToolUse, item: dict[str, Any]) -> dict[str, Any]:
    options = [
        option.get("label") if isinstance(option, dict) else option for option in _get_truncated_list(item, "options")
    ]
    question = item.get("question")
    return {
        "question": use.show_line(question) if isinstance(question, str) else "",
        "options": [use.show_line(option) for option in options if isinstance(option, str)],
    }


def _get_truncated_list(item: dict[str, Any], name: str) -> list[Any]:
    value = item.get(name)
    return value[:_MAX_QUESTIONS] if isinstance(value, list) else []


def view_mcp_tool(use: ToolUse) -> ToolView | None:
    """Name the server and the tool of a call to an MCP server; arguments and result are shown as they are."""
    server, _separator, tool = use.name.removeprefix("mcp__").partition("__")
    if not tool:
        return None
    label = use.show_line(tool)
    return ToolView("", label, note=_("MCP server %(server)s") % {"server": use.show_line(server)}, has_result=False)
