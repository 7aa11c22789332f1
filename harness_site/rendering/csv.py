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
_SIGNS: Final = frozenset("=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212")
_SEPARATORS: Final = frozenset(";|\t\n")
#: Separators, and the blanks and quotes behind them. It takes all of a run, so that no run is read twice.
_RUN: Final = re.compile(r"""(?:^|[;|\t\n])[\s"';|]*+""")


def line(cells: Iterable[str]) -> str:
    """One line with its end; what is secret in a cell is masked."""
    buffer = io.StringIO()
    csv.writer(buffer).writerow([_harmless(cell) for cell in cells])
    return buffer.getvalue()


def unreadable(record: UnreadableRecord, head: Sequence[str]) -> list[str]:
    """The cells of a line for a record that cannot be shown."""
    return [f"{record.kind} {record.pk} cannot be shown", *("" for _ in head[1:])]


def _harmless(cell: str) -> str:
    return _RUN.sub(_quote_cells, visible(cell))


def _quote_cells(run: re.Match[str]) -> str:
    """Put an apostrophe wherever a cell begins in or behind this run that is a formula."""
    text, start, end = run.string, run.start(), run.end()
    formula = text[end : end + 1] in _SIGNS
    last = max(text.rfind(";", start, end), text.rfind("|", start, end)) + 1
    parts = []
    for at in range(start, end + 1):
        begins = at == 0 or text[at - 1] in _SEPARATORS
        if begins and ((formula and at >= last) or (at < end and text[at] in "\t\r")):
            parts.append("'")
        parts.append(text[at : at + 1] if at < end else "")
    return "".join(parts)
