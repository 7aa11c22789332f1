"""Text as it may be shown: nothing invisible, nothing that turns the page around, nothing that cannot be sent."""

import math
from dataclasses import dataclass

from harness_site.rendering.masking import masked, masked_beginning
from harness_site.rendering.safe_text import visible_text

_UNITS = ("KB", "MB", "GB")


@dataclass(frozen=True, slots=True)
class Folded:
    """The beginning of a text. `whole` says that there is no more; `size` is in bytes, of all of it."""

    text: str
    whole: bool
    size: int


def visible(text: str) -> str:
    """`text` as its reader may see it: secrets masked, and every character that would hide, reorder or break something
    shown as what it is."""
    return uncovered(masked(text))


def uncovered(text: str) -> str:
    """The second half of `visible`, for a text whose secrets are masked already."""
    return visible_text(text)


def byte_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def size(count: int) -> str:
    """980 bytes, 12 KB, 5.2 MB."""
    if count < 1000:
        return f"{count} byte" if count == 1 else f"{count} bytes"
    power = min(len(_UNITS), int(math.log(count, 1000) + 1e-9))
    amount = count / 1000**power
    return f"{amount:.1f} {_UNITS[power - 1]}" if amount < 9.95 else f"{amount:.0f} {_UNITS[power - 1]}"


def fold(text: str, limit: int, lines: int | None = None) -> Folded:
    """The first `limit` characters or `lines` lines, cut at the end of a line or a word where one is near.

    A text that is only a little longer stays whole: a fold that hides three words helps nobody.
    """
    size = byte_size(text)
    if lines is not None and text.count("\n") > lines * 5 // 4:
        head = "\n".join(text.split("\n", lines)[:lines])
        if len(head) <= limit:
            return Folded(head, False, size)
    if len(text) <= limit * 5 // 4:
        return Folded(text, True, size)
    cut = next((at for at in (text.rfind(mark, limit // 2, limit) for mark in ("\n", " ")) if at > 0), limit)
    return Folded(text[:cut], False, size)


def fold_masked(text: str, limit: int, lines: int | None = None) -> Folded:
    """As `fold`, with secrets masked; what is left out is not looked through."""
    folded = fold(text, limit, lines)
    if folded.whole:
        return Folded(masked(text), True, folded.size)
    return Folded(masked_beginning(text, len(folded.text)), False, folded.size)
