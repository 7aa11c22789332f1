"""Characters that may not be displayed as they are: invisible, reordering and unencodable ones.

`replace_hidden_characters_by_names` names each of them in place, `format_on_one_line` also removes line breaks, and
`escape_hidden_in_json` writes them as JSON escapes for text that a program reads.
"""

from __future__ import annotations

import json
import re
from typing import Final

from checkpoints.formats.storable_text import UNSTORABLE_CHARACTERS

#: Characters that are invisible or affect the text around them: controls except tab and line feed, soft hyphens,
#: bidirectional marks, embeddings, overrides and isolates, fillers, default ignorables, line and paragraph separators,
#: surrogates, interlinear annotations, tags and noncharacters.
ALWAYS_HIDDEN: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
#: Characters that a joiner may combine with their neighbours: pictographs, and letters of the scripts that need
#: joiners.
_PICTURES: Final = "\u00a9\u00ae\u203c\u2049\u2100-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_JOINING: Final = "\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\ua840-\uabff\U00010a00-\U00011fff"
_IDEOGRAPHS: Final = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_JOINERS: Final = "\u200c\u200d"
_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
#: A joiner is legitimate between two pictographs or after a joining letter, a variation selector after a character with
#: variants. Only one at a time: a sequence of them can carry a hidden message.
_HIDDEN: Final = re.compile(
    f"[{ALWAYS_HIDDEN}]"
    f"|\u200d(?<![{_JOINING}]\u200d)(?:(?<![{_PICTURES}\ufe0f]\u200d)|(?![{_PICTURES}]))"
    f"|\u200c(?<![{_JOINING}]\u200c)"
    f"|[{_JOINERS}](?=[{_JOINERS}])"
    f"|[\ufe0e\ufe0f](?<![#*0-9{_PICTURES}{_IDEOGRAPHS}][\ufe0e\ufe0f])"
    f"|[\ufe00-\ufe0d](?<![\u1000-\u109f\u2200-\u22ff\ua840-\ua87f{_IDEOGRAPHS}][\ufe00-\ufe0d])"
    f"|[\U000e0100-\U000e01ef](?<![{_IDEOGRAPHS}][\U000e0100-\U000e01ef])"
)
#: Every character that may be hidden in some context; most texts contain none.
_SUSPECT: Final = re.compile(f"[{ALWAYS_HIDDEN}{_JOINERS}{_SELECTORS}]")
#: Characters that are never hidden, most of any text, as bytes of UTF-8.
_HARMLESS: Final = b"\t\n" + bytes(range(0x20, 0x7F))
_BREAKS: Final = re.compile(r"[\t\n ]+")
#: First of the Unicode symbols for control characters.
_CONTROL_PICTURES: Final = 0x2400


def replace_hidden_characters_by_names(text: str) -> str:
    """Name each hidden character in place: `␂`, `‹U+202E›`. Tabs and line feeds are kept."""
    if (text.isascii() and text.isprintable()) or not _may_have_hidden_characters(text):
        return text
    return _HIDDEN.sub(_format_hidden_character_as_symbol_or_code_point, text.replace("\r\n", "\n"))


def format_on_one_line(text: str) -> str:
    """Name hidden characters and collapse whitespace to single blanks, for titles, headers and log entries."""
    return _BREAKS.sub(" ", replace_hidden_characters_by_names(text)).strip()


def has_hidden_characters(text: str) -> bool:
    """Return whether a text contains hidden characters."""
    return replace_hidden_characters_by_names(text) != text


def escape_hidden_in_json(json_text: str) -> str:
    """Escape hidden characters in a JSON text, which parses to the same value."""
    return _HIDDEN.sub(_escape_hidden_character, json_text) if _may_have_hidden_characters(json_text) else json_text


def replace_unencodable_characters(text: str) -> str:
    """Replace characters that neither a database column nor a URL can hold by `�`."""
    return UNSTORABLE_CHARACTERS.sub("\ufffd", text)


def make_text_for_column(value: object, max_length: int) -> str:
    """Return a text as a column of `max_length` characters can hold it; empty for what is no text."""
    return replace_unencodable_characters(value)[:max_length] if isinstance(value, str) else ""


def _may_have_hidden_characters(text: str) -> bool:
    """Return whether a text has characters that may be hidden. Only its few other characters are searched for them."""
    if text.isascii() and text.isprintable():
        return False
    others = text.encode("utf-8", "surrogatepass").translate(None, _HARMLESS)
    return bool(others) and _SUSPECT.search(others.decode("utf-8", "surrogatepass")) is not None


def _format_hidden_character_as_symbol_or_code_point(match: re.Match[str]) -> str:
    code = ord(match.group())
    return chr(_CONTROL_PICTURES + code) if code < 0x20 else f"‹U+{code:04X}›"


def _escape_hidden_character(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1]
