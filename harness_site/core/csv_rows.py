"""CSV lines whose cells no spreadsheet interprets as formulas."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Final

from harness_site.core.rendering.mask_and_shorten_text import mask_and_reveal_hidden
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord

#: Last lines of a complete and of an incomplete table.
COMPLETE: Final = "# complete"
NOT_COMPLETE: Final = "# not complete: the export broke off here; the log of the server says why"
#: Characters at the start of a cell that a spreadsheet takes for a formula, in narrow and wide form. The start may
#: follow blanks and quotes that the spreadsheet drops. Where the separator is not a comma, as in much of Europe, or if
#: quotes are not recognized, a cell also begins after each other separator.
_SIGNS: Final = frozenset("=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212")
_SEPARATORS: Final = frozenset(";|\t\n")
#: Separators with the blanks and quotes after them. Possessive, so that no run is scanned twice.
_RUN: Final = re.compile(r"""(?:^|[;|\t\n])[\s"';|]*+""")


def mask_and_format_csv_line(cells: Iterable[str]) -> str:
    """Format one line with its line end; secrets in cells are masked."""
    buffer = io.StringIO()
    csv.writer(buffer).writerow([_mask_and_escape_formula_cell(cell) for cell in cells])
    return buffer.getvalue()


def build_unreadable_row_cells(record: UnreadableRecord, head: Sequence[str]) -> list[str]:
    """Build the cells of a line for a record that cannot be displayed."""
    return [f"{record.kind} {record.pk} cannot be shown", *("" for _ in head[1:])]


def _mask_and_escape_formula_cell(cell: str) -> str:
    return _RUN.sub(_insert_apostrophes_in_separator_run, mask_and_reveal_hidden(cell))


def _insert_apostrophes_in_separator_run(run: re.Match[str]) -> str:
    """Insert an apostrophe before every formula at the start of a cell in or after this run of separators."""
    text, start, end = run.string, run.start(), run.end()
    formula = text[end : end + 1] in _SIGNS
    last = max(text.rfind(";", start, end), text.rfind("|", start, end)) + 1
    parts = []
    for at in range(start, end + 1):
        is_cell_start = at == 0 or text[at - 1] in _SEPARATORS
        if is_cell_start and ((formula and at >= last) or (at < end and text[at] in "\t\r")):
            parts.append("'")
        parts.append(text[at : at + 1] if at < end else "")
    return "".join(parts)
