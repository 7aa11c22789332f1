"""Conversion between the arguments of a call and form fields, one for each value of an argument.

Each field has the path to its value. Objects and lists of objects have no fields of their own, besides one for a list
with the numbers of its rows, so that rows can be removed and added. `nested_argument_form_groups` groups the fields.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
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
from harness_site.review.argument_edit_parsing_and_originals import (
    InvalidArgumentText,
    describe_mask_without_original,
    format_masked_arguments_if_editable,
)
from harness_site.review.argument_field_paths import ROOT, ArgumentPath, RowState
from harness_site.review.edited_argument_warnings import ArgumentWarning
from harness_site.review.json_syntax_error_messages import describe_json_error
from harness_site.review.lists_edited_as_text_lines import (
    LIST_KINDS,
    find_list_kind,
    format_list_lines,
    has_lists_of_texts_alone,
    parse_list_lines,
)
from harness_site.review.remove_number_separators import (
    count_decimal_places,
    has_currency,
    is_plain_number_text,
    remove_number_separators,
)
from harness_site.review.sums_of_edited_rows import parse_number

#: Maximum number of arguments with fields; more are edited as JSON.
MAX_FIELDS: Final = 30
#: Maximum number of fields of all arguments; if there are more, what is in objects and lists is edited as JSON.
_MAX_NESTED_FIELDS: Final = 300
#: Maximum number of objects within each other that have fields.
_DEEPEST: Final = 3
#: Maximum size of a list of objects that is edited in rows.
_MAX_ROWS: Final = 40
_MAX_COLUMNS: Final = 12
#: Maximum number of rows that a form may send.
_MAX_SENT_ROWS: Final = 100
_LINE: Final = 45
#: Maximum length of a text whose field is one line, which fits the width of a phone.
_MAX_ONE_LINE: Final = 34
#: Maximum lengths of values in the columns of a list.
_NARROW: Final = 7
_MIDDLE: Final = 13
#: How many more characters the head of a column has room for than a field in it.
_LETTERS_OF_HEAD: Final = 4
#: Maximum length of a value whose field is beside its label on each screen.
_SHORT: Final = 22
#: Texts with more lines are edited in a wide column.
_LONG: Final = 15
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
#: Kinds of fields whose values have a similar width in all rows of a list.
_SIMPLE_KINDS: Final = _LITERAL_KINDS | {"number", "boolean", "secret"}
_ROW_NUMBERS: Final = re.compile(r"(?:[0-9]{1,3}(?:,[0-9]{1,3})*)?")
#: Result of an empty field for a value that the call need not have.
ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class ArgumentColumn:
    """What the fields of one name have in common in all rows of a list: `kind`, and `size` of the longest value.

    A value is optional if some rows of the call do not have it. In a column of texts that are numbers, all of them are.
    `decimal_places` are those of the number that has most.
    """

    kind: str
    size: str
    is_optional: bool
    has_number_texts: bool = False
    decimal_places: int = 0


@dataclass(frozen=True, slots=True)
class ArgumentField:
    """Form field of one value among the arguments: its `place`, `typed` text, and kind.

    `kind` is `text`, `date` or `local_time` (taken literally), `number`, `boolean`, `texts` or `numbers` for a list
    with one item in each line, `secret` for a value that is masked as a whole, `rows` for the numbers of the rows of a
    list of objects, or `json` for everything else. `stored` is the text of the value as it is, before any typing; that
    of a secret is empty, and an empty field keeps it. An optional value is left out if its field is empty. `error` says
    what is wrong with the typed text; it is empty until `copy_fields_with_errors` has set it.

    `copy_fields_with_warnings` sets the others: `is_warned_about` is True if something is unusual about the value, and
    `warnings` say what. `row_sum` is the text to type for what the rows of a list add up to, if the argument is another
    sum of them, and `displayed_row_sum` has it in the format of the reader.
    """

    place: ArgumentPath
    kind: str
    typed: str
    stored: str
    column: ArgumentColumn | None = None
    is_optional: bool = False
    error: str = ""
    is_warned_about: bool = False
    warnings: tuple[str, ...] = ()
    row_sum: str = ""
    displayed_row_sum: str = ""

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def key(self) -> str:
        """Name in the form."""
        return f"{self.place.key}-rows" if self.kind == "rows" else self.place.key

    @property
    def is_changed(self) -> bool:
        """Whether another value is typed than the argument has."""
        return self.typed.replace("\r\n", "\n") != self.stored.replace("\r\n", "\n")

    @property
    def is_number_text(self) -> bool:
        """Whether the value is a number in a text, such as "1829.00", which then stays a text."""
        if self.kind != "text":
            return False
        return is_plain_number_text(self.stored) if self.stored else bool(self.column and self.column.has_number_texts)

    @property
    def converted_number(self) -> str:
        """The number that the tool gets for one that is typed in another way, as with separators; else empty."""
        if self.error or not (self.is_number_text or self.kind == "number"):
            return ""
        try:
            number = self._remove_number_separators()
        except InvalidArgumentText:
            return ""
        return number if number != self.typed.strip() else ""

    @property
    def is_still_blank(self) -> bool:
        """Whether nothing is typed yet into this field of a row that was added."""
        return self.place.row_state == RowState.ADDED and not self.typed

    @property
    def change_count(self) -> int:
        """How many changes are typed: rows that are removed or added, with what is in them, count once."""
        if self.kind == "rows":
            return len(_parse_row_numbers(self.typed) ^ _parse_row_numbers(self.stored))
        return int(self.is_changed and self.place.row_state == RowState.KEPT)

    @property
    def mask(self) -> str:
        """What the page displays in place of a secret; empty for any other value."""
        return MASK if self.kind == "secret" else ""

    @property
    def is_one_line(self) -> bool:
        """Whether the field is of one line: for a text that is short, both as it is and as it was typed."""
        length = _MAX_ONE_LINE if self.column is None or self.column.size != "wide" else 0
        return self.kind in _LITERAL_KINDS | {"secret"} and not any(
            "\n" in text or (self.kind == "text" and len(text) > length) for text in (self.stored, self.typed)
        )

    @property
    def is_short(self) -> bool:
        """Whether the value has room beside its label on each screen, as it is and not as it was typed."""
        is_simple = self.kind in {"text", "date", "number", "boolean", "json"}
        return is_simple and "\n" not in self.stored and len(self.stored) <= _SHORT

    @property
    def input_type(self) -> str:
        """Type of the input: one for dates only where it can show the typed text."""
        is_shown = not self.typed or _find_date_kind(self.typed) == self.kind
        return _DATE_INPUT_TYPES.get(self.kind, "") if is_shown else ""

    @property
    def text_area_line_count(self) -> int:
        """Height of the text area in lines, from 1 to 12; of a long text 24."""
        return 24 if self.needs_tall_text_area else min(_estimate_line_count(self.typed), 12)

    @property
    def needs_tall_text_area(self) -> bool:
        """Whether the argument is a text of many lines, as it is and not as it was typed, so that columns stay."""
        return self.kind == "text" and _estimate_line_count(self.stored) > _LONG

    @property
    def line_count(self) -> int:
        return self.typed.count("\n") + 1

    def parse_typed_value(self) -> Any:
        """Return the typed text as a JSON value, or `ABSENT`; a secret that is kept as its mask.

        Raises `InvalidArgumentText`.
        """
        if self.is_optional and not self.typed:
            return ABSENT
        if self.kind == "secret" and not self.typed:
            return MASK
        if self.is_number_text and self.is_changed:
            return self._remove_number_separators()
        if self.kind in _LITERAL_KINDS | {"secret"}:
            return self.typed.replace("\r\n", "\n")
        if self.kind in LIST_KINDS:
            items = parse_list_lines(self.kind, self.typed, decimal_places=self._decimal_places)
            return [_convert_whole_number_to_integer(item) for item in items] if self._has_whole_numbers else items
        try:
            value = parse_json(self._remove_number_separators() if self.kind == "number" else self.typed)
        except InvalidArgumentText:
            raise
        except ValueError as error:
            raise InvalidArgumentText(self._describe_error(error)) from None
        if self.kind == "number" and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise InvalidArgumentText(self._describe_expected_kind())
        return _convert_whole_number_to_integer(value) if self._has_whole_numbers else value

    @property
    def _has_whole_numbers(self) -> bool:
        is_number = self.kind in {"number", "numbers"}
        return is_number and all(_WHOLE_NUMBER.fullmatch(line) for line in self.stored.split("\n"))

    @property
    def _decimal_places(self) -> int:
        if not self.stored and self.column is not None:
            return self.column.decimal_places
        return count_decimal_places(self.stored)

    def format_number_as_stored(self, number: Decimal) -> str:
        """Return the text that gives the tool exactly this number, with at least the decimal places that the value has.

        Returns:
            An empty text if the field takes no number, or if the tool would get another one, as with too many digits.
        """
        if self.kind not in {"text", "number"}:
            return ""
        whole, _point, decimals = f"{number:f}".partition(".")
        if parse_number(self.stored) is not None:
            decimals = decimals.rstrip("0").ljust(len(self.stored.strip().partition(".")[2]), "0")
        text = f"{whole}.{decimals}" if decimals else whole
        try:
            value = replace(self, typed=text).parse_typed_value()
        except InvalidArgumentText:
            return ""
        return text if parse_number(value) == number else ""

    def _remove_number_separators(self) -> str:
        is_number = self.kind == "number"
        text = self.typed.replace("\r\n", "\n")
        if not is_number and self.stored and has_currency(text) and not has_currency(self.stored):
            return text  # it is no number as the value is one, so it is quoted as it was typed
        number = remove_number_separators(text, decimal_places=self._decimal_places)
        return number.removeprefix("+") if is_number else number

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
        if self.kind == "boolean":
            return _("Choose true or false.")
        return _("Enter a number.") if self.kind == "number" else _("Enter JSON, with text in quotes.")


def build_argument_fields(stored: str, typed: Mapping[str, str]) -> tuple[ArgumentField, ...]:
    """Build masked fields for the stored arguments, with the texts in `typed` where there are any.

    The result is empty for arguments that cannot be edited, for no arguments, and for more than `MAX_FIELDS`.
    """
    arguments = parse_json(stored) if format_masked_arguments_if_editable(stored) is not None else {}
    if len(arguments) > MAX_FIELDS:
        return ()
    fields = tuple(_generate_fields(ROOT, arguments, typed, _DEEPEST))
    is_too_many = sum(field.place.row_state != RowState.ADDED for field in fields) > _MAX_NESTED_FIELDS
    return tuple(_generate_fields(ROOT, arguments, typed, 0)) if is_too_many else fields


def _generate_fields(
    outer: ArgumentPath, value: dict[str, Any], typed: Mapping[str, str], depth: int
) -> Iterator[ArgumentField]:
    """Yield the fields of an object, and of the objects in it up to this `depth`."""
    fields = mask_field_names_and_list_all_fields(value)
    # Nothing says what an empty list is for. It is taken for a list like the others, as "bcc" is beside "to" and "cc".
    others = [
        mask_json_value(field.value)
        for field in fields
        if not field.hidden and not _can_list_be_shown_as_rows(field.value)
    ]
    kind_of_empty_list = "texts" if has_lists_of_texts_alone(others) else "json"
    for position, field in enumerate(fields):
        place = outer.build_place_of_object_value(field.key, field.name, position)
        if depth and not field.hidden and isinstance(field.value, dict) and field.value:
            yield from _generate_fields(place, field.value, typed, depth - 1)
        elif depth and not field.hidden and _can_list_be_shown_as_rows(field.value):
            yield from _generate_row_fields(place, field.value, typed)
        else:
            masked = MASK if field.hidden else mask_json_value(field.value)
            yield _build_field(place, *_choose_field_kind_and_text(masked, kind_of_empty_list), typed)


def _can_list_be_shown_as_rows(value: Any) -> bool:
    """Return whether a value is a list whose items have room as rows, each with fields for its values."""
    if not isinstance(value, list) or not 0 < len(value) <= _MAX_ROWS:
        return False
    if not all(isinstance(item, dict) and item for item in value):
        return False
    return len({key for item in value for key in item}) <= _MAX_COLUMNS


def _generate_row_fields(
    place: ArgumentPath, items: list[dict[str, Any]], typed: Mapping[str, str]
) -> Iterator[ArgumentField]:
    """Yield the field for the numbers of the rows, and those of each row: of the call, and that were added.

    All rows have the same names in the same order.
    """
    numbers = _build_field(place, "rows", ",".join(map(str, range(len(items)))), typed)
    if not _ROW_NUMBERS.fullmatch(numbers.typed) or len(_parse_row_numbers(numbers.typed)) > _MAX_SENT_ROWS:
        numbers = replace(numbers, typed=numbers.stored)
    yield numbers
    rows = [{field.key: field for field in mask_field_names_and_list_all_fields(item)} for item in items]
    names = {key: field.name for row in reversed(rows) for key, field in row.items()}
    names = {key: names[key] for row in rows for key in row}
    cells = [
        {
            key: _choose_field_kind_and_text(MASK if field.hidden else mask_json_value(field.value), "")
            for key, field in row.items()
        }
        for row in rows
    ]
    columns = {
        key: _build_column(name, [row[key] for row in cells if key in row], len(rows)) for key, name in names.items()
    }
    kept = _parse_row_numbers(numbers.typed)
    for number in sorted({*range(len(items)), *kept}):
        is_added = number >= len(items)
        row_state = RowState.ADDED if is_added else RowState.KEPT if number in kept else RowState.REMOVED
        index = sum(each < number for each in kept)
        row_place = place.build_place_of_list_row(number, index, row_state)
        for position, (key, column) in enumerate(columns.items()):
            cell_place = row_place.build_place_of_object_value(key, names[key], position)
            if is_added or key not in cells[number]:
                blank = _build_field(cell_place, column.kind, "", typed)
                yield replace(blank, column=column, is_optional=not is_added or column.is_optional)
            else:
                kind, text = cells[number][key]
                kind, text = (kind, text) if kind else (column.kind, "" if column.kind == "texts" else "[]")
                yield replace(_build_field(cell_place, kind, text, typed), column=column)


def build_blank_row(row: Sequence[ArgumentField]) -> tuple[ArgumentField, ...]:
    """Build the fields of a row that may be added to a list, from those of another row. Their number is to be set."""
    return tuple(
        replace(
            field,
            place=field.place.build_place_in_blank_row(),
            kind=field.column.kind,
            typed="",
            stored="",
            is_optional=field.column.is_optional,
            error="",
            is_warned_about=False,
            warnings=(),
            row_sum="",
        )
        for field in row
        if field.column is not None
    )


def _build_column(name: str, cells: Sequence[tuple[str, str]], row_count: int) -> ArgumentColumn:
    """Build what the fields of one name have in common, from the kind and text that each of the rows has for it."""
    kinds = {kind for kind, text in cells if kind and (kind, text) != ("json", "null")}
    only_kind = next(iter(kinds)) if len(kinds) == 1 else ""
    if kinds <= _LITERAL_KINDS | {"secret"}:
        kind = only_kind if only_kind in _LITERAL_KINDS else "text"
    else:
        kind = only_kind or "json"
    longest = max(len(name) - _LETTERS_OF_HEAD, *(len(text) for _kind, text in cells))
    is_simple = kinds <= _SIMPLE_KINDS
    size = "narrow" if longest <= _NARROW else "middle" if longest <= _MIDDLE else "wide"
    texts = [text for each, text in cells if each == "text" and text]
    has_number_texts = kinds == {"text"} and bool(texts) and all(map(is_plain_number_text, texts))
    decimal_places = max(count_decimal_places(text) for _kind, text in cells)
    size = size if is_simple else "block"
    return ArgumentColumn(kind, size, len(cells) < row_count, has_number_texts, decimal_places)


def _parse_row_numbers(text: str) -> frozenset[int]:
    return frozenset(int(number) for number in text.split(",") if number)


def _build_field(place: ArgumentPath, kind: str, stored: str, typed: Mapping[str, str]) -> ArgumentField:
    field = ArgumentField(place, kind, stored, stored)
    return replace(field, typed=typed.get(field.key, stored))


def copy_fields_with_errors(fields: tuple[ArgumentField, ...], stored: str) -> tuple[ArgumentField, ...]:
    """Return the fields of the `stored` arguments, each with what is wrong with its typed text."""
    original = parse_json(stored)
    return tuple(replace(field, error=_find_field_error_or_empty(field, original)) for field in fields)


def _find_field_error_or_empty(field: ArgumentField, original: Any) -> str:
    if field.kind == "rows" or field.place.row_state == RowState.REMOVED:
        return ""
    try:
        value = _parse_value_and_restore_masked_parts(field, original)
    except InvalidArgumentText as error:
        return str(error)
    if value is ABSENT or MASK not in json.dumps(value, ensure_ascii=False):
        return ""
    if field.kind != "secret" and MASK not in field.stored:
        return describe_mask_without_original()
    return _("A part of this is masked. Keep {mask} where it stood, or enter a whole new value.").format(mask=MASK)


def _parse_value_and_restore_masked_parts(field: ArgumentField, original: Any) -> Any:
    value = field.parse_typed_value()
    stored = field.place.find_value(original, ABSENT)
    return value if ABSENT in (value, stored) else restore_masked_values(value, stored)


def copy_fields_with_warnings(
    fields: tuple[ArgumentField, ...], warnings: tuple[ArgumentWarning, ...], outer_path: tuple[str, ...]
) -> tuple[ArgumentField, ...]:
    """Return the fields, each with the warnings about its value and what is in it, and with the sum of rows.

    Args:
        fields: The fields.
        warnings: Warnings about the arguments of the call.
        outer_path: Path to the value of which the fields are the parts; empty if they are the arguments.
    """
    return tuple(
        _copy_field_with_warnings(field, warnings, (*outer_path, *field.place.changed_path))
        if field.place.row_state != RowState.REMOVED and field.kind != "rows"
        else field
        for field in fields
    )


def _copy_field_with_warnings(
    field: ArgumentField, warnings: tuple[ArgumentWarning, ...], path: tuple[str | int, ...]
) -> ArgumentField:
    own = [each for each in warnings if _is_beginning(path, each.path)]
    sentences = tuple(each.sentence for each in own if each.is_shown_at_field)
    field = replace(field, is_warned_about=bool(own), warnings=sentences)
    for each in own:
        if each.path == path and each.row_sum is not None:
            row_sum = field.format_number_as_stored(each.row_sum)
            return replace(field, row_sum=row_sum, displayed_row_sum=each.displayed_row_sum)
    return field


def _is_beginning(path: tuple[str | int, ...], of_path: tuple[str | int, ...]) -> bool:
    return of_path[: len(path)] == path


def compose_arguments(fields: Sequence[ArgumentField], stored: str, *, is_invalid_kept: bool = False) -> dict[str, Any]:
    """Compose the arguments of these fields, with the `stored` values where these are masked.

    Args:
        fields: The fields.
        stored: The stored arguments of which they are the fields, as JSON text.
        is_invalid_kept: Whether a value whose typed text has an error stays as it is; else it raises.

    Raises:
        InvalidArgumentText: A typed text is not what its field takes.
    """
    original = parse_json(stored)
    arguments: dict[str, Any] = {}
    for field in fields:
        if field.place.row_state == RowState.REMOVED:
            continue
        if field.kind == "rows":
            field.place.set_value(arguments, [{} for _number in _parse_row_numbers(field.typed)])
            continue
        is_kept = is_invalid_kept and bool(field.error)
        value = (
            field.place.find_value(original, ABSENT)
            if is_kept
            else _parse_value_and_restore_masked_parts(field, original)
        )
        if value is not ABSENT:
            field.place.set_value(arguments, value)
    return arguments


def _estimate_line_count(text: str) -> int:
    """Return the number of lines of a text in a narrow text area."""
    return text.count("\n") + 1 + len(text) // _LINE


def _convert_whole_number_to_integer(value: float) -> int | float:
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


def _choose_field_kind_and_text(value: Any, kind_of_empty_list: str) -> tuple[str, str]:
    """Return the field kind of a masked value and its text in the field."""
    if value == []:
        return kind_of_empty_list, "" if kind_of_empty_list == "texts" else "[]"
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
