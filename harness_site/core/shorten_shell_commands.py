"""Shell commands on one line of a list: without the folder that they run in, with short paths, masked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext

from harness_site.core import masked_formatting
from harness_site.core.masking.masker import get_masked_text_beginning
from harness_site.core.rendering.text_shortening import shorten_text

#: Maximum characters of a command, of a path in it, of the folder that it runs in, and of what is read of them.
_MAX_COMMAND_LENGTH: Final = 160
_MAX_PATH_LENGTH: Final = 40
_MAX_FOLDER_LENGTH: Final = 30
_SCANNED: Final = 2_000
#: Number of files of a patch that are named, and maximum characters of a patch in which they are looked for.
_MAX_PATCHED_FILES: Final = 2
_SCANNED_PATCH: Final = 200_000
_LEADING_FOLDER: Final = re.compile(
    r"""\s*cd\s+(?:'(?P<single>[^'\n]+)'|"(?P<double>[^"\n$`\\]+)"|(?P<bare>[^\s;&|<>'"$`()\\]+))\s*(?:&&|;|\n)\s*(?=\S)"""
)
#: The marker of a text that the lines below the command contain: `cat > notes.md <<'EOF'`.
_HEREDOC: Final = re.compile(r"<<-?\s*(?P<quote>['\"]?)\w+(?P=quote)[^\n]*")
_PATCHED_FILE: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
#: A path with two folders at least, outside of addresses such as `https://example.org/a/b`.
_PATH: Final = re.compile(r"""(?<![\w/.:@~-])[^\s/'"`=:;,|&<>]*(?:/[^\s/'"`=:;,|&<>]+){2,}/?""")


@dataclass(frozen=True, slots=True)
class CommandSummary:
    """A command for one line of a list: `text` without `folder`, the folder that it changes to, if it begins so.

    `whole` is the command with both on one line, as far as a tooltip may have it. `whole_folder` is the complete path.
    """

    text: str
    folder: str
    whole_folder: str
    whole: str


def summarize_command(command: str) -> CommandSummary:
    """Summarize a command, masked for the reader."""
    masked = get_masked_text_beginning(command, _SCANNED)
    match = _LEADING_FOLDER.match(masked)
    folder = "" if match is None else match["single"] or match["double"] or match["bare"]
    text = masked if match is None else masked[match.end() :]
    whole_folder = masked_formatting.mask_and_shorten_to_one_line(folder, _SCANNED)
    return CommandSummary(
        _summarize_patch(command) or _shorten_command(text),
        shorten_path_at_beginning(whole_folder, _MAX_FOLDER_LENGTH),
        whole_folder,
        masked_formatting.mask_and_shorten_to_one_line(command, _SCANNED // 4),
    )


def describe_patched_files(patch: str) -> str:
    """Name the files that a patch of the form `*** Update File: a.py` changes; empty if it is no such patch."""
    if "*** Begin Patch" not in patch:
        return ""
    paths = list(dict.fromkeys(path.strip() for path in _PATCHED_FILE.findall(patch[:_SCANNED_PATCH])))
    named = [
        shorten_path_at_beginning(masked_formatting.mask_and_shorten_to_one_line(path, _SCANNED), _MAX_PATH_LENGTH)
        for path in paths[:_MAX_PATCHED_FILES]
    ]
    omitted = len(paths) - len(named)
    return ", ".join(named) + (gettext(", and %(count)s more") % {"count": omitted} if omitted else "")


def shorten_path_at_beginning(path: str, limit: int) -> str:
    """Shorten a path to `limit` characters at whole folders; the name of the file, at its end, is complete."""
    if len(path) <= limit:
        return path
    end = path[1 - limit :]
    shortened = end.partition("/")[2]
    return f"…/{shortened}" if shortened.strip("/") else f"…{path[path.rstrip('/').rfind('/') :]}"


def _summarize_patch(command: str) -> str:
    files = describe_patched_files(command)
    return f"apply_patch {files}" if files else ""


def _shorten_command(masked: str) -> str:
    heredoc = _HEREDOC.search(masked)
    first = masked if heredoc is None else masked[: heredoc.end()]
    line = _PATH.sub(_shorten_matched_path, masked_formatting.mask_and_shorten_to_one_line(first, _SCANNED))
    is_cut = heredoc is not None and bool(masked[heredoc.end() :].strip())
    return shorten_text(f"{line} …" if is_cut else line, _MAX_COMMAND_LENGTH)


def _shorten_matched_path(path: re.Match[str]) -> str:
    return shorten_path_at_beginning(path[0], _MAX_PATH_LENGTH)
