"""CSV cells never start a formula, and the check takes linear time."""

import pytest

from harness_site.core import csv_rows
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
