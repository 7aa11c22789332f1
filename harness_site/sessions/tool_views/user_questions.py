"""View of questions to the user."""

from __future__ import annotations

from typing import Any, Final

from django.utils.translation import gettext as _

from harness_site.sessions.tool_views.tool_view_types import ToolUse, ToolView

#: Questions and options of one call that are displayed.
_MAX_QUESTIONS: Final = 20


def build_question_view(use: ToolUse) -> ToolView | None:
    """Show questions to the user with their options."""
    questions = use.args.get("questions")
    asked: list[Any] = questions if isinstance(questions, list) else [use.args]
    shown = [_build_context_of_one_question(use, item) for item in asked[:_MAX_QUESTIONS] if isinstance(item, dict)]
    known = [item for item in shown if item["question"]]
    if not known:
        return None
    answer = use.mask_and_cut_text_for_display((use.result or "").strip())
    return ToolView(
        "question",
        _("Question to the user"),
        content={"questions": known, "answer": answer.text},
        has_result=not use.is_error,
        is_complete=answer.whole and len(asked) <= _MAX_QUESTIONS,
        size=answer.size,
    )


def _build_context_of_one_question(use: ToolUse, item: dict[str, Any]) -> dict[str, Any]:
    options = [
        option.get("label") if isinstance(option, dict) else option
        for option in _get_truncated_list_or_empty(item, "options")
    ]
    question = item.get("question")
    return {
        "question": use.mask_line_for_display(question) if isinstance(question, str) else "",
        "options": [use.mask_line_for_display(option) for option in options if isinstance(option, str)],
    }


def _get_truncated_list_or_empty(item: dict[str, Any], name: str) -> list[Any]:
    value = item.get(name)
    return value[:_MAX_QUESTIONS] if isinstance(value, list) else []
