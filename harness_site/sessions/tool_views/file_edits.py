"""Views of tools that change files: replacements, patches and whole texts as differences."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from django.utils.translation import gettext as _

from harness_site.core.rendering.terminal_sequence_removal import remove_terminal_sequences
from harness_site.sessions.tool_views import diff_lines, file_change_parsing
from harness_site.sessions.tool_views.diff_lines import DiffLine
from harness_site.sessions.tool_views.file_change_parsing import FileChange
from harness_site.sessions.tool_views.tool_view_types import ToolUse, ToolView

#: Files and hunks of one call that are displayed in a conversation, and on a page of its own.
_HUNKS: Final = 8
_MOST_HUNKS: Final = 100
#: Lines of all hunks of one call in a conversation, after which no further hunk begins.
_LINES: Final = 60
#: Characters of a patch, and of all passages of a call, that are compared.
_LONGEST_PATCH: Final = 200_000
_LANGUAGES: Final = {"mjs": "js", "cjs": "js", "pyi": "py", "hpp": "cpp", "cc": "cpp", "htm": "html", "scss": "css"}
_LANGUAGES_OF_NAMES: Final = {"Dockerfile": "docker", "Makefile": "make"}


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A changed file for display: `path` and `note` are masked, `hunks` are lines of differences."""

    path: str
    note: str
    hunks: tuple[tuple[DiffLine, ...], ...]
    added: int = 0
    removed: int = 0


def build_edit_view(use: ToolUse) -> ToolView | None:
    change = file_change_parsing.parse_edit_arguments(use.args)
    return None if change is None else build_change_view(use, (change,), _("Edit"))


def build_write_view(use: ToolUse) -> ToolView | None:
    change = file_change_parsing.parse_write_arguments(use.args)
    return None if change is None else build_change_view(use, (change,), _("Write"))


def build_patch_view(use: ToolUse) -> ToolView | None:
    return build_patch_text_view(use, file_change_parsing.find_patch_text_or_empty(use.args))


def build_submitted_patch_view(use: ToolUse) -> ToolView | None:
    """Show the patch that an agent hands in, which is the result of the call."""
    patch = (use.result or "").replace("\r\n", "\n")
    return None if use.is_error else build_patch_text_view(replace(use, result=None), patch)


def build_patch_text_view(use: ToolUse, text: str) -> ToolView | None:
    """Show a patch by file; None if the text is none."""
    changes = file_change_parsing.parse_patch(text) if len(text) <= _LONGEST_PATCH else ()
    return build_change_view(use, changes, _("Patch")) if changes else None


def build_change_view(use: ToolUse, changes: tuple[FileChange, ...], label: str) -> ToolView | None:
    """Build the view of a call that changes files; None if everything has to be shown and is too much to compare."""
    size = sum(len(hunk.old) + len(hunk.new) for change in changes for hunk in change.hunks)
    if use.is_whole and size > _LONGEST_PATCH:
        return None
    left, lines_left = (_MOST_HUNKS, sys.maxsize) if use.is_whole else (_HUNKS, _LINES)
    files: list[ShownFile] = []
    is_complete = True
    for change in changes:
        shown, whole = build_file_difference_and_completeness(use, change, max(left, 0), lines=lines_left)
        left -= max(1, len(change.hunks))
        lines_left -= sum(map(len, shown.hunks))
        is_complete = is_complete and whole
        if shown.hunks or whole:
            files.append(shown)
    single = files[0] if len(changes) == 1 and files else None
    added, removed = sum(file.added for file in files), sum(file.removed for file in files)
    answer = remove_terminal_sequences(use.result or "").strip()
    returned = use.mask_and_cut_text_for_display(answer)
    is_only_answer_cut = is_complete and not returned.whole
    return ToolView(
        "diff",
        label,
        single.path if single else "",
        note=single.note if single else _("%(count)d files") % {"count": len(changes)},
        chip=(_get_chip_shape_of_change_outcome(use), f"+{added} −{removed}") if is_complete else None,
        content={
            "files": files,
            "is_single": single is not None,
            "returned": returned.text,
            "is_error": use.is_error,
            "is_only_answer_cut": is_only_answer_cut,
        },
        is_complete=is_complete and returned.whole,
        size=len(answer) if is_only_answer_cut else size,
    )


def _get_chip_shape_of_change_outcome(use: ToolUse) -> str:
    """Return the chip shape of a change; without a result, nobody knows whether it was made."""
    if use.result is None:
        return "off"
    return "bad" if use.is_error else "ok"


def build_file_difference_and_completeness(
    use: ToolUse, change: FileChange, limit: int, *, lines: int = sys.maxsize
) -> tuple[ShownFile, bool]:
    """Build the difference of one file. The second value tells whether nothing is left out.

    It has up to `limit` hunks, of which none begins after `lines` lines.
    """
    language = get_language_of_path(change.path)
    hunks: list[tuple[DiffLine, ...]] = []
    whole = len(change.hunks) <= limit
    added = removed = 0
    for hunk in change.hunks[:limit]:
        if sum(map(len, hunks)) >= lines:
            whole = False
            break
        old, new = use.mask_and_cut_text_for_display(hunk.old), use.mask_and_cut_text_for_display(hunk.new)
        whole = whole and old.whole and new.whole
        difference = diff_lines.build_diff_lines(old.text, new.text, language, first=hunk.line)
        added += sum(line.sign == "ins" for line in difference)
        removed += sum(line.sign == "del" for line in difference)
        hunks.append(tuple(difference))
    return ShownFile(
        use.mask_line_for_display(change.path), _describe_file_change_kind(use, change), tuple(hunks), added, removed
    ), whole


def _describe_file_change_kind(use: ToolUse, change: FileChange) -> str:
    match change.kind:
        case "deleted":
            return _("deleted")
        case "moved":
            return _("moved to %(path)s") % {"path": use.mask_line_for_display(change.moved_to)}
        case "written":
            return _("whole file")
        case _:
            return ""


def get_language_of_path(path: str) -> str:
    """Return the language of a file for syntax colours, by its name."""
    name = PurePosixPath(path.replace("\\", "/")).name
    if name in _LANGUAGES_OF_NAMES:
        return _LANGUAGES_OF_NAMES[name]
    suffix = name.rpartition(".")[2].lower() if "." in name else ""
    return _LANGUAGES.get(suffix, suffix)
