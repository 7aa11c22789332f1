"""Differences of an edited message, part by part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from checkpoints.formats import parse_message_parts
from checkpoints.formats.parse_message_parts import CallPart, Part, ResultPart
from checkpoints.formats.shell_command_exit_codes import is_shell_command_tool
from harness_site.core import word_diff
from harness_site.core.masking import masker
from harness_site.core.rendering import json_tree
from harness_site.core.shell_commands_in_call_arguments import (
    find_command_argument_name_or_empty,
    get_command_without_shell_wrapper_or_empty,
)
from harness_site.core.word_diff import DiffPiece, StepBudget
from harness_site.sessions.json_and_text_excerpts import parse_json_container

#: Objects with more fields are compared as text.
_MAX_FIELDS = 40
_LINE_LENGTH = 100
#: Maximum steps of finding out which parts of two messages belong to each other.
_ALIGNMENT_STEPS = 100_000


@dataclass(frozen=True, slots=True)
class EditedField:
    """A field of the arguments or of the result of a call; `pieces` are its values before and after."""

    name: str
    pieces: tuple[DiffPiece, ...]

    @property
    def has_differences(self) -> bool:
        return any(piece.change != "same" for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class EditedPart:
    """A part of an edited message: `part` as it is now if it `is_same`, else its `fields` or its `pieces`.

    With `is_command`, the pieces are those of a shell command, and the fields are the other arguments if they differ.
    If only one of the messages has the part, `only_in` tells which; otherwise `old` is the part as it was.
    """

    part: Part
    old: Part | None = None
    is_same: bool = False
    is_command: bool = False
    only_in: Literal["", "old", "new"] = ""
    fields: tuple[EditedField, ...] = ()
    pieces: tuple[DiffPiece, ...] = ()

    @property
    def has_differences(self) -> bool:
        """Whether the values that are shown differ; those of secrets are not shown."""
        own = EditedField("", self.pieces)
        return bool(self.only_in) or any(field.has_differences for field in (own, *self.fields))


def compare_parts(old: tuple[Part, ...], new: tuple[Part, ...], budget: StepBudget) -> tuple[EditedPart, ...]:
    """Compare the parts of two messages one by one, those of the same kind with each other.

    Empty if they are too many to find out which belong to each other.
    """
    try:
        return tuple(_iterate_aligned_message_parts(old, new, budget))
    except word_diff.TooManySteps:
        return ()


def _iterate_aligned_message_parts(
    old: tuple[Part, ...], new: tuple[Part, ...], budget: StepBudget
) -> Iterator[EditedPart]:
    old_kinds, new_kinds = list(map(_get_kind_and_tool, old)), list(map(_get_kind_and_tool, new))
    for tag, i1, i2, j1, j2 in word_diff.BoundedMatcher(old_kinds, new_kinds, _ALIGNMENT_STEPS).get_opcodes():
        if tag == "equal":
            for before, after in zip(old[i1:i2], new[j1:j2], strict=True):
                yield _compare_part(before, after, budget)
            continue
        for part in old[i1:i2]:
            yield _build_part_of_one_message(part, "old", budget)
        for part in new[j1:j2]:
            yield _build_part_of_one_message(part, "new", budget)


def _get_kind_and_tool(part: Part) -> str:
    return f"{part.kind} {part.name if isinstance(part, CallPart) else ''}"


def _build_part_of_one_message(part: Part, only_in: Literal["old", "new"], budget: StepBudget) -> EditedPart:
    value, text = _get_arguments_or_json_result(part), parse_message_parts.parts_to_text((part,))
    sides = ((value, {}), (text, "")) if only_in == "old" else (({}, value), ("", text))
    fields = compare_fields(*sides[0], budget)
    is_shown_by_name = isinstance(part, CallPart) and not part.args
    pieces = () if fields or is_shown_by_name else word_diff.compute_word_diff(*sides[1], budget)
    return EditedPart(part, only_in=only_in, fields=fields, pieces=pieces)


def _compare_part(old: Part, new: Part, budget: StepBudget) -> EditedPart:
    if _remove_call_id(old) == _remove_call_id(new):
        return EditedPart(new, old, is_same=True)
    old_command, new_command = _get_command_or_empty(old), _get_command_or_empty(new)
    if old_command and new_command:
        old_others, new_others = _get_arguments_beside_command(old), _get_arguments_beside_command(new)
        fields = () if old_others == new_others else compare_fields(old_others, new_others, budget)
        if fields or old_others == new_others:
            pieces = word_diff.compute_word_diff(old_command, new_command, budget)
            return EditedPart(new, old, is_command=True, fields=fields, pieces=pieces)
    old_text, new_text = parse_message_parts.parts_to_text((old,)), parse_message_parts.parts_to_text((new,))
    fields = compare_fields(_get_arguments_or_json_result(old), _get_arguments_or_json_result(new), budget)
    return EditedPart(
        new, old, fields=fields, pieces=() if fields else word_diff.compute_word_diff(old_text, new_text, budget)
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


def compare_fields(old: Any, new: Any, budget: StepBudget) -> tuple[EditedField, ...]:
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
