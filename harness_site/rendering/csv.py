"""Lines of CSV that no spreadsheet takes for anything but text."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Final

from checkpoints.queries.unreadable import UnreadableRecord
from harness_site.rendering.text import visible

#: The last line of a table says whether it is all of it.
COMPLETE: Final = "# complete"
NOT_COMPLETE: Final = "# not complete: the export broke off here; the log of the server says why"
#: What a spreadsheet takes for a formula: one of these signs, narrow or wide, at the beginning of a cell, behind blanks
#: and quotes that it may drop. Where cells are divided by something else than a comma, as in much of Europe, or where
#: the quotes are not understood, a cell begins behind each of the other separators too.
_FORMULA: Final = re.compile(
    r"""(?:^|(?<=[;|\t\n]))(?=[\s"']*[=+\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212]|[\t\r])"""
)


def line(cells: Iterable[str]) -> str:
    """One line with its end; what is secret in a cell is masked."""
    buffer = io.StringIO()
    csv.writer(buffer).writerow([_harmless(cell) for cell in cells])
    return buffer.getvalue()


def unreadable(record: UnreadableRecord, head: Sequence[str]) -> list[str]:
    """The cells of a line for a record that cannot be shown."""
    return [f"{record.kind} {record.pk} cannot be shown", *("" for _ in head[1:])]


def _harmless(cell: str) -> str:
    return _FORMULA.sub("'", visible(cell))
