"""Table of the views of tools, by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from functools import lru_cache
from typing import Final

from checkpoints.formats.parse_message_parts import TextPart
from checkpoints.formats.shell_command_exit_codes import PATCH_TOOLS, SHELL_COMMAND_TOOLS
from harness_site.sessions.selectors.conversation_window import CallCard
from harness_site.sessions.tool_views import (
    file_edits,
    file_reads,
    mcp_tools,
    notebooks,
    searches_and_fetches,
    shell_commands,
    subagent_launches,
    swe_agent_editor,
    todo_lists,
    user_questions,
)
from harness_site.sessions.tool_views.tool_view_types import ToolUse, ToolView, mask_fields_and_make_tool_use_or_none

BuildView = Callable[[ToolUse], ToolView | None]

#: Patterns of tool names in lower case, and their view. The first row that matches and returns a view counts.
TOOL_VIEWS: Final[tuple[tuple[tuple[str, ...], BuildView], ...]] = (
    (SHELL_COMMAND_TOOLS, shell_commands.build_command_view),
    (
        ("bashoutput", "killshell", "killbash", "taskoutput", "taskstop", "write_stdin"),
        shell_commands.build_background_command_view,
    ),
    (PATCH_TOOLS, file_edits.build_patch_view),
    (("notebookedit", "notebook_edit", "*_notebook*"), notebooks.build_notebook_edit_view),
    (
        (
            *("multiedit", "edit", "edit_*", "*_edit", "editfile", "update_file", "modify_file", "change_file"),
            *("replace", "replace_*", "*_replace", "str_replace*"),
        ),
        file_edits.build_edit_view,
    ),
    (
        ("write", "write_*", "*_write", "writefile", "create_file", "save_file", "str_replace*"),
        file_edits.build_write_view,
    ),
    (("create", "open", "edit", "insert", "goto", "scroll_*"), swe_agent_editor.build_editor_command_view),
    (("submit",), file_edits.build_submitted_patch_view),
    (
        ("read", "read_*", "*_read", "notebookread", "view", "view_*", "str_replace*"),
        notebooks.build_notebook_read_view,
    ),
    (
        ("read", "read_*", "*_read", "view", "view_*", "open_file", "cat", "notebookread", "str_replace*", "get_file*"),
        file_reads.build_read_view,
    ),
    (("websearch", "web_search*", "google_*search", "*_web_search"), searches_and_fetches.build_web_search_view),
    (
        (
            *("grep", "glob", "*_grep", "*_glob", "search_*", "*_search", "find", "find_*", "ls", "list_dir*"),
            *("list_files", "codebase_search", "toolsearch"),
        ),
        searches_and_fetches.build_search_view,
    ),
    (
        ("webfetch", "web_fetch", "fetch", "fetch_*", "*_fetch", "browse", "open_url", "read_url*"),
        searches_and_fetches.build_fetch_view,
    ),
    (("todowrite", "todo_*", "*_todos", "*todo*", "update_plan", "plan_*", "*_plan"), todo_lists.build_todo_list_view),
    (
        ("task", "agent", "subagent*", "*_subagent", "spawn_agent*", "dispatch_agent*", "delegate*"),
        subagent_launches.build_subagent_launch_view,
    ),
    (("askuserquestion", "ask_user*", "request_user_input"), user_questions.build_question_view),
    (("mcp__*",), mcp_tools.build_mcp_tool_view),
    (("*",), shell_commands.build_view_of_tool_named_after_command),
)


def build_first_fitting_tool_view(card: CallCard, *, is_whole: bool = False) -> ToolView | None:
    """Build the view of a call; None if it has to be shown as it is."""
    builders = list_view_builders_of_tool(card.call.name)
    if not builders:
        return None
    parts = card.result_parts
    has_result = bool(parts) or card.result is not None
    text = "\n".join(part.text for part in parts if isinstance(part, TextPart)) if has_result else None
    use = mask_fields_and_make_tool_use_or_none(
        card.call.name, card.call.args, text, is_error=card.has_failed, is_whole=is_whole
    )
    view = next((view for build in builders if (view := build(use)) is not None), None) if use else None
    return None if view is None or (is_whole and not view.is_complete) else view


@lru_cache(maxsize=1024)
def list_view_builders_of_tool(name: str) -> tuple[BuildView, ...]:
    """Return the views that the name of a tool asks for, in order."""
    lowered = name.lower()
    return tuple(build for pattern, build in _COMPILED if pattern.fullmatch(lowered))


_COMPILED: Final = tuple((re.compile("|".join(map(translate, patterns))), build) for patterns, build in TOOL_VIEWS)
