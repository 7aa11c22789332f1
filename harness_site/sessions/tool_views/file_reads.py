"""Views of tools that read files."""

from __future__ import annotations

import re
from typing import Final

from django.utils.translation import gettext as _

from harness_site.sessions.json_and_text_excerpts import parse_json_container
from harness_site.sessions.program_tags_in_messages import split_tagged_text
from harness_site.sessions.tool_views import diff_lines, file_change_parsing
from harness_site.sessions.tool_views.file_edits import get_language_of_path
from harness_site.sessions.tool_views.tool_view_types import ToolUse, ToolView

#: A line number as programs print it before a line: `   12→text`, `12<tab>text`, `12: text`, `L12: text`.
_NUMBERED: Final = re.compile(r" *L?(\d{1,7})(?:→|\t|: ?|\|)")


def build_read_view(use: ToolUse) -> ToolView | None:
    """Show a file with the numbers of its lines."""
    path = file_change_parsing.get_path_argument_or_empty(use.args)
    command = use.args.get("command")
    if not path or (command is not None and command != "view"):
        return None
    text, chips = _split_text_and_reminders(use.result or "")
    if use.is_error or parse_json_container(text) is not None:
        return None
    first, plain = _remove_line_numbers_and_get_first(text)
    if first is None:
        first = (use.get_first_number_argument_or_none("offset", "start_line") or 1) if text else 1
    shown = use.mask_and_cut_text_for_display(plain)
    lines = (
        diff_lines.number_lines_of_single_text(shown.text, get_language_of_path(path), max(first, 0)) if plain else []
    )
    return ToolView(
        "read",
        _("Read"),
        use.mask_line_for_display(path),
        note=_describe_read_line_range(use),
        content={"lines": lines, "chips": chips},
        is_complete=shown.whole,
        size=shown.size,
    )


def _split_text_and_reminders(result: str) -> tuple[str, list[str]]:
    """Separate the notes of the program, in tags after the text, from the text of the file."""
    if "<system-reminder>" not in result[-4000:]:
        return result, []
    at = result.rfind("<system-reminder>")
    tail = result[at:]
    chips = [piece.text for piece in split_tagged_text(tail) if piece.chip]
    return (result[:at].rstrip("\n"), chips) if chips else (result, [])


def _remove_line_numbers_and_get_first(text: str) -> tuple[int | None, str]:
    """Remove the numbers that begin the lines; return the first of them, None if the lines have none."""
    match = _NUMBERED.match(text)
    if match is None:
        return None, text
    first, lines = int(match[1]), []
    for number, line in enumerate(text.split("\n"), first):
        found = _NUMBERED.match(line)
        if found is not None and int(found[1]) == number:
            lines.append(line[found.end() :])
        elif number > first and line.strip() in {"", str(number)}:  # an empty line may have nothing after its number
            lines.append("")
        else:
            return None, text
    return first, "\n".join(lines)


def _describe_read_line_range(use: ToolUse) -> str:
    start, count = (
        use.get_first_number_argument_or_none("offset", "start_line"),
        use.get_first_number_argument_or_none("limit"),
    )
    end = use.get_first_number_argument_or_none("end_line")
    view_range = use.args.get("view_range")
    if isinstance(view_range, list) and len(view_range) == 2 and all(isinstance(number, int) for number in view_range):
        start, end = view_range
    if count is not None and start is None:
        return _("first %(count)d lines") % {"count": count}
    if count is not None and start is not None:
        end = start + count - 1
    if start is None:
        return ""
    if end is None or end < start:
        return _("from line %(start)d") % {"start": start}
    return _("lines %(start)d to %(end)d") % {"start": start, "end": end}
