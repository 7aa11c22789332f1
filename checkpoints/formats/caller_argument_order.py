"""Order in which a caller wrote the arguments of a call, kept beside their canonical form, which sorts them.

It is a hint for people who read the call: digests, comparisons and the tool itself use the canonical arguments.
"""

from __future__ import annotations

from typing import Any

from checkpoints.formats.canonical_json import parse_json_or_return_text, to_canonical_json


def encode_argument_order(args: Any) -> str:
    """Encode the names of arguments in their order; empty if canonical JSON has the same order."""
    if not isinstance(args, dict) or len(args) < 2:
        return ""
    names = list(args)
    return "" if names == sorted(names) else to_canonical_json(names, "args")


def restore_argument_order(args: Any, order: str) -> Any:
    """Return arguments in an encoded order. Names that it does not have come last; another value is returned as it
    is."""
    names = parse_json_or_return_text(order) if order and isinstance(args, dict) else None
    if not isinstance(names, list):
        return args
    return {**{name: args[name] for name in names if isinstance(name, str) and name in args}, **args}


def restore_order_of_stored_arguments(stored: str, order: str) -> str:
    """Return the JSON text of stored arguments in an encoded order."""
    args = parse_json_or_return_text(stored) if order else None
    if not isinstance(args, dict):
        return stored
    members = restore_argument_order(args, order).items()
    return "{" + ",".join(f"{to_canonical_json(name)}:{to_canonical_json(value)}" for name, value in members) + "}"
