"""Strict decoding of dataclasses from stored data: missing, unknown and mistyped fields are named."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from decimal import Decimal
from typing import Any, TypeVar

T = TypeVar("T")


class MalformedValue(Exception):
    """A value does not fit its field. `field` is the path to it."""

    def __init__(self, field: str, why: str) -> None:
        self.field, self.why = field, why
        super().__init__(f"{field}: {why}")


def decode_strict_dataclass(kind: type[T], data: object, path: str = "") -> T:
    """Decode `data` (JSON) as an instance of the dataclass `kind`; all of its fields have to be there and no others.

    Raises `MalformedValue`.
    """
    if not isinstance(data, dict):
        raise MalformedValue(path or "payload", f"it is {_describe_type_of_value(data)}, not an object")
    hints = typing.get_type_hints(kind)
    fields = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for name in data.keys() - set(fields):
        raise MalformedValue(_join_path(path, str(name)), "there is no such field")
    for name in fields:
        if name not in data:
            raise MalformedValue(_join_path(path, name), "it is missing")
    return kind(**{name: _decode_value(hints[name], data[name], _join_path(path, name)) for name in fields})


def encode_strict_dataclass(instance: Any) -> dict[str, Any]:
    """Convert the fields of a dataclass to JSON values. Raises `MalformedValue` if one has the wrong type."""
    data = dataclasses.asdict(instance)
    decode_strict_dataclass(type(instance), data)
    return data


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _decode_value(hint: Any, value: Any, path: str) -> Any:
    if hint is Any:
        return value
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        choices = [choice for choice in args if choice is not type(None)]
        return _decode_value(choices[0], value, path) if len(choices) == 1 else _decode_non_negative_number(value, path)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise MalformedValue(path, f"it is {_describe_type_of_value(value)}, not a list")
        return tuple(_decode_value(args[0], item, f"{path}[{index}]") for index, item in enumerate(value))
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return decode_strict_dataclass(hint, value, path)
    return _decode_plain_value(origin or hint, value, path)


_KIND_NAMES = {str: "text", bool: "true or false", dict: "an object", int: "a whole number from 0"}


def _decode_plain_value(kind: type, value: Any, path: str) -> Any:
    if kind is float:
        return _decode_non_negative_number(value, path)
    value_type: Any = type(value)
    if value_type is not kind or (kind is int and value < 0):
        raise MalformedValue(path, f"it is {_describe_type_of_value(value)}, not {_KIND_NAMES[kind]}")
    return value


def _decode_non_negative_number(value: Any, path: str) -> Any:
    """Load a finite number from 0; a `Decimal` if it is written as text."""
    number = value
    if isinstance(value, str):
        try:
            number = Decimal(value)
        except ArithmeticError:
            number = None
    if (
        isinstance(number, bool)
        or not isinstance(number, int | float | Decimal)
        or not _is_finite_and_not_negative(number)
    ):
        raise MalformedValue(path, f"it is {_describe_type_of_value(value)}, not a number from 0")
    return number


def _is_finite_and_not_negative(number: float | Decimal) -> bool:
    return (number.is_finite() if isinstance(number, Decimal) else math.isfinite(number)) and number >= 0


def _describe_type_of_value(value: object) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"
