"""Encoding of the columns of a row for its seal: one for equal values in every process.

Values stand between commas. A text has its number of characters before it, so that its content needs no escaping, which
would take as long as the digest of it. The function that encodes a row is generated once for the types of its columns,
because a call for each value takes longer. A value whose type is not the one of its column has an encoding of its own:
SQLite stores any type in any column, and a text must not stand for the number or the bytes that it looks like.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from django.db import models

_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Errors of a generated function for a value whose type is not the one of its column.
_TYPE_ERRORS = (TypeError, AttributeError, ValueError)


def _convert_to_json_value(value: Any) -> Any:
    """Convert a value that JSON does not have. The type of a column is fixed, so numbers may stand for other types."""
    if isinstance(value, datetime):
        return (value - _EPOCH) // _MICROSECOND
    if isinstance(value, timedelta):
        return value // _MICROSECOND
    if isinstance(value, UUID):
        return value.int
    if isinstance(value, bytes | memoryview):
        return value.hex()
    raise TypeError(f"{type(value).__name__} has no encoding in a seal")


#: ASCII and without spaces, so that equal values have one encoding in every process.
_encode_value = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=_convert_to_json_value).encode


def encode_values_as_json_array(values: Sequence[Any]) -> bytes:
    """Return the one encoding of values, in their order: a JSON array."""
    return f"[{','.join(map(_encode_value, values))}]".encode()


#: Expressions that encode a value, by the kind of its column. They raise one of `_TYPE_ERRORS` for another type.
_EXPRESSIONS: Final[dict[str, str]] = {
    "integer": "encode_integer({0})",
    "boolean": "'true' if {0} is True else 'false' if {0} is False else refuse({0})",
    "text": "f'{{count({0})}}:{{{0}}}'",
    "bytes": "{}.hex()",
    "time": "({} - EPOCH) // MICROSECOND",
    "duration": "encode_integer({} // MICROSECOND)",
    "uuid": "{}.int",
}
#: Part of an f-string that encodes a text which is never None. It needs no string of its own.
_TEXT_WITHOUT_NULL: Final = "{{count({0})}}:{{{0}}}"
_KINDS_OF_FIELDS: Final[dict[type[models.Field[Any, Any]], str]] = {
    models.IntegerField: "integer",
    models.BooleanField: "boolean",
    models.CharField: "text",
    models.TextField: "text",
    models.BinaryField: "bytes",
    models.DateTimeField: "time",
    models.DurationField: "duration",
    models.UUIDField: "uuid",
}


def _raise_type_error_for_value(value: Any) -> str:
    raise TypeError(type(value).__name__)


_GLOBALS: Final[dict[str, Any]] = {
    "encode_integer": int.__repr__,
    "count": str.__len__,
    "refuse": _raise_type_error_for_value,
    "EPOCH": _EPOCH,
    "MICROSECOND": _MICROSECOND,
    "TYPE_ERRORS": _TYPE_ERRORS,
}

RowEncoder = Callable[[Sequence[Any]], bytes]


@cache
def build_row_encoder(model: type[models.Model], names: tuple[str, ...], opening: str, closing: str) -> RowEncoder:
    """Build the function that encodes the values of fields of a model.

    Args:
        model: The model.
        names: Names of the fields, in the order of the values.
        opening: Text before the first value.
        closing: Text behind the last value.

    Returns:
        The function. It takes the values, and returns `opening`, the values with commas between, and `closing`.
    """
    kinds = [_get_encoding_kind_of_field(model, name) for name in names]
    expressions = [
        _TEXT_WITHOUT_NULL.format(f"value_{place}")
        if kind == "text" and not model._meta.get_field(name).null
        else _build_encoding_f_string_part(kind, f"value_{place}")
        for place, (kind, name) in enumerate(zip(kinds, names, strict=True))
    ]

    def encode_any_types(values: Sequence[Any]) -> bytes:
        encoders = [
            _generate_encoder([_build_encoding_f_string_part(kind, "value_0")], "", "", _encode_mistyped_value)
            for kind in kinds
        ]
        encoded = [encode((value,)) for encode, value in zip(encoders, values, strict=True)]
        return opening.encode() + b",".join(encoded) + closing.encode()

    return _generate_encoder(expressions, opening, closing, encode_any_types)


def _get_encoding_kind_of_field(model: type[models.Model], name: str) -> str:
    field: Any = model._meta.get_field(name)
    while field.is_relation:
        field = field.target_field
    return next(kind for type_, kind in _KINDS_OF_FIELDS.items() if isinstance(field, type_))


def _build_encoding_f_string_part(kind: str, name: str) -> str:
    """Build the part of an f-string that encodes the value `name` of a kind, or None."""
    return f"{{'null' if {name} is None else {_EXPRESSIONS[kind].format(name)}}}"


def _generate_encoder(
    expressions: Sequence[str], opening: str, closing: str, encode_other_types: RowEncoder
) -> RowEncoder:
    """Generate a function that encodes values by parts of an f-string, and gives others to `encode_other_types`."""
    names = [f"value_{place}" for place in range(len(expressions))]
    source = (
        "def encode(values):\n"
        "    try:\n"
        f"        {', '.join(names)}, = values\n"
        f'        return f"""{opening}{",".join(expressions)}{closing}""".encode("utf-8", "surrogatepass")\n'
        "    except TYPE_ERRORS:\n"
        "        return encode_other_types(values)"
    )
    namespace = {**_GLOBALS, "encode_other_types": encode_other_types}
    exec(source, namespace)  # noqa: S102 - of the names of kinds above
    encode: RowEncoder = namespace["encode"]
    return encode


def _encode_mistyped_value(values: Sequence[Any]) -> bytes:
    """Return the encoding of a single value of another type than its column: as JSON, with its type."""
    (value,) = values
    return encode_values_as_json_array([type(value).__name__, value])
