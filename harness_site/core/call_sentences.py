"""Sentences that say what a call does, with its secrets masked."""

import logging
import re
from collections.abc import Container, Iterator
from itertools import islice
from typing import Any, Final, Protocol

from django.utils.translation import gettext, ngettext

from checkpoints.enums import UNANSWERED_RESULT
from harness_site.core import formatting
from harness_site.core.masking.known_secret_value_search import contains_short_secret_value
from harness_site.core.masking.masker import (
    collect_secret_values,
    mask_secret_fields_only,
    mask_values_in_context,
)
from harness_site.core.rendering.mask_and_shorten_text import mask_and_reveal_hidden

logger = logging.getLogger(__name__)

#: Number of arguments that a sentence names, and number of values of a list that it names instead of their number.
_MAX_ARGUMENTS: Final = 6
_MAX_LISTED_VALUES: Final = 2
_SPACE_BETWEEN_WORDS: Final = str.maketrans("_-.", "   ")


class DescribedCall(Protocol):
    """A call that a sentence can be made of: a stored row, or the record that a page shows."""

    @property
    def tool(self) -> str: ...

    @property
    def sentence(self) -> str: ...

    @property
    def args_json_in_caller_order(self) -> str: ...


def is_sentence_of_tool(sentence: str) -> bool:
    """Return whether the stored sentence of a call says what the call does."""
    return sentence not in {"", UNANSWERED_RESULT}


def build_masked_call_sentence(tool: str, sentence: str, args: Any) -> str:
    """Describe a call with secrets masked.

    The sentence of the tool is used without the values of secret fields, else one built from tool name and arguments.
    """
    secrets = collect_secret_values(args)
    with mask_values_in_context(secrets):
        if is_sentence_of_tool(sentence) and not contains_short_secret_value(sentence, secrets):
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
    """Describe a call of a tool without a sentence of its own: “Refund card: order 17, amount 40.00”.

    Lists and objects have parentheses: “branches (main, old)”. Those of several values are counted: “customers (100
    entries)”, because the page of the call lists them.
    """
    return "".join(text for text, _ in _generate_default_pieces(tool, args))


def split_default_call_sentence(tool: str, args: Any) -> list[tuple[str, bool]]:
    """Split the sentence of a call whose tool has none into pieces, each with whether it is the value of an argument.

    Secrets are masked as in `build_masked_call_sentence`.
    """
    with mask_values_in_context(collect_secret_values(args)):
        return list(_generate_default_pieces(tool, args))


def _generate_default_pieces(tool: str, args: Any) -> Iterator[tuple[str, bool]]:
    args = mask_secret_fields_only(args)
    name = _put_name_in_words(tool, 200).capitalize() or gettext("Unnamed tool")
    if args == {}:
        yield gettext("%(tool)s, without arguments") % {"tool": name}, False
        return
    yield name, False
    if not isinstance(args, dict):
        if args not in (None, ""):
            yield ": ", False
            yield formatting.mask_and_shorten_to_one_line(args), True
        return
    for number, (key, value) in enumerate(islice(args.items(), _MAX_ARGUMENTS)):
        yield f"{', ' if number else ': '}{_put_name_in_words(key)} ", False
        yield _put_value_in_words(value), True
    omitted = len(args) - _MAX_ARGUMENTS
    if omitted > 0:
        yield gettext(", and %(count)s more") % {"count": omitted}, False


def put_other_arguments_in_words(args: Any, names: Container[str], sentence: str) -> str:
    """Describe the arguments with these names, without those whose value `sentence` says: “replicas 6 · dry no”."""
    if not isinstance(args, dict):
        return ""
    chosen = {name: value for name, value in mask_secret_fields_only(args).items() if name in names}
    words = [
        _put_argument_in_words(name, value) for name, value in chosen.items() if not _is_said_in(sentence, name, value)
    ]
    return " · ".join(words)


def _is_said_in(sentence: str, name: str, value: Any) -> bool:
    said = _put_argument_in_words(name, value)
    if not isinstance(value, bool | dict | list):
        said = _put_scalar_in_words(value)
    return re.search(rf"(?<!\w){re.escape(said)}(?!\w)", sentence) is not None


def _put_name_in_words(name: str, limit: int = 60) -> str:
    return formatting.mask_and_shorten_to_one_line(name, limit).translate(_SPACE_BETWEEN_WORDS).strip()


def _put_argument_in_words(name: str, value: Any) -> str:
    """Describe an argument without JSON: “order 17”, “branches (main, old)”, “env (2 fields)”."""
    return f"{_put_name_in_words(name)} {_put_value_in_words(value)}"


def _put_value_in_words(value: Any) -> str:
    if not isinstance(value, dict | list):
        return _put_scalar_in_words(value)
    return f"({_put_collection_in_words(value)})"


def _put_collection_in_words(value: dict[str, Any] | list[Any]) -> str:
    number = {"count": len(value)}
    if not value:
        return gettext("none")
    if isinstance(value, dict):
        return ngettext("%(count)s field", "%(count)s fields", len(value)) % number
    if len(value) > _MAX_LISTED_VALUES or any(isinstance(item, dict | list) for item in value):
        return ngettext("%(count)s entry", "%(count)s entries", len(value)) % number
    return ", ".join(map(_put_scalar_in_words, value))


def _put_scalar_in_words(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    return formatting.mask_and_shorten_to_one_line(value)
