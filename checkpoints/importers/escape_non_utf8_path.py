"""Text of the path of a file, for reports and for the database."""

from __future__ import annotations

import os
from pathlib import Path


def format_path(path: Path | str) -> str:
    """Return the path as text. Bytes of a name that are no UTF-8 are written as `\\xe9`.

    Args:
        path: Path of a file or folder.

    Returns:
        Text that can be encoded and stored.
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")
