"""Places of form fields among the arguments of a call."""

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from harness_site.core.argument_paths_in_words import ListPlace, describe_path
from harness_site.core.hidden_characters import escape_hidden_in_json

#: Stands for the number of a row that scripts of the page may add.
BLANK_ROW_NUMBER: Final = "N"


class RowState(StrEnum):
    """What becomes of the row of a list. A value in no list is kept."""

    KEPT = ""
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class ArgumentPath:
    """Place of a value: the path to it in the stored arguments, of names and of numbers of rows, which begin with 0.

    `names` is this path as the reader may see it, `positions` names it in the form, where a name may be secret, and
    `changed_path` is the path in the changed arguments, without the rows that are removed.
    """

    path: tuple[str | int, ...] = ()
    names: tuple[str | int, ...] = ()
    positions: tuple[int | str, ...] = ()
    changed_path: tuple[str | int, ...] = ()
    row_state: RowState = RowState.KEPT

    def build_place_of_object_value(self, key: str, name: str, position: int) -> "ArgumentPath":
        """Return the place of a value in the object at this place."""
        return replace(
            self,
            path=(*self.path, key),
            names=(*self.names, name),
            positions=(*self.positions, position),
            changed_path=(*self.changed_path, key),
        )

    def build_place_of_list_row(self, number: int, changed_index: int, row_state: RowState) -> "ArgumentPath":
        """Return the place of a row in the list at this place."""
        return ArgumentPath(
            (*self.path, number),
            (*self.names, number),
            (*self.positions, number),
            (*self.changed_path, changed_index),
            row_state,
        )

    def build_place_in_blank_row(self) -> "ArgumentPath":
        """Return the place of the same value in a row that may be added."""
        names, positions = ((*path[:-2], BLANK_ROW_NUMBER, path[-1]) for path in (self.names, self.positions))
        return ArgumentPath(self.path, names, positions, self.changed_path, RowState.ADDED)

    def build_outer_place(self, length: int) -> "ArgumentPath":
        """Return the place of the object, list or row that has this place in it."""
        return ArgumentPath(
            self.path[:length],
            self.names[:length],
            self.positions[:length],
            self.changed_path[:length],
            self.row_state,
        )

    @property
    def key(self) -> str:
        """Name in the form."""
        return "-".join(["argument", *map(str, self.positions)])

    @property
    def label(self) -> str:
        """Name of the value in its object, as the reader may see it."""
        return str(self.names[-1])

    @property
    def name(self) -> str:
        """Name of the value among the arguments, as lists of changes have it: `items, row 2: quantity`."""
        return describe_path(
            [
                ListPlace(name + 1 if isinstance(name, int) else name, is_row=True)
                if isinstance(name, int) or name is BLANK_ROW_NUMBER
                else name
                for name in self.names
            ]
        )

    @property
    def json_path(self) -> str:
        """The path of names and numbers of rows as JSON, for scripts of the page."""
        return escape_hidden_in_json(json.dumps(self.names, ensure_ascii=False))

    def find_value(self, arguments: Any, default: Any) -> Any:
        """Return the value at this place in the stored arguments, or the default."""
        value = arguments
        for key in self.path:
            is_there = key in value if isinstance(value, dict) else isinstance(key, int) and key < len(value)
            if not is_there:
                return default
            value = value[key]
        return value

    def set_value(self, arguments: dict[str, Any], value: Any) -> None:
        """Set the value at this place in changed arguments, of which the lists have all of their rows."""
        outer: Any = arguments
        for key in self.changed_path[:-1]:
            outer = outer[key] if isinstance(key, int) else outer.setdefault(key, {})
        outer[self.changed_path[-1]] = value


#: Place of the arguments as a whole.
ROOT: Final = ArgumentPath()
