"""Colours of terminals: what programs wrote for a terminal, read as they meant it. The classes are a closed set."""

import re
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString

from harness_site.rendering.stretches import cut, joined
from harness_site.rendering.text import uncovered

#: One instruction of a terminal. Those that end in `m` say how what follows looks; the others have no meaning here.
_CODE = re.compile(r"\x1b\[([0-9;:]*)m")
#: Parameters of one instruction that count, and instructions of one text; all after these are text.
MAX_PARAMETERS: Final = 32
MAX_CODES: Final = 5_000
_COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_STYLES: Final = {1: "bold", 2: "dim", 3: "italic", 4: "underline"}
#: Every class this module can produce.
CLASSES: Final = frozenset(f"ansi-{name}" for name in (*_COLOURS, *_STYLES.values()))


def coloured(text: str) -> bool:
    return "\x1b[" in text and _CODE.search(text) is not None


def html(text: str) -> SafeString:
    """`text`, whose secrets are masked already, with its colours; everything else in it shown as what it is."""
    if not coloured(text):
        return joined([conditional_escape(part) for part in cut(uncovered(text))] or [SafeString()])
    return joined(list(_coloured(text)))


def _coloured(text: str) -> Iterator[SafeString]:
    look: frozenset[str] = frozenset()
    left = MAX_CODES
    for stretch in cut(text):
        pieces: list[SafeString] = []
        # What follows the last code that counts keeps its look, and shows further codes as what they are.
        for index, part in enumerate(_CODE.split(stretch, maxsplit=left) if left else [stretch]):
            if index % 2:
                look, left = _changed(look, part), left - 1
            elif part and look:
                pieces.append(_styled(part, look))
            elif part:
                pieces.append(conditional_escape(uncovered(part)))
        yield format_html_join("", "{}", ((piece,) for piece in pieces))


def _styled(text: str, look: frozenset[str]) -> SafeString:
    return format_html('<span class="{}">{}</span>', " ".join(sorted(look)), uncovered(text))


def _changed(look: frozenset[str], codes: str) -> frozenset[str]:
    """The look after an instruction, of which the first parameters count."""
    parameters = codes.replace(":", ";").split(";", MAX_PARAMETERS)[:MAX_PARAMETERS]
    numbers = iter([int(code) if code.isdecimal() and len(code) <= 3 else 0 for code in parameters])
    for number in numbers:
        if number in {38, 48}:  # one of many colours: of what follows only its length matters
            deque(islice(numbers, {5: 1, 2: 3}.get(next(numbers, 0), 0)), maxlen=0)
        else:
            look = _one(look, number)
    return look


def _one(look: frozenset[str], number: int) -> frozenset[str]:
    colours = frozenset(f"ansi-{name}" for name in _COLOURS)
    if number == 0:
        return frozenset()
    if number in _STYLES:
        return look | {f"ansi-{_STYLES[number]}"}
    if number == 22:
        return look - {"ansi-bold", "ansi-dim"}
    if number in {23, 24}:
        return look - {f"ansi-{_STYLES[number - 20]}"}
    if number == 39:
        return look - colours
    base = 30 if 30 <= number < 38 else 90
    return (look - colours) | {f"ansi-{_COLOURS[number - base]}"} if 0 <= number - base < 8 else look
