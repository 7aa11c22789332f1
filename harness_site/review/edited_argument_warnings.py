"""Warnings about changed arguments that probably do not suit the tool, whose schema the log does not have."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from harness_site.core.argument_paths_in_words import ListPlace, describe_path
from harness_site.core.masked_json_value_differences import list_indexes_of_corresponding_items
from harness_site.core.masking.masker import MASK, mask_field_names_and_list_all_fields, mask_json_value
from harness_site.core.money_amounts_in_call_arguments import (
    format_amount_argument,
    is_amount_argument,
    parse_amount_argument,
)
from harness_site.core.rendering import json_tree
from harness_site.review.sums_of_edited_rows import list_sums_of_same_columns, parse_number

_WHOLE_NUMBER: Final = re.compile(r"[+-]?\d+")
_THREE_DECIMAL_PLACES: Final = re.compile(r"\.\d{3}")
_EMAIL_ADDRESS: Final = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
_DATE_AT_START: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
#: Number of times by which an amount is larger or smaller if its decimal point has moved.
_DECIMAL_PLACE: Final = 10
#: Words in the names of arguments that sum up a list beside them: `total_amount`, `orderSubtotal`.
_SUM_WORDS: Final = frozenset({"amount", "subtotal", "sum", "total"})
_END_OF_WORD_IN_NAME: Final = re.compile(r"[\W\d_]+|(?<=[a-z])(?=[A-Z])")
#: Number of characters of a new value that a warning says.
_MAX_VALUE_LENGTH: Final = 40
#: Number of characters of an argument that may be a sum.
_MAX_SUM_LENGTH: Final = 40
_SUM_NOT_CHANGED: Final = gettext_lazy("{name} was not changed. Check whether it still adds up.")
_SUM_DIFFERS: Final = gettext_lazy("The rows of {rows} add up to {sum}; {name} is {value}.")
_SUM_UNKNOWN: Final = gettext_lazy(
    "The rows of {rows} added up to {name}. Now a value in them is not a number, so the sum cannot be checked."
)


def _is_number(_name: str, value: Any) -> bool:
    return parse_number(value) is not None


def _is_whole_number(name: str, value: Any) -> bool:
    return _is_number(name, value) and _WHOLE_NUMBER.fullmatch(str(value).strip()) is not None


def _is_amount_without_currency(name: str, value: Any) -> bool:
    return is_amount_argument(name, value) and _is_number(name, value)


def _is_amount_with_few_decimal_places(name: str, value: Any) -> bool:
    return is_amount_argument(name, value) and _THREE_DECIMAL_PLACES.search(str(value)) is None


def _is_email_address(_name: str, value: Any) -> bool:
    return isinstance(value, str) and _EMAIL_ADDRESS.fullmatch(value.strip()) is not None


def _is_date(_name: str, value: Any) -> bool:
    if not isinstance(value, str) or _DATE_AT_START.match(value) is None:
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_currency(name: str, value: Any) -> bool:
    return "currency" in name.lower() and isinstance(value, str) and _CURRENCY.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class _Kind:
    """Kind of values: how it is recognized by the name and the value of an argument, and sentences where it is lost.

    `is_lost` is said of a changed value that was of this kind, `is_missing` of a value in an added row if those of all
    other rows are of this kind.
    """

    is_of_kind: Callable[[str, Any], bool]
    is_lost: Promise
    is_missing: Promise


#: A value can be of several kinds; the wider one is first.
_KINDS: Final = (
    _Kind(
        is_amount_argument,
        gettext_lazy("{name} was an amount; the new value “{value}” is not one."),
        gettext_lazy("{name} is an amount in the other rows; the value “{value}” is not one."),
    ),
    _Kind(
        _is_amount_without_currency,
        gettext_lazy("{name} was an amount without a currency; the new value “{value}” is not one."),
        gettext_lazy("{name} is an amount without a currency in the other rows; the value “{value}” is not one."),
    ),
    _Kind(
        _is_number,
        gettext_lazy("{name} was a number; the new value “{value}” is not one."),
        gettext_lazy("{name} is a number in the other rows; the value “{value}” is not one."),
    ),
    _Kind(
        _is_whole_number,
        gettext_lazy(
            "{name} was a whole number; the new value “{value}” is not one. A point starts the decimal places."
        ),
        gettext_lazy(
            "{name} is a whole number in the other rows; the value “{value}” is not one. A point starts the decimal"
            " places."
        ),
    ),
    _Kind(
        _is_amount_with_few_decimal_places,
        gettext_lazy("{name} now has three or more decimal places. A point starts the decimal places."),
        gettext_lazy("{name} has three or more decimal places. A point starts the decimal places."),
    ),
    _Kind(
        _is_email_address,
        gettext_lazy("{name} was an e-mail address; the new value “{value}” is not one."),
        gettext_lazy("{name} is an e-mail address in the other rows; the value “{value}” is not one."),
    ),
    _Kind(
        _is_date,
        gettext_lazy("{name} was a date; the new value “{value}” is not one."),
        gettext_lazy("{name} is a date in the other rows; the value “{value}” is not one."),
    ),
    _Kind(
        _is_currency,
        gettext_lazy("{name} was the code of a currency; the new value “{value}” is not one."),
        gettext_lazy("{name} is the code of a currency in the other rows; the value “{value}” is not one."),
    ),
)


@dataclass(frozen=True, slots=True)
class ArgumentWarning:
    """What is unusual about a value: `path` to it, displayed `name`, and a `sentence` with the value, masked.

    If the rows of a list add up to another sum than the value, `row_sum` is that one, and `displayed_row_sum` in the
    format of the reader. `is_shown_at_field` is False for a sum whose field is already marked as not
    changed.
    """

    path: tuple[str | int, ...]
    name: str
    sentence: str
    row_sum: Decimal | None = None
    displayed_row_sum: str = ""
    is_shown_at_field: bool = True


def list_argument_warnings(before: Any, after: Any) -> tuple[ArgumentWarning, ...]:
    """List what is unusual about changed arguments; nothing if one of them is no object.

    Args:
        before: The arguments that the agent asked for.
        after: The changed arguments.
    """
    if not isinstance(before, dict) or not isinstance(after, dict):
        return ()
    return tuple(_generate_warnings((), (), before, after))


def _generate_warnings(
    outer_path: tuple[str | int, ...],
    outer_steps: tuple[str | ListPlace, ...],
    before: dict[str, Any],
    after: dict[str, Any],
) -> Iterator[ArgumentWarning]:
    fields = {field.key: field for field in mask_field_names_and_list_all_fields(before)}
    for field in mask_field_names_and_list_all_fields(after):
        path, key = (*outer_path, str(field.key)), str(field.key)
        steps = (*outer_steps, field.name)
        name = describe_path(steps)
        asked = fields.get(field.key)
        if asked is None:
            sentence = _("The agent did not send {name}. If the tool has no such argument, it may refuse the call.")
            yield ArgumentWarning(path, name, sentence.format(name=name))
        elif isinstance(asked.value, dict) and isinstance(field.value, dict) and not asked.hidden:
            yield from _generate_warnings(path, steps, asked.value, field.value)
        elif isinstance(asked.value, list) and isinstance(field.value, list) and not asked.hidden:
            yield from _generate_warnings_of_items(path, steps, asked.value, field.value)
        elif not asked.hidden and MASK not in str(mask_json_value(asked.value)):
            values = key, asked.value, field.value
            unusual = _find_warning_of_lost_kind(*values) or _find_warning_of_unusual_amount_change(*values)
            if unusual is not None:
                value = _format_masked_value(field.value)
                yield ArgumentWarning(path, name, str(unusual).format(name=name, value=value))
            elif warning := _find_warning_of_doubtful_sum(path, name, asked.value, field.value, before, after):
                yield warning


def _generate_warnings_of_items(
    path: tuple[str | int, ...], steps: tuple[str | ListPlace, ...], before: list[Any], after: list[Any]
) -> Iterator[ArgumentWarning]:
    asked_items = {j: before[i] for i, j in list_indexes_of_corresponding_items(before, after)}
    are_rows = bool(before) and all(isinstance(item, dict) for item in before)
    for j, item in enumerate(after):
        if not isinstance(item, dict):
            continue
        item_path, item_steps = (*path, j), (*steps, ListPlace(j + 1, is_row=True))
        if isinstance(asked_items.get(j), dict):
            yield from _generate_warnings(item_path, item_steps, asked_items[j], item)
        elif j not in asked_items and are_rows:
            yield from _generate_warnings_of_added_row(item_path, item_steps, before, item)


def _generate_warnings_of_added_row(
    outer_path: tuple[str | int, ...],
    outer_steps: tuple[str | ListPlace, ...],
    rows: list[dict[str, Any]],
    added: dict[str, Any],
) -> Iterator[ArgumentWarning]:
    """Yield warnings about values of an added row that are of another kind than those of all `rows` of the call."""
    for field in mask_field_names_and_list_all_fields(added):
        key = str(field.key)
        others = [row[key] for row in rows if key in row]
        if field.hidden or not others or MASK in str(mask_json_value([{key: other} for other in others])):
            continue
        for kind in _KINDS:
            if all(kind.is_of_kind(key, other) for other in others) and not kind.is_of_kind(key, field.value):
                name = describe_path((*outer_steps, field.name))
                sentence = str(kind.is_missing).format(name=name, value=_format_masked_value(field.value))
                yield ArgumentWarning((*outer_path, key), name, sentence)
                break


def _format_masked_value(value: Any) -> str:
    """Format a value as the tool gets it, masked and shortened."""
    masked = mask_json_value(value)
    text = masked if isinstance(masked, str) else json_tree.dump_json_for_display(masked)
    return Truncator(text).chars(_MAX_VALUE_LENGTH)


def _may_be_sum_of_list(name: str, value: Any) -> bool:
    """Return whether an argument may sum up a list beside it, by its name and its value."""
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        return False
    words = {word.lower() for word in _END_OF_WORD_IN_NAME.split(name)}
    text = str(value)
    return bool(words & _SUM_WORDS) and len(text) < _MAX_SUM_LENGTH and any(map(str.isdigit, text))


def _find_warning_of_doubtful_sum(
    path: tuple[str | int, ...],
    name: str,
    asked: Any,
    value: Any,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> ArgumentWarning | None:
    """Warn about a sum that a list beside it no longer adds up to, or that was left as it was beside a changed list.

    Args:
        path: Path to the sum.
        name: Displayed name of the sum.
        asked: What the agent asked for.
        value: The value after the change.
        before: The arguments beside it that the agent asked for, by key.
        after: These arguments after the change.

    Returns:
        None if there is nothing to doubt.
    """
    key, is_changed = str(path[-1]), asked != value
    if not _may_be_sum_of_list(key, value) or not (is_changed or _has_list_with_other_numbers(before, after)):
        return None
    total, new_total = parse_number(asked), parse_number(value)
    for field in mask_field_names_and_list_all_fields(dict(after)):
        rows = before.get(field.key), field.value
        if total is None or field.hidden or MASK in str(mask_json_value(rows)):
            continue
        if sums := list_sums_of_same_columns(*rows, total):
            if new_total in sums:
                return None
            rows_name = describe_path((field.name,))
            row_sum = next((each for each in sums if each is not None), None)
            if row_sum is None:
                sentence = str(_SUM_UNKNOWN).format(rows=rows_name, name=name)
                return ArgumentWarning(path, name, sentence)
            shown = [format_amount_argument(key, text) for text in (_format_with_cents(row_sum), str(value))]
            sentence = str(_SUM_DIFFERS).format(rows=rows_name, sum=shown[0], name=name, value=shown[1])
            return ArgumentWarning(path, name, sentence, row_sum, shown[0])
    if is_changed:
        return None
    return ArgumentWarning(path, name, str(_SUM_NOT_CHANGED).format(name=name), is_shown_at_field=False)


def _format_with_cents(number: Decimal) -> str:
    """Format a sum without zeros at its end, besides those of cents: products have more decimal places than needed."""
    whole, point, decimals = f"{number:f}".partition(".")
    return f"{whole}{point}{decimals[:2]}{decimals[2:].rstrip('0')}"


def _has_list_with_other_numbers(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether a list among these arguments has other numbers than before: other texts change no sum."""
    return any(
        all(isinstance(args.get(name), list | None) for args in (before, after))
        and _list_numbers(before.get(name)) != _list_numbers(after.get(name))
        for name in before.keys() | after.keys()
    )


def _list_numbers(value: Any) -> list[str]:
    """List the numbers in a value, and the texts that are numbers, at any depth and in a fixed order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return sorted(number for each in value for number in _list_numbers(each))
    return [str(value)] if _is_number("", value) else []


def _find_warning_of_lost_kind(name: str, before: Any, after: Any) -> Promise | None:
    """Return the warning for the first kind that a value had and has lost; None if it has lost none."""
    lost = (kind.is_lost for kind in _KINDS if kind.is_of_kind(name, before) and not kind.is_of_kind(name, after))
    return next(lost, None)


def _find_warning_of_unusual_amount_change(name: str, before: Any, after: Any) -> Promise | None:
    """Return the warning about an amount with another sign or decimal place; None if there is nothing unusual."""
    old, new = parse_amount_argument(name, before), parse_amount_argument(name, after)
    if old is None or new is None or not old:
        return None
    if old * new < 0:
        if new < 0:
            return gettext_lazy("{name} was positive; the new value is negative.")
        return gettext_lazy("{name} was negative; the new value is positive.")
    if abs(new) >= _DECIMAL_PLACE * abs(old):
        return gettext_lazy("{name} is now ten times as much or more.")
    if _DECIMAL_PLACE * abs(new) <= abs(old):
        return gettext_lazy("{name} is now a tenth of what it was or less.")
    return None
