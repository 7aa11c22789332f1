"""Files that the tool calls of a session read and changed, with the net change of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from django.db.models import BooleanField, Case, When

from checkpoints.enums import CallStatus
from checkpoints.formats import parse_json_or_return_text
from checkpoints.formats.shell_command_exit_codes import is_shell_command_tool
from checkpoints.models import ToolCall
from checkpoints.models.tool_calls_and_results import is_failed_command
from harness_site.core.shell_commands_in_call_arguments import (
    get_command_without_shell_wrapper_or_empty,
    get_working_directory_or_empty,
)
from harness_site.sessions.selectors import calls_of_original_after_fork
from harness_site.sessions.tool_views import (
    file_change_parsing,
    file_edits,
    file_reads,
    notebooks,
    shell_commands,
    swe_agent_editor,
    tool_view_registry,
)
from harness_site.sessions.tool_views.file_change_parsing import FileChange, Hunk
from harness_site.sessions.tool_views.resolve_and_relativize_paths import resolve_path

#: Largest number of calls, and of characters of their arguments, that are read for one page.
MAX_CALLS: Final = 2_000
MAX_CHARACTERS: Final = 8_000_000
#: Passages of one file that are combined with each other; further ones are listed as they are.
_MAX_COMBINED: Final = 100
_FILE_VIEWS: Final = frozenset(
    {
        file_edits.build_edit_view,
        file_edits.build_write_view,
        file_edits.build_patch_view,
        notebooks.build_notebook_edit_view,
        swe_agent_editor.build_editor_command_view,
        file_reads.build_read_view,
    }
)


@dataclass(frozen=True, slots=True)
class FileCall:
    """A call that touched a file, or was to touch it. `is_copied` if a fork has copied it from its original."""

    pk: int
    tool: str
    issued_at: datetime
    is_read: bool
    status: str
    exit_code: int | None
    is_copied: bool = False

    @property
    def is_applied(self) -> bool:
        """Return whether the call succeeded. A command that failed may still have read its files."""
        return self.status == CallStatus.COMPLETED and (self.is_read or self.exit_code_of_failure is None)

    @property
    def exit_code_of_failure(self) -> int | None:
        """Return the exit code of a command that failed, although its tool completed the call."""
        return self.exit_code if is_failed_command(self.status, self.exit_code) else None


@dataclass
class TouchedFile:
    """A file with its calls, oldest first, and the net change: passages that differ in the end."""

    path: str
    calls: list[FileCall] = field(default_factory=list)
    hunks: list[Hunk] = field(default_factory=list)
    is_written: bool = False
    is_deleted: bool = False

    @property
    def is_changed(self) -> bool:
        """Return whether a call that succeeded changed the file."""
        return any(call.is_applied and not call.is_read for call in self.calls)

    @property
    def is_changed_by_own_call(self) -> bool:
        """Return whether a call that succeeded changed the file, and was not copied from the original of a fork."""
        return any(call.is_applied and not call.is_read and not call.is_copied for call in self.calls)

    def build_net_change(self) -> FileChange:
        """Return the net change."""
        kind: file_change_parsing.ChangeKind = (
            "deleted" if self.is_deleted else "written" if self.is_written else "edited"
        )
        return FileChange(self.path, kind, tuple(self.hunks))


@dataclass(frozen=True, slots=True)
class TouchedFiles:
    """The changed files first, each in the order of its first call. `is_complete` is False if there are more calls.

    `changed_after_fork` are those that the original of a fork changed after the forked version. In the fork, these
    calls have not happened, so that `files` leave them out.
    """

    files: tuple[TouchedFile, ...]
    changed_after_fork: tuple[TouchedFile, ...]
    is_complete: bool


def load_touched_files(session_pk: int, directory: str, *, may_have_copied_calls: bool = True) -> TouchedFiles:
    """Load the files from the logged calls of a session, in two queries, and more if it `may_have_copied_calls`.

    Relative paths count from the directory of their call, and that one from `directory`, which is empty if unknown.
    """
    calls = ToolCall.objects.filter(session=session_pk)
    tools = [name for name in calls.order_by().values_list("tool", flat=True).distinct() if _may_tool_touch_files(name)]
    columns = "pk", "tool", "issued_at", "args", "status", "exit_code", "step", "supersedes"
    after_fork = calls_of_original_after_fork.build_condition_of_calls_after_fork(
        session_pk, may_have_copied_calls=may_have_copied_calls
    )
    is_after_fork = Case(When(after_fork, then=True), default=False, output_field=BooleanField())
    rows = calls.filter(tool__in=tools).order_by("pk").values_list(*columns, is_after_fork)[: MAX_CALLS + 1]
    files: dict[str, TouchedFile] = {}
    files_after_fork: dict[str, TouchedFile] = {}
    open_path = ""
    characters = count = 0
    is_complete = True
    for pk, tool, issued_at, args, status, exit_code, step, supersedes, is_later in (
        rows.iterator(chunk_size=100) if tools else ()
    ):
        count, characters = count + 1, characters + len(args)
        if count > MAX_CALLS or characters > MAX_CHARACTERS:
            is_complete = False
            break
        open_path = _add_call_to_files_and_get_open_path(
            files_after_fork if is_later else files,
            (pk, tool, issued_at),
            parse_json_or_return_text(args),
            (status, exit_code, step < 0 and supersedes is None),
            (directory, open_path),
        )
    changed_after_fork = tuple(file for file in files_after_fork.values() if file.is_changed)
    return TouchedFiles(_sort_changed_files_first(files.values()), changed_after_fork, is_complete)


def _may_tool_touch_files(tool: str) -> bool:
    builders = tool_view_registry.list_view_builders_of_tool(tool)
    return any(build in _FILE_VIEWS for build in builders) or is_shell_command_tool(tool)


def _sort_changed_files_first(files: Iterable[TouchedFile]) -> tuple[TouchedFile, ...]:
    return tuple(sorted(files, key=lambda file: not file.is_changed))


def _add_call_to_files_and_get_open_path(
    files: dict[str, TouchedFile],
    call: tuple[int, str, datetime],
    args: Any,
    outcome: tuple[str, int | None, bool],
    directory_and_open_path: tuple[str, str],
) -> str:
    """Add a call to the files that it touched; return the path of the file that an editor has open after it.

    `outcome` is its status, its exit code and whether a fork has copied it. The directory is that of the session.
    """
    pk, tool, issued_at = call
    directory, open_path = directory_and_open_path
    if isinstance(args, str):
        args = {"input": args}
    if not isinstance(args, dict):
        return open_path
    directory = resolve_path(get_working_directory_or_empty(args), directory) or directory
    uses_editor = swe_agent_editor.build_editor_command_view in tool_view_registry.list_view_builders_of_tool(tool)
    for found in iterate_file_reads_and_changes(tool, args):
        if not (path := resolve_path(found.path, directory) or open_path):  # the log does not say which file was open
            continue
        change = replace(found, path=path, moved_to=resolve_path(found.moved_to, directory))
        is_read = not change.hunks and change.kind == "edited"
        file_call = FileCall(pk, tool, issued_at, is_read, *outcome)
        if uses_editor and file_call.is_applied:
            open_path = change.path
        file = files.setdefault(change.path, TouchedFile(change.path))
        if not file.calls or file.calls[-1].pk != pk:
            file.calls.append(file_call)
        if file_call.is_applied and not is_read:
            add_change_to_net_change(file, change)
        if file_call.is_applied and change.moved_to:
            files[change.moved_to] = file
    return open_path


def iterate_file_reads_and_changes(tool: str, args: dict[str, Any]) -> Iterator[FileChange]:
    """Yield what a call does to files; a file that is only read has no hunks."""
    builders = tool_view_registry.list_view_builders_of_tool(tool)
    if file_edits.build_patch_view in builders or is_shell_command_tool(tool):
        changes = list(file_change_parsing.parse_patch(file_change_parsing.find_patch_text_or_empty(args)))
        read_files = (
            []
            if changes
            else shell_commands.list_files_displayed_by_command(get_command_without_shell_wrapper_or_empty(args))
        )
        yield from changes or (FileChange(path, "edited") for path in read_files)
        return
    readers: dict[tool_view_registry.BuildView, Callable[[Mapping[str, Any]], FileChange | None]] = {
        file_edits.build_edit_view: file_change_parsing.parse_edit_arguments,
        file_edits.build_write_view: file_change_parsing.parse_write_arguments,
        notebooks.build_notebook_edit_view: file_change_parsing.parse_notebook_edit_arguments,
    }
    for build in builders:
        read = readers.get(build)
        change = read(args) if read else None
        if change is not None:
            yield change
            return
    if swe_agent_editor.build_editor_command_view in builders:
        change = swe_agent_editor.parse_file_change_of_editor_command(tool, args)
        if change is not None:
            yield change
        return
    path = file_change_parsing.get_path_argument_or_empty(args)
    if path and file_reads.build_read_view in builders and args.get("command", "view") == "view":
        yield FileChange(path, "edited")


def add_change_to_net_change(file: TouchedFile, change: FileChange) -> None:
    """Combine the net change of a file with a further change."""
    if change.kind == "deleted":
        file.is_deleted, file.hunks = True, []
        return
    file.is_deleted = False
    if change.kind == "written":
        file.hunks, file.is_written = list(change.hunks), True
        return
    for hunk in change.hunks:
        _combine_hunk_with_earlier_ones(file.hunks, hunk)


def _combine_hunk_with_earlier_ones(hunks: list[Hunk], hunk: Hunk) -> None:
    """Combine a replacement with earlier ones of the same passage, so that what was taken back disappears."""
    for index, earlier in enumerate(hunks[:_MAX_COMBINED]):
        if hunk.old and hunk.old in earlier.new:
            combined = Hunk(earlier.old, earlier.new.replace(hunk.old, hunk.new, 1), earlier.line)
        elif earlier.new and earlier.new in hunk.old:
            combined = Hunk(hunk.old.replace(earlier.new, earlier.old, 1), hunk.new, hunk.line)
        else:
            continue
        del hunks[index]
        if combined.old != combined.new:
            hunks.insert(index, combined)
        return
    if hunk.old != hunk.new:
        hunks.append(hunk)
