"""Arguments in which the calls of one list differ, so that a reader can tell the calls apart, and those they share."""

from collections.abc import Iterable, Set
from typing import Any

from harness_site.core.call_sentences import describe_arguments_not_in_sentence
from harness_site.core.masking.masker import mask_secret_fields_only
from harness_site.core.money_amounts_in_call_arguments import find_amount_argument_name


def find_names_of_differing_arguments(args_of_calls: Iterable[Any]) -> set[str]:
    """Return the names of the arguments that some call does not have, or has with another value.

    Those of a single call are all different: nothing else says them.
    """
    objects = [args for args in args_of_calls if isinstance(args, dict)]
    names = {name for args in objects for name in args}
    if len(objects) == 1:
        return names
    return {
        name
        for name in names
        if any(name not in args for args in objects) or any(args[name] != objects[0][name] for args in objects)
    }


def find_names_of_visibly_differing_arguments(args_of_calls: Iterable[Any]) -> set[str]:
    """Return the names of the differing arguments that differ for the reader, too, with what is masked for them."""
    return find_names_of_differing_arguments(mask_secret_fields_only(args) for args in args_of_calls)


def find_names_of_equal_arguments(args_of_calls: Iterable[Any]) -> set[str]:
    """Return the names of the arguments that all calls have with the same value."""
    objects = [args for args in args_of_calls if isinstance(args, dict)]
    return {name for args in objects for name in args} - find_names_of_differing_arguments(objects)


def describe_differing_arguments(args: Any, names: Set[str], sentence: str, *, is_amount_shown: bool) -> str:
    """Describe the arguments with these names, masked, without those that the sentence or the shown amount says."""
    shown = {find_amount_argument_name(args)} if is_amount_shown else set()
    return describe_arguments_not_in_sentence(args, names - shown, sentence)
