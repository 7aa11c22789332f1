"""Paths of files as tool calls name them: absolute, or relative to the directory of the call."""

from __future__ import annotations

import ntpath
import posixpath
import re
from collections.abc import Iterable
from types import ModuleType
from typing import Final

_WINDOWS_ROOT: Final = re.compile(r"[A-Za-z]:[\\/]|\\\\")
#: Beginnings of paths that are absolute: a root, a home directory, an environment variable, an address.
_ABSOLUTE: Final = re.compile(r"[/~$]|[A-Za-z][A-Za-z0-9+.-]*://")


def resolve_path(path: str, base_directory: str) -> str:
    """Resolve a relative path against `base_directory`, which is empty if unknown: `./a.py` in `/srv` is `/srv/a.py`.

    Absolute paths stay as they are, except that steps such as `..` are removed from them.
    """
    if not path or "://" in path:
        return path
    module = _choose_path_module(path) if _is_absolute(path) else _choose_path_module(base_directory)
    joined = path if _is_absolute(path) or not base_directory else module.join(base_directory, path)
    return str(module.normpath(joined))


def make_path_relative(path: str, directories: Iterable[str]) -> str:
    """Return a path without the first of the directories that has it; unchanged if none has."""
    for directory in directories:
        separator = _choose_path_module(directory).sep
        prefix = directory.rstrip(separator) + separator
        if path.startswith(prefix) and len(path) > len(prefix):
            return path[len(prefix) :]
    return path


def _is_absolute(path: str) -> bool:
    return bool(_ABSOLUTE.match(path) or _WINDOWS_ROOT.match(path))


def _choose_path_module(path: str) -> ModuleType:
    return ntpath if _WINDOWS_ROOT.match(path) else posixpath
