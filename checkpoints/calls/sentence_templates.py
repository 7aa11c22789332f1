"""Sentences that say what a call does, formatted from a tool's template and the arguments of the call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Formatter
from typing import Any

#: Longest sentence that is formatted again, in characters.
MAX_SENTENCE_LENGTH = 2000
#: Format specifications that are accepted: alignment, sign, a width of at most two digits, a precision, and a type.
_HARMLESS_SPEC = re.compile(r"(?:.?[<>=^])?[-+ ]?#?0?\d{0,2}[,_]?(?:\.\d{1,2})?[bcdeEfFgGnosxX%]?")
#: Field names that are accepted: an argument, and items of it.
_HARMLESS_FIELD = re.compile(r"[^.\[\]]+(?:\[[^\[\]]+\])*")


def replace_unstorable_characters(text: str) -> str:
    """Replace the characters that a database cannot store."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")


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
        sentence = template.format_map(dict(args))
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""
    return replace_unstorable_characters(sentence) if len(sentence) <= MAX_SENTENCE_LENGTH else ""
