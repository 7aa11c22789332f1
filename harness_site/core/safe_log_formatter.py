"""Log entries that quoted text of agents cannot forge."""

from __future__ import annotations

import logging
from typing import Final

from harness_site.core.rendering.hidden_characters import name_hidden_characters

#: Prefix of the further lines of an entry, so that none looks like a new entry.
_CONTINUED: Final = "\n    | "


class OneEntryFormatter(logging.Formatter):
    """Formatter that names hidden characters and marks the further lines of an entry, for example of a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return name_hidden_characters(super().format(record)).replace("\n", _CONTINUED)
