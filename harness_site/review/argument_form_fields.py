"""Conversion between the arguments of a call and form fields, one for each argument."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from json import JSONDecodeError
from typing import Any, Final

from django.utils.translation import gettext as _

from checkpoints.formats import parse_json
from harness_site.core.hidden_characters import escape_hidden_in_json, has_hidden_characters
from harness_site.core.masking.masker import (
    MASK,
    mask_field_names_and_list_all_fields,
    mask_json_value,
    restore_masked_values,
)
from harness_site.review.argument_list_lines import (
    LIST_KINDS,
    find_list_kind,
    format_list_lines,
    has_lists_of_texts_alone,
    parse_list_lines,
)
from harness_site.review.argument_value_warnings import ArgumentWarning
from harness_site.review.json_error_texts import describe_json_error
from harness_site.review.parse_edited_arguments import (
    InvalidArgumentText,
    describe_mask_without_original,
    format_masked_arguments_if_editable,
)

#: Maximum number of fields; more arguments are edited as JSON.
MAX_FIELDS: Final = 30
_LINE: Final = 45
#: Maximum length of a value whose field is beside its label on each screen.
_SHORT: Final = 22
#: Texts with more lines are edited in a wide column.
_LONG: Final = 15
#: Number of lines of a text area that is folded on a small screen until it is used.
_FOLDED: Final = 7
#: A number with commas, or with more separators than JSON allows: `0,9`, `31,877`, `1.249,00`, `31 877`.
_SEPARATED_NUMBER: Final = re.compile(r"[+-]?\d*(?:[.,’'\s]\d+)+")
_WHOLE_NUMBER: Final = re.compile(r"-?\d+")
#: Date, or local time of a day in minutes: the only texts that the controls of browsers return as they were. Those of
#: others lose seconds, the offset from UTC or a space.
_DATE_OR_LOCAL_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T(?:[01][0-9]|2[0-3]):[0-5][0-9])?")
#: Highest number up to which each whole number has a floating-point number of its own.
_MAX_EXACT: Final = 2**53
#: Kinds of fields whose text is taken as it is typed.
_LITERAL_KINDS: Final = frozenset({"text", "date", "local_time"})
_DATE_INPUT_TYPES: Final = {"date": "date", "local_time": "datetime-local"}


@dataclass(frozen=True, slots=True)
class ArgumentField:
    """Form field of one argument: `name` of the argument, `key` in the form, `typed` text, and kind.

    `kind` is `text`, `date` or `local_time` (taken literally), `number`, `boolean`, `texts` or `numbers` for a list
    with one item in each line, `secret` for a value that is masked as a whole, or `json` for everything else.
    `stored` is the text of the argument as it is, before any typing; that of a secret is empty, and an empty field
    keeps it. `error` says what is wrong with the typed text; it is empty until `copy_fields_with_errors` has set it.
    `warnings` say what is unusual about it, after `copy_fields_with_warnings`.
    """

    name: str
    key: str
    kind: str
    typed: str
    stored: str
    error: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether another value is typed than the argument has."""
        return self.typed.replace("\r\n", "\n") != self.stored.replace("\r\n", "\n")

    @property
    def mask(self) -> str:
        """What the page displays in place of a secret; empty for any other value."""
        return MASK if self.kind == "secret" else ""

    @property
    def is_one_line(self) -> bool:
        """Whether the field is of one line: for a text that is short, both as it is and as it was typed."""
        return self.kind in _LITERAL_KINDS | {"secret"} and not any(
            "\n" in text or len(text) > _LINE for text in (self.stored, self.typed)
        )

    @property
    def is_short(self) -> bool:
        """Whether the value has room beside its label on each screen, as it is and not as it was typed."""
        is_simple = self.kind in {"text", "date", "number", "boolean", "json"}
        return is_simple and "\n" not in self.stored and len(self.stored) <= _SHORT

    @property
    def is_folded(self) -> bool:
        """Whether the text area has so many lines that a small screen shows only the first ones until it is used."""
        return self.text_area_line_count > _FOLDED and not self.is_one_line

    @property
    def input_type(self) -> str:
        """Type of the input: one for dates only where it can show the typed text."""
        is_shown = not self.typed or _find_date_kind(self.typed) == self.kind
        return _DATE_INPUT_TYPES.get(self.kind, "") if is_shown else ""

    @property
    def text_area_line_count(self) -> int:
        """Height of the text area in lines, from 1 to 12; of a long text 24."""
        return 24 if self.is_long_text else min(_estimate_line_count(self.typed), 12)

    @property
    def is_long_text(self) -> bool:
        """Whether the argument is a text of many lines, as it is and not as it was typed, so that columns stay."""
        return self.kind == "text" and _estimate_line_count(self.stored) > _LONG

    @property
    def line_count(self) -> int:
        return self.typed.count("\n") + 1

    def parse_typed_value(self) -> Any:
        """Return the typed text as a JSON value, a secret that is kept as its mask. Raises `InvalidArgumentText`."""
        if self.kind == "secret" and not self.typed:
            return MASK
        if self.kind in _LITERAL_KINDS | {"secret"}:
            return self.typed.replace("\r\n", "\n")
        if self.kind in LIST_KINDS:
            items = parse_list_lines(self.kind, self.typed)
            return [_keep_whole(item) for item in items] if self._has_whole_numbers else items
        try:
            value = parse_json(self.typed)
        except ValueError as error:
            raise InvalidArgumentText(self._describe_error(error)) from None
        if self.kind == "number" and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise InvalidArgumentText(self._describe_expected_kind())
        return _keep_whole(value) if self._has_whole_numbers else value

    @property
    def _has_whole_numbers(self) -> bool:
        is_number = self.kind in {"number", "numbers"}
        return is_number and all(_WHOLE_NUMBER.fullmatch(line) for line in self.stored.split("\n"))

    def _describe_error(self, error: ValueError) -> str:
        if self.kind == "number" and _SEPARATED_NUMBER.fullmatch(self.typed.strip()):
            return (
                _("Enter the whole number without separators, such as 12000.")
                if self._has_whole_numbers
                else _("Enter the number without thousands separators and with a decimal point, such as 1200.5.")
            )
        if self.kind != "json" or not self.typed.strip() or not isinstance(error, JSONDecodeError):
            return self._describe_expected_kind()
        return describe_json_error(error)

    def _describe_expected_kind(self) -> str:
        return _("Enter a number.") if self.kind == "number" else _("Enter JSON, with text in quotes.")


def build_argument_fields(stored: str, typed: Mapping[str, str]) -> tuple[ArgumentField, ...]:
    """Build a masked field for each stored argument, with the text in `typed` where there is any.

    The result is empty for arguments that cannot be edited, for no arguments, and for more than `MAX_FIELDS`.
    """
    arguments = parse_json(stored) if format_masked_arguments_if_editable(stored) is not None else {}
    if len(arguments) > MAX_FIELDS:
        return ()
    masked_values = [
        (field.key, MASK if field.hidden else mask_json_value(field.value))
        for field in mask_field_names_and_list_all_fields(arguments)
    ]
    # Nothing says what an empty list is for. It is taken for a list like the others, as "bcc" is beside "to" and "cc".
    kind_of_empty_list = "texts" if has_lists_of_texts_alone(value for _name, value in masked_values) else "json"
    fields = enumerate(
        (name, kind_of_empty_list, "" if kind_of_empty_list == "texts" else "[]")
        if value == []
        else (name, *_choose_field_kind_and_text(value))
        for name, value in masked_values
    )
    return tuple(
        ArgumentField(name, f"argument-{index}", kind, typed.get(f"argument-{index}", text), text)
        for index, (name, kind, text) in fields
    )


def copy_fields_with_errors(fields: tuple[ArgumentField, ...], stored: str) -> tuple[ArgumentField, ...]:
    """Return the fields of the `stored` arguments, each with what is wrong with its typed text."""
    original = parse_json(stored)
    return tuple(replace(field, error=_find_field_error_or_empty(field, original)) for field in fields)


def _find_field_error_or_empty(field: ArgumentField, original: Any) -> str:
    try:
        value = field.parse_typed_value()
    except InvalidArgumentText as error:
        return str(error)
    restored = restore_masked_values({field.name: value}, original)
    if MASK not in json.dumps(list(restored.values()), ensure_ascii=False):
        return ""
    if field.kind != "secret" and MASK not in field.stored:
        return describe_mask_without_original()
    return _("A part of this is masked. Keep {mask} where it stood, or enter a whole new value.").format(mask=MASK)


def copy_fields_with_warnings(
    fields: tuple[ArgumentField, ...], warnings: tuple[ArgumentWarning, ...], outer_path: tuple[str, ...]
) -> tuple[ArgumentField, ...]:
    """Return the fields, each with the warnings about its value and what is in it.

    Args:
        fields: The fields.
        warnings: Warnings about the arguments of the call.
        outer_path: Path to the value of which the fields are the parts; empty if they are the arguments.
    """
    length = len(outer_path) + 1
    return tuple(
        replace(
            field,
            warnings=tuple(each.sentence for each in warnings if each.path[:length] == (*outer_path, field.name)),
        )
        for field in fields
    )


def compose_arguments_json(fields: tuple[ArgumentField, ...], question_value: Mapping[str, Any] | None) -> str:
    """Compose the arguments of these fields as JSON text. Raises `InvalidArgumentText`.

    Args:
        fields: The fields.
        question_value: The masked value of a question if the fields are parts of it, else None.
    """
    typed = {field.name: field.parse_typed_value() for field in fields}
    arguments = typed if question_value is None else {"value": {**question_value, **typed}}
    return json.dumps(arguments, ensure_ascii=False)


def _estimate_line_count(text: str) -> int:
    """Return the number of lines of a text in a narrow text area."""
    return text.count("\n") + 1 + len(text) // _LINE


def _keep_whole(value: float) -> int | float:
    """Return a number as an integer if it is a whole one in another notation, such as 1e3; any other as it is."""
    return int(value) if abs(value) <= _MAX_EXACT and value == int(value) else value


def _find_date_kind(text: str) -> str:
    """Return `date` or `local_time` for a text that a browser's control can return as it is, else an empty text."""
    match = _DATE_OR_LOCAL_TIME.fullmatch(text)
    if match is None:
        return ""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return ""
    return "local_time" if match[1] else "date"


def _choose_field_kind_and_text(value: Any) -> tuple[str, str]:
    """Return the field kind of a masked value and its text in the field."""
    if value == MASK:
        return "secret", ""
    if isinstance(value, str) and not has_hidden_characters(value):
        return _find_date_kind(value) or "text", value
    if kind := find_list_kind(value):
        return kind, format_list_lines(value)
    text = escape_hidden_in_json(json.dumps(value, ensure_ascii=False, indent=2))
    if isinstance(value, bool):
        return "boolean", text
    return ("number" if isinstance(value, int | float) else "json"), text
