"""Differences of an edited message, part by part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from checkpoints.formats import parse_message_parts
from checkpoints.formats.parse_message_parts import CallPart, Part, ResultPart
from checkpoints.formats.shell_command_results import is_shell_command_tool
from harness_site.core import word_diff
from harness_site.core.masking import masker
from harness_site.core.rendering import json_tree
from harness_site.core.shell_command_arguments import (
    find_command_argument_name_or_empty,
    get_command_without_shell_wrapper_or_empty,
)
from harness_site.core.word_diff import DiffPiece, StepBudget
from harness_site.sessions.session_formatting import parse_json_container

#: Objects with more fields are compared as text.
_MAX_FIELDS = 40
_LINE_LENGTH = 100


@dataclass(frozen=True, slots=True)
class EditedField:
    """A field of the arguments or of the result of a call; `pieces` are its values before and after."""

    name: str
    pieces: tuple[DiffPiece, ...]


@dataclass(frozen=True, slots=True)
class EditedPart:
    """A part of an edited message: `new` as it is if it `is_same`, else its `fields` or its `pieces`.

    With `is_command`, the pieces are those of a shell command, and the fields are the other arguments if they differ.
    """

    new: Part
    is_same: bool = False
    is_command: bool = False
    fields: tuple[EditedField, ...] = ()
    pieces: tuple[DiffPiece, ...] = ()

    @property
    def has_differences(self) -> bool:
        """Whether the values that are shown differ; those of secrets are not shown."""
        shown = (self.pieces, *(field.pieces for field in self.fields))
        return any(piece.change != "same" for pieces in shown for piece in pieces)


def compare_parts(old: tuple[Part, ...], new: tuple[Part, ...], budget: StepBudget) -> tuple[EditedPart, ...]:
    """Compare the parts of two messages one by one; empty if the messages consist of other kinds of parts."""
    if [_get_kind_and_tool(part) for part in old] != [_get_kind_and_tool(part) for part in new]:
        return ()
    return tuple(_compare_part(before, after, budget) for before, after in zip(old, new, strict=True))


def _get_kind_and_tool(part: Part) -> tuple[str, str]:
    return part.kind, part.name if isinstance(part, CallPart) else ""


def _compare_part(old: Part, new: Part, budget: StepBudget) -> EditedPart:
    if _remove_call_id(old) == _remove_call_id(new):
        return EditedPart(new, is_same=True)
    old_command, new_command = _get_command_or_empty(old), _get_command_or_empty(new)
    if old_command and new_command:
        old_others, new_others = _get_arguments_beside_command(old), _get_arguments_beside_command(new)
        fields = () if old_others == new_others else _compare_fields(old_others, new_others, budget)
        if fields or old_others == new_others:
            pieces = word_diff.compute_word_diff(old_command, new_command, budget)
            return EditedPart(new, is_command=True, fields=fields, pieces=pieces)
    old_text, new_text = parse_message_parts.parts_to_text((old,)), parse_message_parts.parts_to_text((new,))
    fields = _compare_fields(_get_arguments_or_json_result(old), _get_arguments_or_json_result(new), budget)
    return EditedPart(
        new, fields=fields, pieces=() if fields else word_diff.compute_word_diff(old_text, new_text, budget)
    )


def _remove_call_id(part: Part) -> Part:
    return replace(part, call_id="") if isinstance(part, CallPart | ResultPart) else part


def _get_command_or_empty(part: Part) -> str:
    if not isinstance(part, CallPart) or not is_shell_command_tool(part.name):
        return ""
    return get_command_without_shell_wrapper_or_empty(part.args) if isinstance(part.args, dict) else ""


def _get_arguments_beside_command(part: Part) -> dict[str, Any]:
    args = part.args if isinstance(part, CallPart) else {}
    command = find_command_argument_name_or_empty(args)
    given = args[command]
    rest = {name: value for name, value in args.items() if name != command}
    return (
        rest | {name: value for name, value in given.items() if name != "command"} if isinstance(given, dict) else rest
    )


def _get_arguments_or_json_result(part: Part) -> Any:
    match part:
        case CallPart(args=args):
            return args
        case ResultPart():
            return parse_json_container(parse_message_parts.parts_to_text((part,)))
        case _:
            return None


def _compare_fields(old: Any, new: Any, budget: StepBudget) -> tuple[EditedField, ...]:
    """Compare two objects field by field, in the order of the new one; empty if they have too many fields."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return ()
    if len(old.keys() | new.keys()) > _MAX_FIELDS:
        return ()
    names: dict[str, str] = {}
    old_values: dict[str, str] = {}
    new_values: dict[str, str] = {}
    for values, side in ((old_values, old), (new_values, new)):
        for field in masker.mask_field_names_and_list_all_fields(side):
            names[field.key] = field.name
            values[field.key] = masker.MASK if field.hidden else _format_value(field.value)
    return tuple(
        EditedField(names[key], word_diff.compute_word_diff(old_values.get(key, ""), new_values.get(key, ""), budget))
        for key in {**new_values, **old_values}
    )


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = json_tree.mask_and_dump_json(value)
    return json_tree.mask_and_dump_json(value, indent=2) if len(text) > _LINE_LENGTH else text
