"""Warnings about changed arguments that probably do not suit the tool, whose schema the log does not have."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from harness_site.core.masking.masker import MASK, mask_field_names_and_list_all_fields, mask_json_value
from harness_site.core.money_amounts_in_call_arguments import is_amount_argument

_NUMBER: Final = re.compile(r"[+-]?\d+(?:\.\d+)?")
_EMAIL_ADDRESS: Final = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")
_DATE_AT_START: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_CURRENCY: Final = re.compile(r"[A-Z]{3}")


def _is_number(_name: str, value: Any) -> bool:
    if isinstance(value, str):
        return _NUMBER.fullmatch(value.strip()) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


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


#: Recognizes a kind of value by the name and the value of an argument → warning if it is not of this kind any more.
_KINDS: Final[tuple[tuple[Callable[[str, Any], bool], Promise], ...]] = (
    (is_amount_argument, gettext_lazy("{name} was an amount; the new value is not one.")),
    (_is_number, gettext_lazy("{name} was a number; the new value is not one.")),
    (_is_email_address, gettext_lazy("{name} was an e-mail address; the new value is not one.")),
    (_is_date, gettext_lazy("{name} was a date; the new value is not one.")),
    (_is_currency, gettext_lazy("{name} was the code of a currency; the new value is not one.")),
)


def list_argument_warnings(before: Any, after: dict[str, Any]) -> tuple[str, ...]:
    """List what is unusual about changed arguments, in sentences without values.

    Args:
        before: The arguments that the agent asked for.
        after: The changed arguments.
    """
    return tuple(_generate_warnings("", before, after)) if isinstance(before, dict) else ()


def _generate_warnings(path: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    fields = {field.key: field for field in mask_field_names_and_list_all_fields(before)}
    for field in mask_field_names_and_list_all_fields(after):
        name = f"{path}.{field.name}" if path else field.name
        asked = fields.get(field.key)
        if asked is None:
            sentence = _("The agent did not send {name}. If the tool has no such argument, it may refuse the call.")
            yield sentence.format(name=name)
        elif isinstance(asked.value, dict) and isinstance(field.value, dict) and not asked.hidden:
            yield from _generate_warnings(name, asked.value, field.value)
        elif not asked.hidden and MASK not in str(mask_json_value(asked.value)):
            yield from _generate_warnings_of_value(name, str(field.key), asked.value, field.value)


def _generate_warnings_of_value(path: str, name: str, before: Any, after: Any) -> Iterator[str]:
    """Yield a warning for the first kind that the value had, if it has lost that."""
    is_of_kind, warning = next(((check, text) for check, text in _KINDS if check(name, before)), (None, None))
    if is_of_kind is not None and not is_of_kind(name, after):
        yield str(warning).format(name=path)
