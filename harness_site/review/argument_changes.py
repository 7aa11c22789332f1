"""Argument edits by a reviewer: parsing, masking and differences to the model's arguments."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any, Final

from django.utils.translation import gettext as _

from checkpoints.enums import DecisionKind
from checkpoints.formats import digests, parse_json, to_canonical_json
from checkpoints.models import Decision, ToolCall
from harness_site.core import formatting, word_diff
from harness_site.core.masking.masker import (
    MASK,
    MaskedField,
    find_secret_list_item_indexes,
    list_fields_with_masked_names,
    mask_json_value,
    restore_masked_values,
)
from harness_site.core.rendering import json_tree
from harness_site.core.word_diff import DiffPiece

#: Maximum length in characters of arguments that can be edited in a browser.
LONGEST: Final = 100_000
#: Maximum depth of a value by value comparison; deeper values are compared as JSON text.
_DEEP: Final = 8


@dataclass(frozen=True, slots=True)
class ArgumentDifference:
    """Difference of one value at `path` (empty for the whole arguments). `kind` is added, removed or changed.

    `pieces` are the masked parts to display; `hidden` is True if the difference lies in a masked value.
    """

    path: str
    kind: str
    pieces: tuple[DiffPiece, ...]
    hidden: bool = False


class InvalidArgumentText(ValueError):
    """Error in the text of edited arguments; the message names the position."""


def format_masked_editable_arguments(stored: str) -> str | None:
    """Return stored arguments as masked JSON text to edit, or None if they cannot be edited."""
    try:
        value = parse_json(stored)
    except ValueError:
        return None
    if not isinstance(value, dict) or len(stored) > LONGEST:
        return None
    return json_tree.mask_and_dump_json(value, indent=2)


def parse_and_unmask_edited_arguments(text: str, stored: str) -> dict[str, Any]:
    """Parse arguments that were edited from `format_masked_editable_arguments(stored)`, and restore masked values.

    Raises:
        InvalidArgumentText: The text is not a JSON object, or contains a mask where nothing was masked.
    """
    if format_masked_editable_arguments(stored) is None:
        raise InvalidArgumentText(_("The arguments of this call cannot be edited here."))
    try:
        value = parse_json(text)
    except JSONDecodeError as error:
        raise InvalidArgumentText(
            _("This is not JSON: {problem}, in line {line}.").format(
                problem=f"{error.msg[0].lower()}{error.msg[1:]}", line=error.lineno
            )
        ) from None
    except ValueError as error:
        raise InvalidArgumentText(_("This cannot be read as arguments: {problem}.").format(problem=error)) from None
    if not isinstance(value, dict):
        raise InvalidArgumentText(_("Enter a JSON object: names and values between curly brackets."))
    arguments: dict[str, Any] = restore_masked_values(value, parse_json(stored))
    if MASK in text and MASK in json.dumps(arguments, ensure_ascii=False):
        raise InvalidArgumentText(
            _("Replace {mask}: nothing was masked at this place, so the tool would get these characters.").format(
                mask=MASK
            )
        )
    return arguments


def get_model_arguments(call: ToolCall) -> Any:
    """Return the arguments as the model asked for them, before any edit."""
    edits = Decision.objects.filter(tool_call=call, kind=DecisionKind.EDIT)
    first_edit = edits.order_by("pk").values_list("evidence", flat=True).first()
    edit_evidence = formatting.parse_json_or_text(first_edit or "{}")
    original_args = edit_evidence.get("args_before") if isinstance(edit_evidence, dict) else None
    return formatting.parse_json_or_text(original_args if isinstance(original_args, str) else call.args)


def compute_arguments_digest(args: dict[str, Any]) -> str:
    """Return the digest that decisions about these arguments are bound to. Raises `NotRepresentable`, `TooLarge`."""
    return digests.digest_text(to_canonical_json(args, "args"))


def list_value_differences(before: Any, after: Any) -> tuple[ArgumentDifference, ...]:
    """List the differences of two JSON values, value by value."""
    return tuple(_generate_value_differences("", before, after, 0))


def _generate_value_differences(path: str, before: Any, after: Any, depth: int) -> Iterator[ArgumentDifference]:
    if to_canonical_json(before) == to_canonical_json(after):
        return
    if depth < _DEEP and isinstance(before, dict) and isinstance(after, dict):
        old, new = ({field.key: field for field in list_fields_with_masked_names(value)} for value in (before, after))
        for key in sorted(old.keys() | new.keys()):
            field = old.get(key) or new[key]
            yield from _generate_entry_differences(
                f"{path}.{field.name}" if path else field.name, old.get(key), new.get(key), depth
            )
    elif depth < _DEEP and isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        hidden = find_secret_list_item_indexes(before) | find_secret_list_item_indexes(after)
        for index, pair in enumerate(zip(before, after, strict=True)):
            if index in hidden and pair[0] != pair[1]:
                yield _build_hidden_difference(f"{path}[{index + 1}]")
            elif index not in hidden:
                yield from _generate_value_differences(f"{path}[{index + 1}]", *pair, depth + 1)
    else:
        yield _build_changed_difference(path, mask_json_value(before), mask_json_value(after))


def _generate_entry_differences(
    path: str, old: MaskedField | None, new: MaskedField | None, depth: int
) -> Iterator[ArgumentDifference]:
    if old is None and new is not None:
        yield ArgumentDifference(path, "added", (DiffPiece("ins", _format_field_value(new)),))
    elif new is None and old is not None:
        yield ArgumentDifference(path, "removed", (DiffPiece("del", _format_field_value(old)),))
    elif old is not None and new is not None and (old.hidden or new.hidden):
        if to_canonical_json(old.value) != to_canonical_json(new.value):
            yield _build_hidden_difference(path)
    elif old is not None and new is not None:
        yield from _generate_value_differences(path, old.value, new.value, depth + 1)


def _build_hidden_difference(path: str) -> ArgumentDifference:
    return ArgumentDifference(path, "changed", (DiffPiece("same", MASK),), hidden=True)


def _format_field_value(field: MaskedField) -> str:
    return MASK if field.hidden else _format_masked_value(mask_json_value(field.value))


def _build_changed_difference(path: str, before: Any, after: Any) -> ArgumentDifference:
    if to_canonical_json(before) == to_canonical_json(after):
        return ArgumentDifference(path, "changed", (DiffPiece("same", _format_masked_value(after)),), hidden=True)
    if (
        isinstance(before, str)
        and isinstance(after, str)
        and MASK not in before + after
        and _is_word_diff_useful(before, after)
    ):
        return ArgumentDifference(path, "changed", word_diff.compute_word_diff(before, after))
    return ArgumentDifference(
        path, "changed", (DiffPiece("del", _format_masked_value(before)), DiffPiece("ins", _format_masked_value(after)))
    )


def _is_word_diff_useful(before: str, after: str) -> bool:
    """Return True if a word diff of two texts helps: they are long enough and similar enough."""
    return min(len(before), len(after)) > 40 and word_diff.compute_similarity_of_beginnings(before, after) > 0.3


def _format_masked_value(value: Any) -> str:
    """Format a masked value so that a number and a text with the same digits differ."""
    return json_tree.quote_ambiguous_text(value) if isinstance(value, str) else json_tree.mask_and_dump_json(value)
