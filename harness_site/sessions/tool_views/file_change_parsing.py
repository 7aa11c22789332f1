"""Changes of files that a tool call asks for, read from its name and arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal

ChangeKind = Literal["edited", "written", "deleted", "moved"]
#: Names of arguments that hold the path, the old and the new text.
PATHS: Final = ("file_path", "filePath", "path", "absolute_path", "notebook_path", "filename", "file", "target_file")
_OLD: Final = (
    *("old_string", "oldString", "old_str", "oldText", "old_text", "old_content", "oldContent", "old_code", "old"),
    *("search", "find", "original"),
)
_NEW: Final = (
    *("new_string", "newString", "new_str", "newText", "new_text", "new_content", "newContent", "new_code", "new"),
    *("replace", "replacement", "replace_with", "updated", "insert_text"),
)
_CONTENTS: Final = ("content", "contents", "file_text", "text", "code_edit")
#: Largest number of changes and of hunks that one call is read for.
_MAX_CHANGES: Final = 200
_FILE_LINE: Final = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_RANGE_LINE: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class Hunk:
    """A replaced passage. `line` is the number of its first line, None if the call does not state it."""

    old: str
    new: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of one file. A `written` file gets its whole text from its only hunk. `moved_to` is its new path."""

    path: str
    kind: ChangeKind
    hunks: tuple[Hunk, ...] = ()
    moved_to: str = ""


def get_path_argument_or_empty(args: Mapping[str, Any]) -> str:
    """Return the path of the file that arguments name; empty if they name none."""
    return next((args[name] for name in PATHS if isinstance(args.get(name), str) and args[name]), "")


def parse_edit_arguments(args: Mapping[str, Any]) -> FileChange | None:
    """Read one or several replacements of a passage of a file."""
    path = get_path_argument_or_empty(args)
    edits = args.get("edits")
    if not path:
        return None
    if isinstance(edits, list) and edits:
        hunks = [_build_hunk_from_edit_arguments(edit) for edit in edits[:_MAX_CHANGES] if isinstance(edit, dict)]
    else:
        hunks = [_build_hunk_from_edit_arguments(args)]
    known = tuple(hunk for hunk in hunks if hunk is not None)
    return FileChange(path, "edited", known) if known else None


def parse_write_arguments(args: Mapping[str, Any]) -> FileChange | None:
    """Read the whole new text of a file."""
    path = get_path_argument_or_empty(args)
    content = next((args[name] for name in _CONTENTS if isinstance(args.get(name), str)), None)
    return FileChange(path, "written", (Hunk("", content, 1),)) if path and content is not None else None


def parse_notebook_edit_arguments(args: Mapping[str, Any]) -> FileChange | None:
    path, source = get_path_argument_or_empty(args), args.get("new_source")
    if not path or not isinstance(source, str):
        return None
    return FileChange(path, "edited", (Hunk("", source),))


def parse_patch(text: str) -> tuple[FileChange, ...]:
    """Read a patch, of the form `*** Update File:` or a unified diff."""
    if "*** Begin Patch" in text:
        return tuple(islice(_iterate_marked_patch_file_changes(text[text.index("*** Begin Patch") :]), _MAX_CHANGES))
    if "\n+++ " in text or text.startswith("+++ "):
        return tuple(islice(_iterate_unified_diff_file_changes(text), _MAX_CHANGES))
    return ()


def find_patch_text_or_empty(args: Mapping[str, Any]) -> str:
    """Return the first argument that holds a patch, in a command or by itself."""
    for name in ("patch", "input", "diff", "patch_text", "patchText", "command", "cmd"):
        value = args.get(name)
        pieces = value if isinstance(value, list) else [value]
        for piece in pieces:
            if isinstance(piece, str) and ("*** Begin Patch" in piece or "+++ " in piece):
                return piece
    return ""


def _build_hunk_from_edit_arguments(edit: Mapping[str, Any]) -> Hunk | None:
    old = next((edit[name] for name in _OLD if isinstance(edit.get(name), str)), None)
    new = next((edit[name] for name in _NEW if isinstance(edit.get(name), str)), None)
    if old is None and new is None:
        return None
    line = edit.get("insert_line")
    number = line + 1 if isinstance(line, int) and not isinstance(line, bool) else None
    return Hunk(old or "", new or "", number) if old is not None or number is not None else None


def _iterate_marked_patch_file_changes(text: str) -> Iterator[FileChange]:
    kind, path, moved_to = "", "", ""
    lines: list[str] = []
    for line in [*text.split("\n"), "*** End Patch"]:
        if line.startswith("*** Move to: "):
            moved_to = line.removeprefix("*** Move to: ").strip()
        elif line.startswith("*** ") and not line.startswith("*** End of File"):
            if path:
                yield _make_marked_file_change(kind, path, moved_to, lines)
            match = _FILE_LINE.match(line)
            kind, path = (match[1], match[2].strip()) if match else ("", "")
            moved_to, lines = "", []
            if line.startswith("*** End Patch"):
                return
        else:
            lines.append(line)


def _make_marked_file_change(kind: str, path: str, moved_to: str, lines: list[str]) -> FileChange:
    if kind == "Delete":
        return FileChange(path, "deleted")
    if kind == "Add":
        return FileChange(path, "written", (Hunk("", "\n".join(line.removeprefix("+") for line in lines), 1),))
    return FileChange(path, "moved" if moved_to else "edited", tuple(_iterate_patch_hunks(lines)), moved_to)


def _iterate_unified_diff_file_changes(text: str) -> Iterator[FileChange]:
    old_path = path = ""
    lines: list[str] = []
    for line in [*text.removesuffix("\n").split("\n"), "--- "]:
        if line.startswith(("--- ", "diff --git ")):
            if path:
                yield _make_unified_file_change(old_path, path, lines)
            old_path, path, lines = _strip_diff_path_prefix(line.removeprefix("--- ")), "", []
        elif line.startswith("+++ ") and not path:
            path = _strip_diff_path_prefix(line.removeprefix("+++ "))
        elif path:
            lines.append(line)


def _strip_diff_path_prefix(path: str) -> str:
    path = path.split("\t")[0].strip()
    return path[2:] if path.startswith(("a/", "b/")) else path


def _make_unified_file_change(old_path: str, path: str, lines: list[str]) -> FileChange:
    if path == "/dev/null":
        return FileChange(old_path, "deleted")
    hunks = tuple(_iterate_patch_hunks(lines))
    if old_path == "/dev/null":
        return FileChange(path, "written", (Hunk("", "\n".join(hunk.new for hunk in hunks), 1),))
    return FileChange(path, "edited", hunks)


def _iterate_patch_hunks(lines: list[str]) -> Iterator[Hunk]:
    """Yield the hunks of a patch: what `@@` begins."""
    old: list[str] = []
    new: list[str] = []
    number: int | None = None
    for line in [*lines, "@@"]:
        if line.startswith("@@"):
            if old or new:
                yield Hunk("\n".join(old), "\n".join(new), number)
            match = _RANGE_LINE.match(line)
            old, new, number = [], [], int(match[2]) if match else None
        elif line.startswith("-"):
            old.append(line[1:])
        elif line.startswith("+"):
            new.append(line[1:])
        elif line.startswith(" ") or (not line and (old or new)):
            old.append(line[1:])
            new.append(line[1:])
