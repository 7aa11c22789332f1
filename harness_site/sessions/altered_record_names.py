"""Names of altered rows, as the pages of their session name its records."""

from __future__ import annotations

import re
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from checkpoints.models import Checkpoint, Decision, Message, Run, Session, ToolCall
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.rendering.text_shortening import shorten_text
from harness_site.sessions.money_and_count_formatting import format_count

#: Longest name of a record, in characters.
_LONGEST: Final = 120
#: What a row of a table is, for the tables that members know. Other tables are shown by their name.
_RECORD_BY_TABLE: Final = {
    model._meta.db_table: label
    for model, label in (
        (Session, gettext_lazy("Session %(name)s")),
        (Message, gettext_lazy("Message %(name)s")),
        (Checkpoint, gettext_lazy("Version %(name)s")),
        (ToolCall, gettext_lazy("Tool call %(name)s")),
        (Decision, gettext_lazy("Decision %(name)s")),
        (Run, gettext_lazy("Run %(name)s")),
    )
}
#: A row as the library describes it: its key, and what it is called in brackets, or its position in a transcript.
_ROW: Final = re.compile(r"\S+ \((?P<name>.*)\)", re.DOTALL)
_POSITION: Final = re.compile(r"(?:message|at position) (\d+)")
#: Words that the name of a row repeats.
_REPEATED: Final = re.compile(r"(?:version|run) (?=\d+$)")


def mask_and_format_record_name(table: str, row: str) -> str:
    """Name the record that an altered row stores, such as “Message 1”; a row of another table is named by its key.

    Args:
        table: Name of the table in the database.
        row: The row as the library describes it: `7 (message 0)`.
    """
    label = _RECORD_BY_TABLE.get(table)
    if label is None:
        return _("Row %(row)s of the table %(table)s") % {
            "row": _mask_and_shorten(row),
            "table": _mask_and_shorten(table),
        }
    match = _ROW.fullmatch(row)
    name = match["name"] if match else row
    if position := _POSITION.fullmatch(name):
        name = format_count(int(position[1]) + 1)
    return _mask_and_shorten(label % {"name": _REPEATED.sub("", name)})


def _mask_and_shorten(text: str) -> str:
    return shorten_text(mask_and_reveal_hidden(text), _LONGEST)
