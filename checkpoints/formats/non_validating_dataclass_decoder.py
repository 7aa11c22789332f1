"""Lenient decoding of dataclasses from stored data: a value of another type mostly passes as it is.

`strict_dataclass_codec` refuses such a value with its path.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

T = TypeVar("T")


def load_as(kind: type[T], data: Any) -> T:
    """Decode `data` (from `dataclasses.asdict` and JSON) as an instance of `kind`.

    Follows annotations into nested dataclasses, lists, tuples, sets, dicts, unions, enums, datetimes (ISO text)
    and `Decimal`. Unknown fields raise `TypeError`, as the class's constructor would.
    """
    return typing.cast("T", _build_value(kind, data))


def _build_value(kind: Any, data: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _decode_first_fitting_union_member(typing.get_args(kind), data)
    if origin is not None:
        return _decode_generic_container(origin, typing.get_args(kind), data)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _build_dataclass(kind, data)
    if isinstance(kind, type) and isinstance(data, str):
        return _parse_scalar(kind, data)
    return data


def _build_dataclass(kind: type[Any], data: Any) -> Any:
    if not isinstance(data, dict):
        raise TypeError(f"{kind.__name__} needs a dict, not {type(data).__name__}")
    hints = typing.get_type_hints(kind)
    settable = {field.name for field in dataclasses.fields(kind) if field.init}
    derived_names = {field.name for field in dataclasses.fields(kind)} - settable
    return kind(
        **{name: _build_value(hints.get(name, Any), value) for name, value in data.items() if name not in derived_names}
    )


def _decode_first_fitting_union_member(choices: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in choices:
        return None
    for choice in choices:
        if choice is type(None):
            continue
        try:
            instance = _build_value(choice, data)
        except (TypeError, ValueError):
            continue
        if not isinstance(choice, type) or isinstance(instance, choice):
            return instance
    return data


def _decode_generic_container(origin: Any, args: tuple[Any, ...], data: Any) -> Any:
    if origin is tuple and isinstance(data, list | tuple):
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_build_value(args[0], item) for item in data)
        return tuple(_build_value(kind, item) for kind, item in zip(args, data, strict=True))
    if origin in (list, set, frozenset) and isinstance(data, list | tuple):
        return origin(_build_value(args[0], item) for item in data)
    if origin is dict and isinstance(data, dict):
        return {key: _build_value(args[1], value) for key, value in data.items()}
    return data


def _parse_scalar(kind: type[Any], text: str) -> Any:
    if issubclass(kind, enum.Enum):
        return kind(text)
    if issubclass(kind, datetime):
        return kind.fromisoformat(text)
    if issubclass(kind, Decimal):
        return kind(text)
    return text
