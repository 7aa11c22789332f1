"""CSV cells never start a formula, and the check takes linear time."""

import csv
from collections.abc import Iterator

import pytest

from harness_site.core import csv_rows
from harness_site.core.streamed_downloads import CSV, build_download_response
from tests.support.linear_growth import assert_linear


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("plain; text", "plain; text"),
        ("=1+1", "'=1+1"),
        ("x;=1+1", "x;'=1+1"),
        ("x; \"'=1+1", "x;' \"'=1+1"),
        ("x;;=1", "x;;'=1"),
        ("x|\uff1d1", "x|'\uff1d1"),
        ("x\n\t=1", "x\n'\t'=1"),
        ("a = b", "a = b"),
    ],
)
def test_cells_start_no_formula(cell: str, written: str) -> None:
    quoted = written.replace('"', '""')
    expected = f'"{quoted}"' if any(sign in written for sign in '"\n,') else written
    assert csv_rows.mask_and_format_csv_line([cell]) == f"{expected}\r\n"


@pytest.mark.parametrize("piece", ["\n", "\t", " ;", '"', "=", ";="])
def test_cell_of_separators_takes_linear_time(piece: str) -> None:
    assert_linear(
        lambda text: csv_rows.mask_and_format_csv_line([text]),
        lambda size: piece * (size // len(piece)),
        largest=200_000,
    )


def marked(*rows: str, fails: bool = False) -> tuple[list[list[str]], str]:
    """Return the cells of the lines of an export with these rows, and the text of the file."""

    def produce() -> Iterator[str]:
        yield from (f"{row}\r\n" for row in rows)
        if fails:
            raise RecursionError("a value without end")

    text = (
        build_download_response(csv_rows.add_export_column_marking_last_row(produce()), CSV, "calls.csv")
        .getvalue()
        .decode()
    )
    return list(csv.reader(text.splitlines())), text


def test_last_row_says_that_the_table_is_complete_and_no_row_stands_for_the_end() -> None:
    lines, text = marked("call,tool", "c1,pay", "c2,pay")
    assert lines == [["call", "tool", "export"], ["c1", "pay", ""], ["c2", "pay", "rows: 2, complete"]]
    assert text.rstrip().endswith(CSV.ending)


def test_header_of_a_table_without_rows_says_that_it_is_complete() -> None:
    lines, text = marked("call,tool")
    assert lines == [["call", "tool", "rows: 0, complete"]]
    assert text.rstrip().endswith(CSV.ending)


@pytest.mark.parametrize("rows", [("call,tool",), ("call,tool", "c1,pay", "c2,pay")])
def test_last_row_says_that_the_export_broke_off(rows: tuple[str, ...], caplog: pytest.LogCaptureFixture) -> None:
    lines, text = marked(*rows, fails=True)
    assert len(lines) == len(rows)
    assert lines[-1][-1] == "not complete: the export broke off after this row, the log of the server says why"
    assert not text.rstrip().endswith(CSV.ending)
    assert "The export calls.csv broke off" in caplog.text


def test_table_that_was_cut_at_any_place_is_not_complete() -> None:
    _lines, text = marked("call,status", "c1,completed", "c2,completed")
    assert not any(text[:length].rstrip().endswith(CSV.ending) for length in range(len(text) - 2))
