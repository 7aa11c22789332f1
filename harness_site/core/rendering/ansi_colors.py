"""ANSI escape sequences for colours as HTML with a closed set of classes."""

import re
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

from harness_site.core.rendering.fast_format_html import build_html, join_html
from harness_site.core.rendering.line_chunks import join_chunks_as_blocks, split_into_line_chunks
from harness_site.core.rendering.safe_display_text import reveal_hidden_characters
from harness_site.core.terminal_sequence_patterns import (
    ESCAPE_INTRODUCER,
    FINAL,
    MAX_PARAMETER_LENGTH,
    SHORT_PARAMETERS,
)

#: A sequence that moves the cursor or erases. It has no text, so it is left out; other control characters are named.
_CURSOR: Final = re.compile(rf"{ESCAPE_INTRODUCER}{SHORT_PARAMETERS}(?!m){FINAL}")
#: A sequence that sets colours and styles.
_CODE: Final = re.compile(rf"{ESCAPE_INTRODUCER}([0-9;:]{{0,{MAX_PARAMETER_LENGTH}}})m")
#: Maximum parameters of a sequence that count, and maximum sequences of a text; the others are treated as text.
MAX_PARAMETERS: Final = 32
MAX_CODES: Final = 5_000
_COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_STYLES: Final = {1: "bold", 2: "dim", 3: "italic", 4: "underline"}
#: Every class that this module can produce.
CLASSES: Final = frozenset(f"ansi-{name}" for name in (*_COLOURS, *_STYLES.values()))


def has_ansi_style_codes(text: str) -> bool:
    return "\x1b[" in text and _CODE.search(text) is not None


def render_ansi_as_html(text: str) -> SafeString:
    """Render masked text with its ANSI colours; control characters that belong to no sequence are named."""
    text = _CURSOR.sub("", text)
    if not has_ansi_style_codes(text):
        return join_chunks_as_blocks(
            [conditional_escape(part) for part in split_into_line_chunks(reveal_hidden_characters(text))]
            or [SafeString()]
        )
    return join_chunks_as_blocks(list(_generate_colored_line_chunks(text)))


def _generate_colored_line_chunks(text: str) -> Iterator[SafeString]:
    look: frozenset[str] = frozenset()
    codes_left = MAX_CODES
    for stretch in split_into_line_chunks(text):
        pieces: list[SafeString] = []
        # Text after the last sequence that counts keeps its style and displays further sequences as text.
        for index, part in enumerate(_CODE.split(stretch, maxsplit=codes_left) if codes_left else [stretch]):
            if index % 2:
                look, codes_left = _apply_style_codes(look, part), codes_left - 1
            elif part and look:
                pieces.append(_render_styled_text(part, look))
            elif part:
                pieces.append(conditional_escape(reveal_hidden_characters(part)))
        yield join_html("", "{}", ((piece,) for piece in pieces))


def _render_styled_text(text: str, look: frozenset[str]) -> SafeString:
    return build_html('<span class="{}">{}</span>', " ".join(sorted(look)), reveal_hidden_characters(text))


def _apply_style_codes(look: frozenset[str], codes: str) -> frozenset[str]:
    """Return the style after a sequence; parameters beyond the maximum are ignored."""
    parameters = codes.replace(":", ";").split(";", MAX_PARAMETERS)[:MAX_PARAMETERS]
    numbers = iter([int(code) if code.isdecimal() and len(code) <= 3 else 0 for code in parameters])
    for number in numbers:
        if number in {38, 48}:  # an extended colour: only the number of its parameters matters
            deque(islice(numbers, {5: 1, 2: 3}.get(next(numbers, 0), 0)), maxlen=0)
        else:
            look = _apply_style_code(look, number)
    return look


def _apply_style_code(look: frozenset[str], number: int) -> frozenset[str]:
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
