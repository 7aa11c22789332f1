"""Page of the files that a session touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_GET

from harness_site.accounts.permissions import MemberRequest
from harness_site.core.number_parameters import parse_number_parameter_or_none
from harness_site.sessions.money_and_count_formatting import format_count
from harness_site.sessions.session_environment import read_session_environment
from harness_site.sessions.session_lookup_masking_and_404 import (
    get_session_head_and_mask_secrets_or_404,
    require_member_and_handle_page_not_found,
)
from harness_site.sessions.tool_views import diff_lines, file_edits
from harness_site.sessions.tool_views.file_edits import ShownFile
from harness_site.sessions.tool_views.resolve_and_relativize_paths import make_path_relative
from harness_site.sessions.tool_views.tool_view_types import ToolUse
from harness_site.sessions.touched_files import touched_files
from harness_site.sessions.touched_files.touched_files import FileCall, TouchedFile, TouchedFiles

#: Files whose difference is displayed in the list, passages of each, and calls that are named.
_FILES: Final = 25
_HUNKS: Final = 6
_CALLS: Final = 40
_ALL_HUNKS: Final = 200
#: Characters of differences that are compared only to count their lines.
_MAX_COMPARED_CHARS: Final = 300_000
#: Differences that are open at first. The browser opens a further one if a link leads into it.
_UNFOLDED: Final = 3
#: Rows of the list.
_ROWS: Final = 500
#: Longest text that paths are searched for.
_MAX_SEARCH_LENGTH: Final = 200
_ORDERS: Final = {
    "": gettext_lazy("Changed files first"),
    "changes": gettext_lazy("Most changed lines"),
    "calls": gettext_lazy("Most calls"),
    "path": gettext_lazy("Path"),
}


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file for display; `number` names it in the URL. `shown` is None if its difference is not displayed here.

    `added` and `removed` are the numbers of lines of the whole difference, None if it is too large to be counted.
    `calls` are those that changed it, or read a file that no call changed; `reading_calls` are the other readers.
    `unapplied_calls` did not succeed, so they have no part in the difference. Each has a number of further ones.
    `summary_of_calls` counts all of them. The difference is folded if it is not one of the first.
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
    summary_of_calls: str
    is_folded: bool
    is_changed_by_own_call: bool

    @property
    def has_only_copied_changes(self) -> bool:
        """Return whether a fork has copied all calls that changed the file."""
        return self.is_changed and not self.is_changed_by_own_call

    @property
    def only_call(self) -> FileCall | None:
        """The call if there is no other one."""
        calls = (*self.calls, *self.reading_calls, *self.unapplied_calls)
        return calls[0] if len(calls) == 1 else None


@require_GET
@require_member_and_handle_page_not_found
def show_touched_files(request: MemberRequest, pk: int) -> HttpResponse:
    """Show every file that the calls of a session touched; with `file`, the net change of one of them completely."""
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    folders = read_session_environment(head.stored).folders
    touched = touched_files.load_touched_files(
        pk, folders[0] if len(folders) == 1 else "", may_have_copied_calls=head.may_have_copied_calls
    )
    wanted = parse_number_parameter_or_none(request, "file")
    budget = _CharacterBudget(_MAX_COMPARED_CHARS)
    search = request.GET.get("path", "")[:_MAX_SEARCH_LENGTH].strip()
    order = found if wanted is None and (found := request.GET.get("order", "")) in _ORDERS else ""
    if wanted is not None:
        search = ""
    matching = _find_and_sort_files(touched.files, folders, search, order, budget)
    numbered = [file for file in matching if wanted in (None, file[0])][:_ROWS]
    rows: list[FileRow] = []
    open_differences = 0
    for rank, (number, path, file) in enumerate(numbered):
        is_folded = wanted is None and open_differences >= _UNFOLDED
        open_differences += file.is_changed
        rows.append(
            _build_file_row(
                number,
                path,
                file,
                budget,
                is_shown=rank < _FILES,
                is_whole=wanted is not None,
                is_folded=is_folded,
            )
        )
    context = {
        "head": head,
        "tab": "files",
        "rows": rows,
        "total": len(touched.files),
        "changed": sum(file.is_changed for file in touched.files),
        "changed_by_own_calls": sum(file.is_changed_by_own_call for file in touched.files),
        "changed_only_by_copies": sum(file.is_changed and not file.is_changed_by_own_call for file in touched.files),
        "has_copied_calls": any(call.is_copied for file in touched.files for call in file.calls),
        "after_fork": _build_rows_of_files_changed_after_fork(touched, folders, budget)
        if wanted is None and not search
        else [],
        "matching": len(matching),
        "is_complete": touched.is_complete and len(matching) <= _ROWS,
        "wanted": wanted,
        "search": search,
        "order": order,
        "orders": list(_ORDERS.items()),
        "limit": touched_files.MAX_CALLS,
    }
    return render(request, "sessions/files.html", context)


def _build_rows_of_files_changed_after_fork(
    touched: TouchedFiles, folders: tuple[str, ...], budget: _CharacterBudget
) -> list[FileRow]:
    """Build the rows of the files that the original of a fork changed later, without differences."""
    use, budget = ToolUse("", {}, None), _CharacterBudget(budget.remaining_chars)
    return [
        _build_file_row(
            number,
            use.mask_line_for_display(make_path_relative(file.path, folders)),
            file,
            budget,
            is_shown=False,
            is_whole=False,
            is_folded=True,
        )
        for number, file in enumerate(touched.changed_after_fork[:_ROWS])
    ]


@dataclass
class _CharacterBudget:
    """Characters of differences that are still compared to count their lines."""

    remaining_chars: int
    _counted: dict[str, tuple[int, int]] = field(default_factory=dict)

    def spend_budget_and_count_changed_lines(self, file: TouchedFile) -> tuple[int, int] | tuple[None, None]:
        """Return the number of added and removed lines of a file; None if its difference is too large for the rest."""
        if file.path in self._counted:
            return self._counted[file.path]
        size = sum(len(hunk.old) + len(hunk.new) for hunk in file.hunks)
        if size > self.remaining_chars:
            return None, None
        self.remaining_chars -= size
        counts = [diff_lines.count_added_and_removed_lines(hunk.old, hunk.new) for hunk in file.hunks]
        self._counted[file.path] = sum(added for added, _ in counts), sum(removed for _, removed in counts)
        return self._counted[file.path]


def _find_and_sort_files(
    files: Sequence[TouchedFile], folders: tuple[str, ...], search: str, order: str, budget: _CharacterBudget
) -> list[tuple[int, str, TouchedFile]]:
    """Return the files whose displayed path contains each of the words, with their number and that path."""
    use = ToolUse("", {}, None)
    words = search.casefold().split()
    found = [
        (number, path, file)
        for number, file in enumerate(files)
        if (path := use.mask_line_for_display(make_path_relative(file.path, folders)))
        and all(word in path.casefold() for word in words)
    ]
    match order:
        case "path":
            found.sort(key=lambda row: row[1].casefold())
        case "calls":
            found.sort(key=lambda row: -len(row[2].calls))
        case "changes":
            counted = {number: _count_or_estimate_changed_lines(file, budget) for number, _path, file in found}
            found.sort(key=lambda row: -counted[row[0]])
    return found


def _count_or_estimate_changed_lines(file: TouchedFile, budget: _CharacterBudget) -> int:
    """Return the number of changed lines; that of all lines of its passages if they are too large to be compared."""
    added, removed = budget.spend_budget_and_count_changed_lines(file)
    if added is None or removed is None:
        return sum(text.count("\n") + 1 for hunk in file.hunks for text in (hunk.old, hunk.new) if text)
    return added + removed


def _format_summary_of_calls(calls: Sequence[FileCall]) -> str:
    reads = sum(call.is_applied and call.is_read for call in calls)
    edits = sum(call.is_applied and not call.is_read for call in calls)
    unapplied = len(calls) - reads - edits
    counted = (
        (edits, ngettext("%(count)s edit", "%(count)s edits", edits)),
        (reads, ngettext("%(count)s read", "%(count)s reads", reads)),
        (unapplied, _("%(count)s not counted")),
    )
    return " · ".join(text % {"count": format_count(number)} for number, text in counted if number)


def _build_file_row(
    number: int,
    path: str,
    file: TouchedFile,
    budget: _CharacterBudget,
    *,
    is_shown: bool,
    is_whole: bool,
    is_folded: bool,
) -> FileRow:
    use = ToolUse("", {}, None, is_whole=is_whole)
    shown, is_complete = None, True
    if file.is_changed and (is_whole or is_shown):
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
        path,
        file.is_changed,
        all(call.is_read for call in file.calls),
        shown,
        is_complete,
        tuple(calls),
        tuple(reading_calls),
        tuple(unapplied[:_CALLS]),
        len(applied) - len(calls) - len(reading_calls),
        max(0, len(unapplied) - _CALLS),
        added=lines[0],
        removed=lines[1],
        summary_of_calls=_format_summary_of_calls(file.calls),
        is_folded=is_folded,
        is_changed_by_own_call=file.is_changed_by_own_call,
    )
