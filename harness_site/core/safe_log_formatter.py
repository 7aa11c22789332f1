"""Log entries that quoted text of agents cannot forge."""

from __future__ import annotations

import logging
from typing import Final

from harness_site.core.rendering.hidden_characters import replace_hidden_characters_by_names

#: Prefix of the further lines of an entry, so that none looks like a new entry.
_CONTINUED: Final = "\n    | "


class OneEntryFormatter(logging.Formatter):
    """Formatter that names hidden characters and marks the further lines of an entry, for example of a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return replace_hidden_characters_by_names(super().format(record)).replace("\n", _CONTINUED)
