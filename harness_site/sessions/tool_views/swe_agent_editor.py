"""Views of an editor that keeps one file open: the commands of SWE-agent, as text or with arguments of their own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from django.utils.translation import gettext as _

from harness_site.sessions.tool_views import diff_lines, file_change_parsing, file_edits
from harness_site.sessions.tool_views.file_change_parsing import FileChange, Hunk
from harness_site.sessions.tool_views.tool_view_types import ToolUse, ToolView

_CREATE: Final = re.compile(r"\s*create\s+([^\n]+?)\s*")
_OPEN: Final = re.compile(r"\s*open\s+([^\n]+?)(?:\s+\d{1,9})?\s*")
_EDIT: Final = re.compile(r"\s*edit\s+(\d{1,9}):(\d{1,9})\s*\n(?:(.*)\n)?end_of_edit\s*", re.DOTALL)
_MOVE: Final = re.compile(r"\s*(?:goto\s+\d{1,9}|scroll_(?:up|down))\s*")
#: Commands that move the displayed part of the open file.
_MOVES: Final = frozenset({"goto", "scroll_up", "scroll_down"})
#: Characters of a command whose quoted words are read.
_LONGEST_QUOTED: Final = 50_000
#: The line before the displayed part of the open file.
_FILE_LINE: Final = re.compile(r"^\[File: (.+) \(\d+ lines total\)\]", re.MULTILINE)
_NUMBERED_LINE: Final = re.compile(r"(\d{1,9}):(.*)")


def parse_file_change_of_editor_command(tool: str, args: Mapping[str, Any]) -> FileChange | None:
    """Read what a command does to a file; None if it is no command of the editor.

    Returns:
        A change without hunks if the file is only opened or displayed. The path is empty for the open file. The passage
        of an edit that states only the numbers of the replaced lines has no old text.
    """
    command = args.get("command")
    if not isinstance(command, str):
        return _parse_file_change_from_editor_arguments(tool.lower(), args)
    if match := _CREATE.fullmatch(command):
        return FileChange(_remove_quotes(match[1]), "written")
    if match := _OPEN.fullmatch(command):
        return FileChange(_remove_quotes(match[1]), "edited")
    if match := _EDIT.fullmatch(command):
        return FileChange("", "edited", (Hunk("", match[3] or "", int(match[1])),))
    return FileChange("", "edited") if _MOVE.fullmatch(command) else _parse_quoted_edit_command(command)


def _parse_file_change_from_editor_arguments(tool: str, args: Mapping[str, Any]) -> FileChange | None:
    """Read a command from its arguments."""
    path = file_change_parsing.get_path_argument_or_empty(args)
    if path and tool == "create":
        return file_change_parsing.parse_write_arguments(args) or FileChange(path, "written")
    if (path and tool == "open") or (tool in _MOVES and not path):
        return FileChange(path, "edited")
    if tool == "edit" and isinstance(args.get("search"), str) and isinstance(args.get("replace"), str):
        return FileChange(path, "edited", (Hunk(args["search"], args["replace"]),))
    if tool == "edit" and isinstance(args.get("replacement_text"), str):
        return FileChange(
            path, "edited", (Hunk("", args["replacement_text"], _parse_line_number(args.get("start_line"))),)
        )
    if tool == "insert" and isinstance(args.get("text"), str):
        return _make_insertion(args["text"], _parse_line_number(args.get("line")))
    return None


def _parse_quoted_edit_command(command: str) -> FileChange | None:
    """Read `edit "old" "new"` and `insert "text" 12`."""
    if len(command) > _LONGEST_QUOTED or not command.lstrip().startswith(("edit ", "insert ")):
        return None
    try:
        name, *words = shlex.split(command)
    except ValueError:
        return None
    if name == "edit" and (len(words) == 2 or (len(words) == 3 and words[2] in {"replace-all", "True", "true"})):
        return FileChange("", "edited", (Hunk(words[0], words[1]),))
    if name == "insert" and 1 <= len(words) <= 2:
        return _make_insertion(words[0], _parse_line_number(words[1] if len(words) == 2 else None))
    return None


def _make_insertion(text: str, line: int | None) -> FileChange:
    """Make the change of a text that is inserted behind a line, or at the end of the file."""
    return FileChange("", "edited", (Hunk("", text, None if line is None else line + 1),))


def _parse_line_number(value: Any) -> int | None:
    """Read the number of a line; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9 else None


def build_editor_command_view(use: ToolUse) -> ToolView | None:
    """Show a created file, the displayed part of one, or a replaced or inserted passage."""
    change = parse_file_change_of_editor_command(use.name, use.args)
    if change is None:
        return None
    if change.kind == "written":
        return file_edits.build_change_view(use, (change,), _("Write"))
    file_line = _FILE_LINE.search(use.result or "")
    path = change.path or (file_line[1] if file_line else "")
    if not change.hunks:
        return _build_opened_file_view(use, path)
    view = file_edits.build_change_view(use, (replace(change, path=path),), _("Edit"))
    if view is None:
        return None
    match = _EDIT.fullmatch(use.get_first_text_argument_or_empty("command"))
    note = _("lines %(start)d to %(end)d") % {"start": int(match[1]), "end": int(match[2])} if match else ""
    return replace(view, note=note, chip=("bad", _("Failed")) if use.is_error else None)


def _build_opened_file_view(use: ToolUse, path: str) -> ToolView | None:
    """Show the displayed part of a file. What the editor says about the part is the note."""
    numbers: list[int] = []
    texts: list[str] = []
    notes: list[str] = []
    for line in (use.result or "").splitlines():
        match = _NUMBERED_LINE.fullmatch(line)
        if match is None:
            if line.strip():
                notes.append(line)
        elif numbers and int(match[1]) != numbers[-1] + 1:
            return None
        else:
            numbers.append(int(match[1]))
            texts.append(match[2])
    note = " ".join(notes)
    if use.is_error or not numbers or len(note) > 200:
        return None
    shown = use.mask_and_cut_text_for_display("\n".join(texts))
    return ToolView(
        "read",
        _("Read"),
        use.mask_line_for_display(path),
        note=use.mask_line_for_display(note),
        content={
            "lines": diff_lines.number_lines_of_single_text(
                shown.text, file_edits.get_language_of_path(path), numbers[0]
            )
        },
        is_complete=shown.whole,
        size=shown.size,
    )


def _remove_quotes(path: str) -> str:
    return path[1:-1] if len(path) > 2 and path[0] == path[-1] and path[0] in "\"'" else path
