"""Views of an editor that keeps one file open: the commands `create`, `open` and `edit` of SWE-agent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from django.utils.translation import gettext as _

from harness_site.sessions.tool_views import diff_lines, edits, file_change_parsing
from harness_site.sessions.tool_views.base import ToolUse, ToolView
from harness_site.sessions.tool_views.file_change_parsing import FileChange, Hunk

_CREATE: Final = re.compile(r"\s*create\s+([^\n]+?)\s*")
_OPEN: Final = re.compile(r"\s*open\s+([^\n]+?)(?:\s+\d{1,9})?\s*")
_EDIT: Final = re.compile(r"\s*edit\s+(\d{1,9}):(\d{1,9})\s*\n(?:(.*)\n)?end_of_edit\s*", re.DOTALL)
#: The line before the displayed part of the open file.
_FILE_LINE: Final = re.compile(r"^\[File: (.+) \(\d+ lines total\)\]", re.MULTILINE)
_NUMBERED_LINE: Final = re.compile(r"(\d{1,9}):(.*)")


def read_editor_change(tool: str, args: Mapping[str, Any]) -> FileChange | None:
    """Read what a command does to a file; None if it is no command of the editor.

    Returns:
        A change without hunks if the file is only opened. The path of an edit is empty: it changes the open file, and
        its passage has no old text, because the command states only the numbers of the replaced lines.
    """
    command = args.get("command")
    if not isinstance(command, str):
        path = file_change_parsing.get_path(args)
        if path and tool.lower() == "create":
            return file_change_parsing.read_write(args) or FileChange(path, "written")
        return FileChange(path, "edited") if path and tool.lower() == "open" else None
    if match := _CREATE.fullmatch(command):
        return FileChange(_remove_quotes(match[1]), "written")
    if match := _OPEN.fullmatch(command):
        return FileChange(_remove_quotes(match[1]), "edited")
    if match := _EDIT.fullmatch(command):
        return FileChange("", "edited", (Hunk("", match[3] or "", int(match[1])),))
    return None


def view_editor_command(use: ToolUse) -> ToolView | None:
    """Show a created or opened file, or the new text of replaced lines."""
    change = read_editor_change(use.name, use.args)
    if change is None:
        return None
    if change.kind == "written":
        return edits.build_change_view(use, (change,), _("Write"))
    if not change.hunks:
        return _view_opened_file(use, change.path)
    file_line = _FILE_LINE.search(use.result or "")
    path = file_line[1] if file_line else ""
    view = edits.build_change_view(use, (replace(change, path=path),), _("Edit"))
    if view is None:
        return None
    match = _EDIT.fullmatch(use.args["command"])
    note = _("lines %(start)d to %(end)d") % {"start": int(match[1]), "end": int(match[2])} if match else ""
    return replace(view, note=note, chip=("bad", _("Error")) if use.is_error else None)


def _view_opened_file(use: ToolUse, path: str) -> ToolView | None:
    """Show the displayed part of a file. What the editor says about the part is the note."""
    numbers: list[int] = []
    texts: list[str] = []
    notes: list[str] = []
    for line in (use.result or "").splitlines():
        match = _NUMBERED_LINE.fullmatch(line)
        if match is None:
            notes.append(line)
        elif numbers and int(match[1]) != numbers[-1] + 1:
            return None
        else:
            numbers.append(int(match[1]))
            texts.append(match[2])
    note = " ".join(notes)
    if use.is_error or not numbers or len(note) > 200:
        return None
    shown = use.show("\n".join(texts))
    return ToolView(
        "read",
        _("Read"),
        use.show_line(path),
        note=use.show_line(note),
        content={"lines": diff_lines.build_numbered_lines(shown.text, edits.find_language(path), numbers[0])},
        is_complete=shown.whole,
        size=shown.size,
    )


def _remove_quotes(path: str) -> str:
    return path[1:-1] if len(path) > 2 and path[0] == path[-1] and path[0] in "\"'" else path
