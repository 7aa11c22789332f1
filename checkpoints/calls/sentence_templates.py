"""Sentences that say what a call does, formatted from a tool's template and the arguments of the call."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

from checkpoints.formats.storable_text import replace_unstorable_characters

#: Longest sentence that is formatted again, in characters.
MAX_SENTENCE_LENGTH = 2000
#: Format specifications that are accepted: alignment, sign, a width of at most two digits, a precision, and a type.
_HARMLESS_SPEC = re.compile(r"(?:.?[<>=^])?[-+ ]?#?0?\d{0,2}[,_]?(?:\.\d{1,2})?[bcdeEfFgGnosxX%]?")
#: Field names that are accepted: an argument, and items of it.
_HARMLESS_FIELD = re.compile(r"[^.\[\]]+(?:\[[^\[\]]+\])*")


#: Field of one element of a list among the arguments, or of an item of that element.
_FIELD_OF_LIST_ELEMENT = re.compile(r"([^.\[\]]+)(\[\d+\]).*", re.DOTALL)
#: Name of the argument at the beginning of a field.
_ARGUMENT_OF_FIELD = re.compile(r"[^.\[]*")


def format_sentence(template: str, args: Mapping[str, Any]) -> str:
    """Format the template of a tool with the arguments of a call.

    A field that names one element of a list, such as `{to[0]}`, says how many more there are: “ann (+3)”. That has no
    words, because the sentence is stored, and read in every language. Raises what `str.format_map` raises for a
    template that does not fit.
    """
    pieces = list(Formatter().parse(template))
    counts = _count_unnamed_elements([field for _, field, _, _ in pieces if field is not None], args)
    sentence = []
    for literal, field, spec, conversion in pieces:
        sentence.append(literal)
        if field is None:
            continue
        placeholder = f"{{{field}{'!' + conversion if conversion else ''}{':' + spec if spec else ''}}}"
        sentence.append(placeholder.format_map(dict(args)))
        if count := counts.pop(field, 0):
            sentence.append(f" (+{count})")
    return "".join(sentence)


def _count_unnamed_elements(fields: Sequence[str], args: Mapping[str, Any]) -> dict[str, int]:
    """Count, by field, the elements of its list that the sentence does not name, where it names exactly one."""
    named: defaultdict[str, list[str]] = defaultdict(list)
    for field in dict.fromkeys(fields):
        if argument := _ARGUMENT_OF_FIELD.match(field):
            named[argument[0]].append(field)
    return {
        field: len(args[argument]) - 1
        for argument, (field, *others) in named.items()
        if not others and _FIELD_OF_LIST_ELEMENT.fullmatch(field) and isinstance(args.get(argument), list | tuple)
    }


def format_sentence_if_harmless(template: str, args: Mapping[str, Any]) -> str:
    """Format the template of a tool with the arguments of a call, outside of the tool's own process.

    The template comes from an agent, so only plain fields are formatted: no attributes, and no large widths.

    Returns:
        The sentence; empty if the template is not plain or does not fit the arguments.
    """
    try:
        for _, field, spec, _ in Formatter().parse(template):
            if field is not None and not (_HARMLESS_FIELD.fullmatch(field) and _HARMLESS_SPEC.fullmatch(spec or "")):
                return ""
        sentence = format_sentence(template, args)
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""
    return replace_unstorable_characters(sentence) if len(sentence) <= MAX_SENTENCE_LENGTH else ""
