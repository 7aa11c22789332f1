"""Reading dataclasses from stored data strictly: what is missing, too much or of another kind is named."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from decimal import Decimal
from typing import Any, TypeVar

T = TypeVar("T")


class Misshapen(Exception):
    """A value is not what its place wants. `field` is the way to it."""

    def __init__(self, field: str, why: str) -> None:
        self.field, self.why = field, why
        super().__init__(f"{field}: {why}")


def shaped(kind: type[T], data: object, path: str = "") -> T:
    """`data` (JSON) as an instance of the dataclass `kind`; all of its fields have to be there and no others.

    Raises `Misshapen`.
    """
    if not isinstance(data, dict):
        raise Misshapen(path or "payload", f"it is {_said(data)}, not an object")
    hints = typing.get_type_hints(kind)
    fields = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for name in data.keys() - set(fields):
        raise Misshapen(_under(path, str(name)), "there is no such field")
    for name in fields:
        if name not in data:
            raise Misshapen(_under(path, name), "it is missing")
    return kind(**{name: _value(hints[name], data[name], _under(path, name)) for name in fields})


def unshaped(instance: Any) -> dict[str, Any]:
    """The fields of a dataclass as JSON values. Raises `Misshapen` where one is not of its kind."""
    data = dataclasses.asdict(instance)
    shaped(type(instance), data)
    return data


def _under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _value(hint: Any, value: Any, path: str) -> Any:
    if hint is Any:
        return value
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        choices = [choice for choice in args if choice is not type(None)]
        return _value(choices[0], value, path) if len(choices) == 1 else _number(value, path)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise Misshapen(path, f"it is {_said(value)}, not a list")
        return tuple(_value(args[0], item, f"{path}[{index}]") for index, item in enumerate(value))
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return shaped(hint, value, path)
    return _plain(origin or hint, value, path)


_WORDS = {str: "text", bool: "true or false", dict: "an object", int: "a whole number from 0"}


def _plain(kind: type, value: Any, path: str) -> Any:
    if kind is float:
        return _number(value, path)
    given: Any = type(value)
    if given is not kind or (kind is int and value < 0):
        raise Misshapen(path, f"it is {_said(value)}, not {_WORDS[kind]}")
    return value


def _number(value: Any, path: str) -> Any:
    """A finite number from 0; a `Decimal` where it is written as text."""
    number = value
    if isinstance(value, str):
        try:
            number = Decimal(value)
        except ArithmeticError:
            number = None
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal) or not _usable(number):
        raise Misshapen(path, f"it is {_said(value)}, not a number from 0")
    return number


def _usable(number: float | Decimal) -> bool:
    return (number.is_finite() if isinstance(number, Decimal) else math.isfinite(number)) and number >= 0


def _said(value: object) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"
