"""Views of shell commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final

from django.utils.translation import gettext as _

from checkpoints.formats.shell_command_exit_codes import split_output_and_exit_code
from harness_site.core.rendering import ansi_colors
from harness_site.core.shell_commands_in_call_arguments import (
    get_command_without_shell_wrapper_or_empty,
    get_working_directory_or_empty,
)
from harness_site.sessions.session_and_call_status_chips import format_exit_code
from harness_site.sessions.tool_views import file_edits
from harness_site.sessions.tool_views.resolve_and_relativize_paths import resolve_path
from harness_site.sessions.tool_views.tool_view_types import ToolUse, ToolView

#: Commands that display the files that they name, and what a name of a file has.
_READERS: Final = frozenset({"bat", "cat", "head", "less", "more", "nl", "sed", "tail"})
#: Options of these commands whose value is the next word.
_OPTIONS_WITH_VALUE: Final[Mapping[str, frozenset[str]]] = {
    "bat": frozenset({"-H", "-l", "-r", "--highlight-line", "--language", "--line-range", "--style", "--theme"}),
    "head": frozenset({"-c", "-n", "--bytes", "--lines"}),
    "nl": frozenset({"-b", "-d", "-f", "-h", "-i", "-l", "-n", "-s", "-v", "-w"}),
    "sed": frozenset({"-e", "-f", "-l", "--expression", "--file"}),
    "tail": frozenset({"-c", "-n", "-s", "--bytes", "--lines", "--pid", "--sleep-interval"}),
}
_FILE_NAME: Final = re.compile(r"(?!-)[^\s*?$`<>|{}=,]*[A-Za-z_][^\s*?$`<>|{}=,]*")
#: Redirections of the errors, which do not change what is displayed of a file.
_ERROR_REDIRECTION: Final = re.compile(r"(?<!\S)2>(?:&1|>?\s*[^\s;&|<>\"'`$()]+)")
#: Largest number of characters of a command in which files that it reads are looked for.
_MAX_READ_COMMAND_CHARS: Final = 2_000


def build_command_view(use: ToolUse) -> ToolView | None:
    """Show a command behind `$`, with its output and exit code."""
    command = get_command_without_shell_wrapper_or_empty(use.args)
    if not command:
        return None
    if "*** Begin Patch" in command and (patch := file_edits.build_patch_text_view(use, command)) is not None:
        return patch
    output, code = split_output_and_exit_code(use.result or "")
    shown, returned = (
        use.mask_and_cut_text_for_display(command),
        use.mask_and_cut_text_for_display(output, is_terminal=True),
    )
    return ToolView(
        "command",
        use.mask_line_for_display(use.name),
        chip=_get_failure_shape_and_label_or_none(code, use),
        note=use.mask_line_for_display(use.get_first_text_argument_or_empty("description", "justification")),
        content={
            "command": shown.text,
            "folder": use.mask_line_for_display(get_working_directory_or_empty(use.args)).removeprefix("."),
            "output": ansi_colors.render_ansi_as_html(returned.text) if output.strip() else "",
            "is_silent": use.result is not None and not output.strip(),
        },
        is_complete=shown.whole and returned.whole,
        size=shown.size + returned.size,
    )


def build_view_of_tool_named_after_command(use: ToolUse) -> ToolView | None:
    """Show a call that is named after the first word of the command which is its only argument."""
    command = use.args.get("command")
    if len(use.args) != 1 or not isinstance(command, str) or command.split(maxsplit=1)[:1] != [use.name]:
        return None
    return build_command_view(use)


def build_background_command_view(use: ToolUse) -> ToolView | None:
    """Show the output of a command that runs in the background."""
    task = next(
        (str(use.args[name]) for name in ("bash_id", "shell_id", "task_id", "session_id") if name in use.args), ""
    )
    if not task:
        return None
    returned = use.mask_and_cut_text_for_display(use.result or "", is_terminal=True)
    return ToolView(
        "command",
        _("Background command"),
        use.mask_line_for_display(task),
        content={"command": "", "output": ansi_colors.render_ansi_as_html(returned.text)},
        is_complete=returned.whole,
        size=returned.size,
    )


def list_files_displayed_by_command(command: str) -> list[str]:
    """List the files that a command displays, as far as its words name them: `sed -n 1,80p a.py`, `cat a.py b.py`.

    Their paths count from where the command starts, so those of `cd src && cat a.py` are `src/a.py`.
    """
    if len(command) > _MAX_READ_COMMAND_CHARS:
        return []
    command = _ERROR_REDIRECTION.sub("", command)
    if ">" in command or "<<" in command:
        return []
    files: list[str] = []
    directory = ""
    for part in re.split(r"&&|;|\n", command):
        try:
            words = shlex.split(part.partition("|")[0])
        except ValueError:  # the command was split inside of quotes
            continue
        name = words[0] if words else ""
        if name == "cd":
            target = words[1] if len(words) == 2 else ""
            if target != ".." and not _FILE_NAME.fullmatch(target):  # where the rest runs is not known
                break
            directory = resolve_path(target, directory)
        if name in _READERS and (name != "sed" or "-n" in words):
            named = [word for word in _list_operands(name, words[1:]) if _FILE_NAME.fullmatch(word)]
            files += [resolve_path(word, directory) for word in named]
    return list(dict.fromkeys(files))


def _list_operands(name: str, words: list[str]) -> list[str]:
    """List the words of a command that are neither options, nor values of options, nor the script of sed."""
    options_with_value = _OPTIONS_WITH_VALUE.get(name, frozenset())
    comment = next((number for number, word in enumerate(words) if word.startswith("#")), len(words))
    operands = [
        word
        for before, word in zip(["", *words], words[:comment], strict=False)
        if not word.startswith("-") and before not in options_with_value
    ]
    has_script_option = not {"-e", "-f", "--expression", "--file"}.isdisjoint(words)
    return operands[1:] if name == "sed" and not has_script_option else operands


def _get_failure_shape_and_label_or_none(code: int | None, use: ToolUse) -> tuple[str, str] | None:
    """Return the chip of a command that failed. Of one that did not, the status of its call says so, as in lists."""
    if code:
        return "bad", format_exit_code(code)
    return ("bad", _("Failed")) if use.is_error else None
