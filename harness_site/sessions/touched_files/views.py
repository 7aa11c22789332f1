"""Page of the files that a session touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from harness_site.accounts.permissions import MemberRequest
from harness_site.sessions.session_environment import read_session_environment
from harness_site.sessions.session_lookup import (
    get_session_head_and_mask_secrets_or_404,
    parse_number_parameter_or_none,
    require_member_and_handle_page_not_found,
)
from harness_site.sessions.tool_views import diff_lines, file_edits
from harness_site.sessions.tool_views.file_edits import ShownFile
from harness_site.sessions.tool_views.tool_view_types import ToolUse
from harness_site.sessions.touched_files import touched_files
from harness_site.sessions.touched_files.touched_files import FileCall, TouchedFile

#: Files whose difference is displayed in the list, passages of each, and calls that are named.
_FILES: Final = 25
_HUNKS: Final = 6
_CALLS: Final = 12
_ALL_HUNKS: Final = 200
#: Characters of differences that are compared only to count their lines.
_MAX_COMPARED_CHARS: Final = 300_000
#: Differences that are open at first. The browser opens a further one if a link leads into it.
_UNFOLDED: Final = 3
#: Rows of the list.
_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file for display; `number` names it in the URL. `shown` is None if its difference is not displayed here.

    `added` and `removed` are the numbers of lines of the whole difference, None if it is too large to be counted.
    `calls` are those that changed it, or read a file that no call changed; `reading_calls` are the other readers.
    `unapplied_calls` did not succeed, so they have no part in the difference. Each has a number of further ones.
    """

    number: int
    path: str
    is_changed: bool
    is_only_read: bool
    shown: ShownFile | None
    is_complete: bool
    calls: tuple[FileCall, ...]
    reading_calls: tuple[FileCall, ...]
    unapplied_calls: tuple[FileCall, ...]
    more_calls: int
    more_unapplied_calls: int
    added: int | None
    removed: int | None


@require_GET
@require_member_and_handle_page_not_found
def show_touched_files(request: MemberRequest, pk: int) -> HttpResponse:
    """Show every file that the calls of a session touched; with `file`, the net change of one of them completely."""
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    touched = touched_files.load_touched_files(pk)
    folders = read_session_environment(head.stored).folders
    wanted = parse_number_parameter_or_none(request, "file")
    numbered = list(enumerate(touched.files[:_ROWS]))
    if wanted is not None:
        numbered = [(number, file) for number, file in numbered if number == wanted]
    budget = _CharacterBudget(_MAX_COMPARED_CHARS)
    rows = [_build_file_row(number, file, folders, budget, is_whole=wanted is not None) for number, file in numbered]
    context = {
        "head": head,
        "tab": "files",
        "rows": rows,
        "total": len(touched.files),
        "changed": sum(file.is_changed for file in touched.files),
        "is_complete": touched.is_complete and len(touched.files) <= _ROWS,
        "wanted": wanted,
        "unfolded": _UNFOLDED,
        "limit": touched_files.MAX_CALLS,
    }
    return render(request, "sessions/files.html", context)


@dataclass
class _CharacterBudget:
    """Characters of differences that are still compared to count their lines."""

    remaining_chars: int

    def spend_budget_and_count_changed_lines(self, file: TouchedFile) -> tuple[int, int] | tuple[None, None]:
        """Return the number of added and removed lines of a file; None if its difference is too large."""
        self.remaining_chars -= sum(len(hunk.old) + len(hunk.new) for hunk in file.hunks)
        if self.remaining_chars < 0:
            return None, None
        counts = [diff_lines.count_added_and_removed_lines(hunk.old, hunk.new) for hunk in file.hunks]
        return sum(added for added, _removed in counts), sum(removed for _added, removed in counts)


def _build_file_row(
    number: int, file: TouchedFile, folders: tuple[str, ...], budget: _CharacterBudget, *, is_whole: bool
) -> FileRow:
    use = ToolUse("", {}, None, is_whole=is_whole)
    shown, is_complete = None, True
    if file.is_changed and (is_whole or number < _FILES):
        shown, is_complete = file_edits.build_file_difference_and_completeness(
            use, file.build_net_change(), _ALL_HUNKS if is_whole else _HUNKS
        )
    lines = (
        (shown.added, shown.removed)
        if shown is not None and is_complete
        else budget.spend_budget_and_count_changed_lines(file)
        if file.is_changed
        else (None, None)
    )
    applied = [call for call in file.calls if call.is_applied]
    unapplied = [call for call in file.calls if not call.is_applied]
    calls = [call for call in applied if not (file.is_changed and call.is_read)][:_CALLS]
    reading_calls = [call for call in applied if file.is_changed and call.is_read][: _CALLS - len(calls)]
    return FileRow(
        number,
        use.mask_line_for_display(_make_path_relative(file.path, folders)),
        file.is_changed,
        all(call.is_read for call in file.calls),
        shown,
        is_complete,
        tuple(calls),
        tuple(reading_calls),
        tuple(unapplied[:_CALLS]),
        len(applied) - len(calls) - len(reading_calls),
        max(0, len(unapplied) - _CALLS),
        *lines,
    )


def _make_path_relative(path: str, folders: tuple[str, ...]) -> str:
    for folder in folders:
        prefix = folder.rstrip("/") + "/"
        if path.startswith(prefix) and len(path) > len(prefix):
            return path[len(prefix) :]
    return path
