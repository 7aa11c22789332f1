"""Sentences that say what a call does, with its secrets masked."""

import logging
from itertools import islice
from typing import Any, Protocol

from django.utils.translation import gettext

from harness_site.core import formatting
from harness_site.core.masking.known_secret_value_search import contains_short_secret_value
from harness_site.core.masking.masker import (
    collect_secret_values,
    mask_secret_fields_only,
    mask_values_of_secret_fields_in_context,
)
from harness_site.core.rendering.mask_and_shorten_text import mask_and_reveal_hidden

logger = logging.getLogger(__name__)


class DescribedCall(Protocol):
    """A call that a sentence can be made of: a stored row, or the record that a page shows."""

    @property
    def tool(self) -> str: ...

    @property
    def sentence(self) -> str: ...

    @property
    def args_json_in_caller_order(self) -> str: ...


def build_masked_call_sentence(tool: str, sentence: str, args: Any) -> str:
    """Describe a call with secrets masked.

    The sentence of the tool is used without the values of secret fields, else one built from tool name and arguments.
    """
    with mask_values_of_secret_fields_in_context(args):
        if sentence and not contains_short_secret_value(sentence, collect_secret_values(args)):
            return mask_and_reveal_hidden(sentence)
        return build_default_call_sentence(tool, args)


def format_call_sentence(call: DescribedCall) -> str:
    """Describe what a call was about to do: in the tool's words, else made from its name and arguments."""
    try:
        return build_masked_call_sentence(
            call.tool, call.sentence, formatting.parse_json_or_text(call.args_json_in_caller_order)
        )
    except (ValueError, RecursionError):
        logger.exception("The arguments of the call %s cannot be put in words.", getattr(call, "pk", ""))
        return build_default_call_sentence(call.tool, gettext("its arguments cannot be shown"))


def remove_text_of_question(args: Any, sentence: str) -> Any:
    """Return what the arguments of a framework's question have beside the text that its sentence shows.

    Args:
        args: Arguments of the question: a dict with the `value` that the framework's interrupt asked with.
        sentence: Sentence of the question, as it is stored.

    Returns:
        The parts of a value with several, and None if there is nothing else.
    """
    if not isinstance(args, dict) or args.keys() != {"value"}:
        return args
    value = args["value"]
    if isinstance(value, dict):
        return {name: part for name, part in value.items() if part != sentence} or None
    return None if value == sentence else args


def build_default_call_sentence(tool: str, args: Any) -> str:
    """Describe a call of a tool without a sentence of its own: “Refund card: order 17, amount 40.00”."""
    args = mask_secret_fields_only(args)
    name = (
        formatting.mask_and_shorten_to_one_line(tool, 200)
        .replace("_", " ")
        .replace("-", " ")
        .replace(".", " ")
        .strip()
        .capitalize()
    )
    name = name or gettext("Unnamed tool")
    if not isinstance(args, dict):
        return name if args in (None, "") else f"{name}: {formatting.mask_and_shorten_to_one_line(args)}"
    arguments = ", ".join(
        f"{formatting.mask_and_shorten_to_one_line(key)} {formatting.mask_and_shorten_to_one_line(value)}"
        for key, value in islice(args.items(), 6)
    )
    omitted = len(args) - 6
    if not arguments:
        return gettext("%(tool)s, without arguments") % {"tool": name}
    if omitted > 0:
        sentence = gettext("%(tool)s: %(arguments)s, and %(count)s more")
        return sentence % {"tool": name, "arguments": arguments, "count": omitted}
    return f"{name}: {arguments}"
