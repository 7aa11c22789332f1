"""Lines of CSV that no spreadsheet takes for anything but text."""

import csv
import io
from collections.abc import Iterable
from typing import Final

from harness_site.rendering.text import visible

#: A spreadsheet takes a cell that begins with one of these for a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
#: The last line of a table says whether it is all of it.
COMPLETE: Final = "# complete"
NOT_COMPLETE: Final = "# not complete: the export broke off here; the log of the server says why"


def line(cells: Iterable[str]) -> str:
    """One line with its end; what is secret in a cell is masked."""
    buffer = io.StringIO()
    csv.writer(buffer).writerow([_harmless(cell) for cell in cells])
    return buffer.getvalue()


def _harmless(cell: str) -> str:
    text = visible(cell)
    return f"'{text}" if text.startswith(_FORMULA) else text
