"""Terminal control sequences in the output of tools, which say nothing to a reader of one line."""

import re
from typing import Final

from harness_site.core.terminal_sequence_patterns import FINAL, INTERMEDIATE, INTRODUCER, PARAMETER

#: The beginning of a sequence that another one interrupts: a terminal forgets it.
_INTERRUPTED: Final = re.compile(rf"(?:{INTRODUCER}{PARAMETER}*|\x1b){INTERMEDIATE}*(?=[\x1b\x80-\x9f])")
#: A control sequence: `ESC [`, parameters, a final byte; the last one of a text may be cut. One that ends in `m` sets
#: colours and styles.
_STYLE: Final = re.compile(rf"{INTRODUCER}{PARAMETER}*{INTERMEDIATE}*(?:m|\Z)")
#: Control sequences that move the cursor or erase, with the blanks behind them: what follows them is another word.
_CURSOR: Final = re.compile(rf"(?:{INTRODUCER}{PARAMETER}*{INTERMEDIATE}*{FINAL})+[ \t]*")
#: A string for the terminal, such as the title of its window or the address of a link, up to its terminator.
_STRING: Final = re.compile(r"(?:\x1b[PX\]^_]|[\x90\x98\x9d-\x9f])[^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\|\x9c)")
_OTHER_SEQUENCE: Final = re.compile(r"\x1b[ -/]*[0-~]?")
#: Control characters except line breaks and tabs.
_CONTROL_CHARACTERS: Final = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
_SUSPECT: Final = re.compile("[\x00-\x08\r\x0e-\x1b\x7f-\x84\x86-\x9f]")
_CARRIAGE_RETURN: Final = re.compile("\r+\n?")


def remove_terminal_sequences(text: str) -> str:
    """Return a text without terminal sequences (colours, cursor, titles, links) and other control characters.

    Tabs and line breaks stay, and a carriage return becomes a line break. It is for the output of tools. In arguments,
    control characters have to stay visible, because people decide about them. Call it before secrets are masked: a
    sequence in the middle of a secret would hide it from the masking rules.
    """
    if _SUSPECT.search(text) is None:
        return text
    text = _STYLE.sub("", _STRING.sub("", _INTERRUPTED.sub("", text)))
    text = _CURSOR.sub(_put_blank_after_word, text)
    text = _CONTROL_CHARACTERS.sub("", _OTHER_SEQUENCE.sub("", text))
    return _CARRIAGE_RETURN.sub("\n", text)


def _put_blank_after_word(cursor: re.Match[str]) -> str:
    return " " if cursor.start() and not cursor.string[cursor.start() - 1].isspace() else ""
