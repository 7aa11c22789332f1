"""Exit codes of shell commands, which the results of the tools that run them state in several formats."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from typing import Any, Final

from checkpoints.formats.canonical_json import decode_json_string_or_return_text, parse_json

#: Patterns of the names of tools that run a shell command and wait for its end, in lower case.
SHELL_COMMAND_TOOLS: Final = (
    *("bash", "shell", "*_shell", "shell_*", "local_shell*", "exec", "exec_*", "execute_bash", "*_command"),
    *("run_terminal_cmd", "terminal", "powershell", "*_shell_command", "execute_command"),
)
#: Patterns of the names of tools that apply patches: programs run some of them as a command.
PATCH_TOOLS: Final = ("apply_patch", "*_patch", "patch", "applypatch")
_SHELL_COMMAND_TOOL: Final = re.compile("|".join(map(translate, SHELL_COMMAND_TOOLS)))
_TOOL_WITH_EXIT_CODE: Final = re.compile("|".join(map(translate, (*SHELL_COMMAND_TOOLS, *PATCH_TOOLS))))
#: Lines before the output, in the formats of the programs that run commands.
_HEADER: Final = re.compile(
    r"(?:(?:Chunk ID|Command|Directory|Wall time|Process Group PGID|Background PIDs|Signal|Error|Total output lines|"
    r"Process running with session ID|Process exited with code|Original token count):[^\n]*\n|"
    r"Process exited with code \d+\n|Exit code:? -?\d+\n|(?:Output|Stdout):\s*\n?)",
    re.IGNORECASE,
)
#: At the start of a line or of a part of it: in the middle, it is what the command says about another one.
_EXIT_CODE: Final = re.compile(
    r"(?:^[^\w\n]{0,3}|, )(?:exit code:?|(?:(?:the )?(?:process|command|script) )?exited with code)\s*(-?\d{1,10})\b",
    re.IGNORECASE | re.MULTILINE,
)
#: Names in an object that a tool returns for a command.
_NAME_OF_OUTPUT: Final = re.compile('"(?:output|stdout|stderr)"')
_NAMES_OF_EXIT_CODE: Final = ("exit_code", "exitCode", "returncode", "return_code")
#: Characters at both ends of an output in which its exit code is searched for.
_ENDS: Final = 300
#: Greatest exit code of any system; Windows has 32 bits.
_GREATEST_EXIT_CODE: Final = 2**32 - 1


@lru_cache(maxsize=1024)
def is_shell_command_tool(name: str) -> bool:
    """Return whether a tool runs shell commands, going by its name."""
    return _SHELL_COMMAND_TOOL.fullmatch(name.lower()) is not None


@lru_cache(maxsize=1024)
def _may_state_exit_code(tool: str) -> bool:
    return _TOOL_WITH_EXIT_CODE.fullmatch(tool.lower()) is not None


def find_exit_code(tool: str, result: str | None) -> int | None:
    """Find the exit code that the result of a call states.

    Args:
        tool: Name of the tool.
        result: Canonical JSON text of its result; None without one.

    Returns:
        The exit code; None if the tool neither runs shell commands nor applies patches, or if the result does not state
        it.
    """
    if result is None or not _may_state_exit_code(tool):
        return None
    return split_output_and_exit_code(decode_json_string_or_return_text(result))[1]


def split_output_and_exit_code(result: str) -> tuple[str, int | None]:
    """Split the result of a command into its output and its exit code, None if the result does not state it."""
    if result.startswith("{") and _NAME_OF_OUTPUT.search(result[:2_000_000]):
        try:
            value = parse_json(result)
        except ValueError:
            value = None
        output = _get_output_or_none(value)
        if output is not None:
            facts = value.get("metadata")
            return output, _get_exit_code_or_none(facts if isinstance(facts, dict) else value)
    match = _EXIT_CODE.search(result[:_ENDS]) or _EXIT_CODE.search(result[-_ENDS:])
    code = _get_exit_code_or_none({"exit_code": int(match[1])}) if match else None
    start, header = 0, _HEADER.match(result)
    while header is not None:
        start = header.end()
        header = _HEADER.match(result, start)
    return result[start:], code


def _get_output_or_none(value: Any) -> str | None:
    """Return the output in a JSON object of a command; None if it is no such object."""
    if not isinstance(value, dict):
        return None
    output = value.get("output")
    if output is not None:
        return output if isinstance(output, str) else None
    texts = [value[name] for name in ("stdout", "stderr") if value.get(name) is not None]
    if not texts or not all(isinstance(text, str) for text in texts):
        return None
    return "\n".join(text.removesuffix("\n") for text in texts if text)


def _get_exit_code_or_none(facts: dict[str, Any]) -> int | None:
    code = next((facts[name] for name in _NAMES_OF_EXIT_CODE if name in facts), None)
    if not isinstance(code, int) or isinstance(code, bool) or abs(code) > _GREATEST_EXIT_CODE:
        return None
    return code
