"""One boundary between the text of agents and whoever reads it: nothing invisible, nothing that reorders its
surroundings, nothing that has no UTF-8.

`visible_text` names every such character where it stands, `one_line` does so for a text that has one line to stand in,
and `escape_hidden` writes it as JSON does, for text that a program reads back.
"""

from __future__ import annotations

import json
import re
from typing import Final

#: Characters that no reader sees, or that act on what stands around them: controls but tab and line feed, the soft
#: hyphen, marks, embeddings, overrides and isolates of direction, fillers, whatever Unicode lets a font ignore, line
#: and paragraph separators, halves of surrogate pairs, interlinear notes, tags, and what is no character at all.
ALWAYS_HIDDEN: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
#: What may be joined to a whole with its neighbour: pictures, and letters of the scripts that need joiners.
_PICTURES: Final = "\u00a9\u00ae\u203c\u2049\u2100-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_JOINING: Final = "\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\ua840-\uabff\U00010a00-\U00011fff"
_IDEOGRAPHS: Final = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_JOINERS: Final = "\u200c\u200d"
_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
#: A joiner belongs between two pictures, or behind a letter that joins; a selector behind what has several forms. One
#: alone: a row of them says something that nobody sees.
_HIDDEN: Final = re.compile(
    f"[{ALWAYS_HIDDEN}]"
    f"|\u200d(?<![{_JOINING}]\u200d)(?:(?<![{_PICTURES}\ufe0f]\u200d)|(?![{_PICTURES}]))"
    f"|\u200c(?<![{_JOINING}]\u200c)"
    f"|[{_JOINERS}](?=[{_JOINERS}])"
    f"|[\ufe0e\ufe0f](?<![#*0-9{_PICTURES}{_IDEOGRAPHS}][\ufe0e\ufe0f])"
    f"|[\ufe00-\ufe0d](?<![\u1000-\u109f\u2200-\u22ff\ua840-\ua87f{_IDEOGRAPHS}][\ufe00-\ufe0d])"
    f"|[\U000e0100-\U000e01ef](?<![{_IDEOGRAPHS}][\U000e0100-\U000e01ef])"
)
#: All that may be hidden somewhere; most texts hold none of it.
_SUSPECT: Final = re.compile(f"[{ALWAYS_HIDDEN}{_JOINERS}{_SELECTORS}]")
#: What neither PostgreSQL nor an address can hold.
_NOT_ENCODABLE: Final = re.compile("[\x00\ud800-\udfff]")
_BREAKS: Final = re.compile(r"[\t\n ]+")
#: Where Unicode draws the control characters.
_CONTROL_PICTURES: Final = 0x2400


def visible_text(text: str) -> str:
    """`text` with each hidden character named where it stands: `␂`, `‹U+202E›`. Tabs and line feeds stay."""
    if not _SUSPECT.search(text):
        return text
    return _HIDDEN.sub(_name, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The same for a headline, a header or an entry of a log: every run of blanks and line breaks is one blank."""
    return _BREAKS.sub(" ", visible_text(text)).strip()


def hides(text: str) -> bool:
    """Whether `visible_text` would change `text`."""
    return _SUSPECT.search(text) is not None and visible_text(text) != text


def escape_hidden(json_text: str) -> str:
    """JSON text with each hidden character inside its strings as an escape: the value it says stays the same."""
    return _HIDDEN.sub(_escape, json_text) if _SUSPECT.search(json_text) else json_text


def encodable(text: str) -> str:
    """`text` for a column of a database or the query of an address, with what neither can hold replaced by `�`."""
    return _NOT_ENCODABLE.sub("\ufffd", text)


def _name(found: re.Match[str]) -> str:
    code = ord(found.group())
    return chr(_CONTROL_PICTURES + code) if code < 0x20 else f"‹U+{code:04X}›"


def _escape(found: re.Match[str]) -> str:
    return json.dumps(found.group())[1:-1]
