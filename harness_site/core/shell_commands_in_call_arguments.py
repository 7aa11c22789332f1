"""Shell command in the arguments of a call, and the directory that it runs in."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

_WRAPPERS: Final = frozenset({"bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh", "/usr/bin/bash"})
#: Largest number of characters of the words of a command that are quoted.
_MAX_QUOTED_CHARS: Final = 20_000

_DIRECTORIES: Final = ("workdir", "cwd", "directory", "dir_path")


def get_working_directory_or_empty(args: Mapping[str, Any]) -> str:
    """Return the directory that arguments say a call runs in; empty if they name none."""
    return next((args[name] for name in _DIRECTORIES if isinstance(args.get(name), str) and args[name]), "")


def find_command_argument_name_or_empty(args: Mapping[str, Any]) -> str:
    """Return the name of the argument that has the command of a call; empty if there is none."""
    return next((name for name in ("command", "cmd", "script", "input") if args.get(name)), "")


def get_command_without_shell_wrapper_or_empty(args: Mapping[str, Any]) -> str:
    """Return the command in the arguments of a call, without the shell that runs it; empty if there is none."""
    given: Any = args.get(find_command_argument_name_or_empty(args), "")
    return join_command_without_shell_wrapper_or_empty(given.get("command", "") if isinstance(given, dict) else given)


def join_command_without_shell_wrapper_or_empty(command: Any) -> str:
    """Return a command as a text; empty if it is neither a text nor a list of words.

    A text stays as it is. Of a list such as `["bash", "-lc", "ls"]` the last word is returned. The words of another
    list are quoted and joined with spaces, or joined with newlines if the first is `apply_patch` or the list is long.
    """
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        return command if isinstance(command, str) else ""
    if len(command) == 3 and command[0] in _WRAPPERS and command[1] in {"-c", "-lc"}:
        return str(command[2])
    is_quoted = sum(map(len, command)) < _MAX_QUOTED_CHARS and command[0] != "apply_patch"
    return shlex.join(command) if is_quoted else "\n".join(command)
