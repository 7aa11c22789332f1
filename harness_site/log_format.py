"""Entries of the log that nobody can forge: what an entry quotes, an agent may have written."""

from __future__ import annotations

import logging
from typing import Final

from harness_site.rendering.safe_text import visible_text

#: Before each further line of an entry, so that none looks like the beginning of another.
_CONTINUED: Final = "\n    | "


class OneEntryFormatter(logging.Formatter):
    """Writes each entry with its hidden characters named, and its further lines (of a traceback, of a text with line
    breaks) marked as such."""

    def format(self, record: logging.LogRecord) -> str:
        return visible_text(super().format(record)).replace("\n", _CONTINUED)
