"""Order in which a caller wrote the arguments of a call, kept beside their canonical form, which sorts them.

It is a hint for people who read the call: digests, comparisons and the tool itself use the canonical arguments.
"""

from __future__ import annotations

from typing import Any, Final

from checkpoints.formats.canonical_json import (
    encode_json_in_given_order,
    parse_json_or_return_text,
    to_canonical_json,
)

#: Types whose members are looked at; `isinstance` would cost as much as the encoding of a long list.
_CONTAINERS: Final = frozenset({dict, list, tuple})


def encode_argument_order(args: Any) -> str:
    """Encode the names of arguments, and of the members of objects in them, in their order.

    Each name is in the list once: the outermost object that has it decides about its place. Empty if canonical JSON
    has the same order.
    """
    names: dict[str, None] = {}
    is_canonical = True
    values: list[Any] = [args] if isinstance(args, dict) else []
    for value in values:  # grows, level by level
        if isinstance(value, dict):
            is_canonical = is_canonical and list(value) == sorted(value)
            names.update(dict.fromkeys(value))
        members = value.values() if isinstance(value, dict) else value
        values += [member for member in members if type(member) in _CONTAINERS]
    return "" if is_canonical else to_canonical_json(list(names), "args")


def restore_argument_order(args: Any, order: str) -> Any:
    """Return arguments in an encoded order. Names that it does not have come last; another value is returned as it
    is."""
    names = parse_json_or_return_text(order) if order and isinstance(args, dict) else None
    if not isinstance(names, list):
        return args
    return _sort_members(args, {name: place for place, name in enumerate(names) if isinstance(name, str)})


def restore_argument_order_in_json(stored: str, order: str) -> str:
    """Return the JSON text of stored arguments in an encoded order."""
    args = parse_json_or_return_text(stored) if order else None
    return encode_json_in_given_order(restore_argument_order(args, order)) if isinstance(args, dict) else stored


def _sort_members(value: Any, places: dict[str, int]) -> Any:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: places.get(name, len(places)))
        return {name: _sort_members(value[name], places) for name in names}
    return [_sort_members(member, places) for member in value] if isinstance(value, list) else value
