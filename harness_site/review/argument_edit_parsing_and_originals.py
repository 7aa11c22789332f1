"""Argument edits by a reviewer: parsing, masking and the arguments that the model asked for."""

import json
from json import JSONDecodeError
from typing import Any, Final

from django.utils.translation import gettext as _

from checkpoints.enums import DecisionKind
from checkpoints.formats import digests, parse_json, to_canonical_json
from checkpoints.models import Decision, ToolCall
from checkpoints.models.decision import get_args_json_before_edit
from harness_site.core import masked_formatting
from harness_site.core.masking.masker import MASK, restore_masked_values
from harness_site.core.rendering import json_tree
from harness_site.review.json_syntax_error_messages import describe_json_error

#: Maximum length in characters of arguments that can be edited in a browser.
LONGEST: Final = 100_000


class InvalidArgumentText(ValueError):
    """Error in the text of edited arguments; the message names the position."""


def format_masked_arguments_if_editable(stored: str) -> str | None:
    """Return stored arguments as masked JSON text to edit, or None if they cannot be edited."""
    try:
        value = parse_json(stored)
    except ValueError:
        return None
    if not isinstance(value, dict) or len(stored) > LONGEST:
        return None
    return json_tree.mask_and_dump_json(value, indent=2)


def parse_and_unmask_edited_arguments(text: str, stored: str) -> dict[str, Any]:
    """Parse arguments that were edited from `format_masked_arguments_if_editable(stored)`, and restore masked values.

    Raises:
        InvalidArgumentText: The text is not a JSON object, or contains a mask where nothing was masked.
    """
    if format_masked_arguments_if_editable(stored) is None:
        raise InvalidArgumentText(_("The arguments of this call cannot be edited here."))
    try:
        value = parse_json(text)
    except JSONDecodeError as error:
        raise InvalidArgumentText(describe_json_error(error)) from None
    except ValueError as error:
        raise InvalidArgumentText(_("This cannot be read as arguments: {problem}.").format(problem=error)) from None
    if not isinstance(value, dict):
        raise InvalidArgumentText(_("Enter a JSON object: names and values between curly brackets."))
    arguments: dict[str, Any] = restore_masked_values(value, parse_json(stored))
    if MASK in text and MASK in json.dumps(arguments, ensure_ascii=False):
        raise InvalidArgumentText(describe_mask_without_original())
    return arguments


def describe_mask_without_original() -> str:
    """Say that a mask stands where it does not stand for a stored value as a whole."""
    return _("Replace {mask}: it stands for no masked value here, so the tool would get these characters.").format(
        mask=MASK
    )


def load_arguments_before_edits(call: ToolCall) -> Any:
    """Return the arguments as the model asked for them, before any edit."""
    edits = Decision.objects.filter(tool_call=call, kind=DecisionKind.EDIT)
    first_edit = edits.order_by(*Decision.IN_ORDER).values_list("evidence", flat=True).first()
    return masked_formatting.parse_json_or_text(get_args_json_before_edit(first_edit) or call.args)


def load_original_arguments_to_restore_or_none(call: ToolCall) -> dict[str, Any] | None:
    """Return the arguments that the agent asked for, if people have changed them and their digest is the recorded one.

    The result is None for arguments that are not changed or not known.
    """
    if not call.has_changed_args:
        return None
    original = load_arguments_before_edits(call)
    is_original = isinstance(original, dict) and compute_arguments_digest(original) == call.asked_args_digest
    return original if is_original else None


def compute_arguments_digest(args: dict[str, Any]) -> str:
    """Return the digest that decisions about these arguments are bound to. Raises `NotRepresentable`, `TooLarge`."""
    return digests.digest_text(to_canonical_json(args, "args"))


def has_masked_arguments(call: ToolCall) -> bool:
    """Return whether some of the arguments of a call are masked for the reader."""
    return MASK in json_tree.mask_and_dump_json(masked_formatting.parse_json_or_text(call.args))
