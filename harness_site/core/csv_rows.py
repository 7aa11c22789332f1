"""CSV lines whose cells no spreadsheet interprets as formulas."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord

#: Last column of every table. It is empty but in the last row, where it says whether the table is complete.
_MARK_COLUMN: Final = "export"
_COMPLETE: Final = "rows: {}, complete"
_NOT_COMPLETE: Final = "not complete: the export broke off after this row, the log of the server says why"
#: Characters with which a complete table ends, before its line end.
ENDING: Final = ', complete"'
_LINE_END: Final = "\r\n"
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


def add_export_column_marking_last_row(lines: Iterable[str]) -> Iterator[str]:
    """Add the column `export` to the lines of a table, of which the first one is the header.

    A row that only marks the end would be read as one more record. So each line waits until the next one is known, and
    the last row gets the mark; the header, if there is no row. If the lines cannot be produced to the end, the mark of
    the last one says so, and the error is raised.
    """
    held, rows = "", -1
    try:
        for line in lines:
            if held:
                yield _add_cell(held, "" if rows else _MARK_COLUMN)
            held, rows = line, rows + 1
    except Exception:
        if held:
            yield _add_cell(held, _NOT_COMPLETE)
        raise
    if held:
        yield _add_cell(held, _COMPLETE.format(rows))


def _add_cell(line: str, cell: str) -> str:
    return line.removesuffix(_LINE_END) + "," + (mask_and_format_csv_line([cell]) if cell else _LINE_END)


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
