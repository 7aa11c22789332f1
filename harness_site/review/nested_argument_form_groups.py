"""Groups of the form fields of arguments: objects, and lists of objects with a row for each item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from harness_site.review.argument_field_paths import ArgumentPath, RowState
from harness_site.review.argument_form_fields import ArgumentColumn, ArgumentField, build_blank_row

#: Estimated width of a column in pixels, by its size, and the width that a table has at least.
_WIDTHS: Final = {"narrow": 92, "middle": 132, "wide": 150}
_MAX_TABLE_WIDTH: Final = 560


@dataclass(frozen=True, slots=True)
class ArgumentGroup:
    """Fields of an object, with the groups in it; of a list of objects, the groups are its rows."""

    place: ArgumentPath
    nodes: tuple[ArgumentField | ArgumentGroup, ...]
    #: Field for the numbers of the rows of a list; None for an object.
    rows_field: ArgumentField | None = None
    #: Row that may be added to a list.
    blank_row: ArgumentGroup | None = None

    @property
    def number(self) -> int | str:
        """Number of a row, from 1."""
        number = self.place.names[-1]
        return number + 1 if isinstance(number, int) else number

    @property
    def is_removed(self) -> bool:
        return self.place.row_state == RowState.REMOVED

    @property
    def columns(self) -> list[tuple[str, ArgumentColumn]]:
        """Names and columns of a list."""
        fields = self.blank_row.nodes if self.blank_row is not None else ()
        return [
            (field.place.label, field.column)
            for field in fields
            if isinstance(field, ArgumentField) and field.column is not None
        ]

    @property
    def is_table(self) -> bool:
        """Whether the rows have room beside each other in the columns of a table, on a wide screen."""
        widths = [_WIDTHS.get(column.size, _MAX_TABLE_WIDTH) for _name, column in self.columns]
        return sum(widths) <= _MAX_TABLE_WIDTH


def group_argument_fields(fields: Sequence[ArgumentField], depth: int = 0) -> tuple[ArgumentField | ArgumentGroup, ...]:
    """Group fields that are in their order by the objects and lists that they belong to."""
    groups = [list(members) for _key, members in groupby(fields, lambda field: field.place.path[depth])]
    return tuple(_build_field_or_group(members, depth + 1) for members in groups)


def _build_field_or_group(fields: list[ArgumentField], depth: int) -> ArgumentField | ArgumentGroup:
    first = fields[0]
    place = first.place.build_outer_place(depth)
    if first.kind == "rows" and len(first.place.path) == depth:
        rows = group_argument_fields(fields[1:], depth)
        blank_fields = build_blank_row([field for field in fields[1:] if field.place.path[depth] == 0])
        blank_row = ArgumentGroup(blank_fields[0].place.build_outer_place(depth + 1), blank_fields)
        return ArgumentGroup(place, rows, first, blank_row)
    return first if len(first.place.path) == depth else ArgumentGroup(place, group_argument_fields(fields, depth))
