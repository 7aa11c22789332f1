"""Places of values among arguments, in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext


@dataclass(frozen=True, slots=True)
class ListPlace:
    """Place in a list: its number, from 1, or what stands for it, and whether it is a row, which has named values."""

    number: int | str
    is_row: bool

    def describe_in_list(self, list_name: str) -> str:
        """Describe this place in the list of this name, which is empty for a list without one."""
        values = {"name": list_name, "number": self.number}
        if not list_name:
            return (gettext("row %(number)s") if self.is_row else gettext("item %(number)s")) % values
        text = gettext("%(name)s, row %(number)s") if self.is_row else gettext("%(name)s, item %(number)s")
        return text % values


def describe_path(path: Sequence[str | ListPlace]) -> str:
    """Describe the path to a value: `order.items, row 2: price`."""
    text, separator = "", ""
    for step in path:
        if isinstance(step, ListPlace):
            text, separator = step.describe_in_list(text), ": "
        else:
            text, separator = f"{text}{separator}{step}", "."
    return text
