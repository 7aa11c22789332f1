"""Log entries that quoted text of agents cannot forge, without the mistakes of people in forms."""

from __future__ import annotations

import logging
from typing import Final

from harness_site.core.hidden_characters import replace_hidden_characters_by_names
from harness_site.core.redact_secrets_in_one_time_links import hide_secrets_in_one_time_links

#: Prefix of the further lines of an entry, so that none looks like a new entry.
_CONTINUED: Final = "\n    | "


class OneEntryFormatter(logging.Formatter):
    """Formatter that names hidden characters, hides secrets of links, and marks the further lines of an entry."""

    def format(self, record: logging.LogRecord) -> str:
        entry = hide_secrets_in_one_time_links(super().format(record))
        return replace_hidden_characters_by_names(entry).replace("\n", _CONTINUED)


class FormErrorFilter(logging.Filter):
    """Filter that drops the entries of refused input: a form whose page says what is wrong is no event of the server.

    Django logs each answer with such a status as a warning. Other refusals, as 403 and 404, stay.
    """

    STATUSES: Final = frozenset({409, 422})

    def filter(self, record: logging.LogRecord) -> bool:
        return getattr(record, "status_code", None) not in self.STATUSES
