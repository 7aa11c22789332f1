"""Lists of texts or of numbers as the text of a form field, with one item in each line."""

import json
from collections.abc import Iterable
from typing import Any, Final

from django.utils.translation import gettext as _

from checkpoints.formats import parse_json
from harness_site.core.hidden_characters import has_hidden_characters
from harness_site.core.masking.masker import MASK
from harness_site.review.argument_edit_parsing_and_originals import InvalidArgumentText
from harness_site.review.remove_number_separators import remove_number_separators

#: Kinds of fields whose lines are the items of a list.
LIST_KINDS: Final = frozenset({"texts", "numbers"})


def find_list_kind(value: Any) -> str:
    """Return `texts` or `numbers` for a masked list whose items stay equal as lines, else an empty text."""
    if not isinstance(value, list) or not value:
        return ""
    if all(isinstance(item, str) and _stays_equal_as_line(item) for item in value):
        return "texts"
    is_numbers = all(isinstance(item, int | float) and not isinstance(item, bool) for item in value)
    return "numbers" if is_numbers else ""


def has_lists_of_texts_alone(values: Iterable[Any]) -> bool:
    """Return whether these masked values have lists with items, all of which `find_list_kind` takes for `texts`."""
    kinds = {find_list_kind(value) for value in values if isinstance(value, list) and value}
    return kinds == {"texts"}


def _stays_equal_as_line(text: str) -> bool:
    is_one_line = bool(text) and text == text.strip() and "\n" not in text and "\r" not in text
    return is_one_line and MASK not in text and not has_hidden_characters(text)


def format_list_lines(value: list[Any]) -> str:
    """Format a list with one item in each line."""
    return "\n".join(item if isinstance(item, str) else json.dumps(item) for item in value)


def parse_list_lines(kind: str, text: str, *, decimal_places: int = 3) -> list[Any]:
    """Return the items of a list field. Lines without a character are left out.

    Args:
        kind: Kind of the field, of `LIST_KINDS`.
        text: Its text, with one item in each line.
        decimal_places: How many decimal places the numbers of the list have.

    Raises:
        InvalidArgumentText: An item is no number, or can be read as two.
    """
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if kind == "texts":
        return list(lines)
    return [_parse_number(number, line, decimal_places) for number, line in enumerate(lines, 1)]


def _parse_number(number: int, line: str, decimal_places: int) -> int | float:
    try:
        value = parse_json(remove_number_separators(line, decimal_places=decimal_places))
    except InvalidArgumentText as error:
        raise InvalidArgumentText(_("Item {number}: {problem}").format(number=number, problem=error)) from None
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgumentText(
            _("Item {number} is no number. Use a decimal point and no separators, such as 1200.5.").format(
                number=number
            )
        )
    return value
