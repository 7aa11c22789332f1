"""Stored texts and JSON as one line or indented, with secrets masked and hidden characters shown."""

import json
import re
from typing import Any, Final

from checkpoints.formats import parse_json, parse_json_or_return_text
from harness_site.core.masking.masker import get_masked_text_beginning, mask_secret_fields_only, mask_text
from harness_site.core.rendering.json_tree import mask_and_dump_json
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden, reveal_hidden_characters
from harness_site.core.rendering.terminal_sequence_removal import remove_terminal_sequences

#: Builds the JSON of a value for one line. `json.dumps` would create an encoder for each value.
_JSON_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)
#: Characters of a text that are read for one line.
_SCANNED: Final = 2_000
#: Lines that are drawn across the output of a program, also as a part of its box: `⎯⎯⎯ Failed ⎯⎯⎯`, `=====`.
_RULE: Final = re.compile(r"[\u2500-\u257f\u23af\u2015]+|([-=_*~#])\1{4,}")


def parse_json_or_text(stored: str | None) -> Any:
    """Parse stored JSON text; damaged JSON is returned as text, and None as None."""
    return None if stored is None else parse_json_or_return_text(stored)


def mask_and_indent_json(stored: str) -> str:
    """Indent stored JSON text; a text that is not JSON is returned as is."""
    try:
        return mask_and_reveal_hidden(mask_and_dump_json(parse_json(stored), indent=2))
    except ValueError:
        return mask_and_reveal_hidden(stored)


def mask_and_format_json_or_text(stored: str) -> str:
    """Format stored JSON for reading: a string as its text, anything else indented."""
    value = parse_json_or_text(stored)
    return mask_and_reveal_hidden(value) if isinstance(value, str) else mask_and_indent_json(stored)


def mask_and_shorten_output_to_one_line(text: str, limit: int) -> str:
    """Shorten the output or the error of a tool to one line, without terminal sequences and horizontal rules."""
    # Rules are removed from masked text: a private key is recognized by its dashes.
    masked = get_masked_text_beginning(remove_terminal_sequences(text), _SCANNED)
    return mask_and_shorten_to_one_line(_RULE.sub(" ", masked), limit)


def _mask_secret_fields_and_dump_json(value: Any) -> str:
    masked = mask_secret_fields_only(value)
    return str(masked) if type(masked) is int else _JSON_ENCODER.encode(masked)


def mask_and_shorten_to_one_line(value: Any, limit: int = 60) -> str:
    """Shorten a value to one line for a title."""
    whole = value if isinstance(value, str) else _mask_secret_fields_and_dump_json(value)
    masked = mask_text(whole) if len(whole) <= _SCANNED else get_masked_text_beginning(whole, _SCANNED)
    line = " ".join(masked.split())
    # A line that is the whole text has no secret that other white space was in; most values are such lines.
    text = reveal_hidden_characters(line) if line == whole else mask_and_reveal_hidden(line)
    return text if len(text) <= limit and len(whole) <= _SCANNED else f"{text[: limit - 1]}…"
