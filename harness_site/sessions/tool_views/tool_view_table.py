"""Table of the views of tools, by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from functools import lru_cache
from typing import Final

from checkpoints.formats.content_blocks import ResultPart, TextPart
from harness_site.sessions.selectors.conversation import CallCard
from harness_site.sessions.session_formatting import get_call_result_parts
from harness_site.sessions.tool_views import (
    commands,
    edits,
    mcp_tools,
    notebooks,
    questions,
    reads,
    searches_and_fetches,
    subagents,
    swe_agent_editor,
    todo_lists,
)
from harness_site.sessions.tool_views.base import ToolUse, ToolView, make_tool_use

BuildView = Callable[[ToolUse], ToolView | None]

#: Patterns of tool names in lower case, and their view. The first row that matches and returns a view counts.
TOOL_VIEWS: Final[tuple[tuple[tuple[str, ...], BuildView], ...]] = (
    (
        (
            *("bash", "shell", "*_shell", "shell_*", "local_shell*", "exec", "exec_*", "execute_bash", "*_command"),
            *("run_terminal_cmd", "terminal", "powershell", "*_shell_command", "execute_command"),
        ),
        commands.view_command,
    ),
    (("bashoutput", "killshell", "killbash", "taskoutput", "taskstop", "write_stdin"), commands.view_background),
    (("apply_patch", "*_patch", "patch", "applypatch"), edits.view_patch),
    (("notebookedit", "notebook_edit", "*_notebook*"), notebooks.view_notebook_edit),
    (
        ("multiedit", "edit", "edit_*", "*_edit", "replace", "str_replace*", "*_replace", "search_replace"),
        edits.view_edit,
    ),
    (("write", "write_*", "*_write", "create_file", "save_file", "str_replace*"), edits.view_write),
    (("create", "open", "edit", "insert", "goto", "scroll_*"), swe_agent_editor.view_editor_command),
    (("submit",), edits.view_submission),
    (("read", "read_*", "*_read", "notebookread", "view", "view_*", "str_replace*"), notebooks.view_notebook_read),
    (
        ("read", "read_*", "*_read", "view", "view_*", "open_file", "cat", "notebookread", "str_replace*", "get_file*"),
        reads.view_read,
    ),
    (
        (
            *("grep", "glob", "*_grep", "*_glob", "search_*", "*_search", "find", "find_*", "ls", "list_dir*"),
            *("list_files", "codebase_search", "toolsearch"),
        ),
        searches_and_fetches.view_search,
    ),
    (
        ("webfetch", "web_fetch", "fetch", "fetch_*", "*_fetch", "browse", "open_url", "read_url*"),
        searches_and_fetches.view_fetch,
    ),
    (("websearch", "web_search*", "google_*search", "*_web_search"), searches_and_fetches.view_web_search),
    (("todowrite", "todo_*", "*_todos", "*todo*", "update_plan", "plan_*", "*_plan"), todo_lists.view_todo_list),
    (
        ("task", "agent", "subagent*", "*_subagent", "spawn_agent*", "dispatch_agent*", "delegate*"),
        subagents.view_launch,
    ),
    (("askuserquestion", "ask_user*", "request_user_input"), questions.view_question),
    (("mcp__*",), mcp_tools.view_mcp_tool),
    (("*",), commands.view_command_of_tool),
)


def build_call_view(card: CallCard, *, is_whole: bool = False) -> ToolView | None:
    """Build the view of a call; None if it has to be shown as it is."""
    builders = find_view_builders(card.call.name)
    if not builders:
        return None
    parts = get_call_result_parts(card)
    text = "\n".join(part.text for part in parts if isinstance(part, TextPart)) if parts else None
    is_error = isinstance(card.result, ResultPart) and card.result.is_error
    use = make_tool_use(card.call.name, card.call.args, text, is_error=is_error, is_whole=is_whole)
    view = next((view for build in builders if (view := build(use)) is not None), None) if use else None
    return None if view is None or (is_whole and not view.is_complete) else view


def is_command(name: str) -> bool:
    """Return whether a tool runs shell commands, which may contain patches."""
    return commands.view_command in find_view_builders(name)


@lru_cache(maxsize=1024)
def find_view_builders(name: str) -> tuple[BuildView, ...]:
    """Return the views that the name of a tool asks for, in order."""
    lowered = name.lower()
    return tuple(build for pattern, build in _COMPILED if pattern.fullmatch(lowered))


_COMPILED: Final = tuple((re.compile("|".join(map(translate, patterns))), build) for patterns, build in TOOL_VIEWS)
