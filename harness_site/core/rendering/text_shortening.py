"""Texts that are shortened or cut to a preview, and sizes in bytes."""

import math
import re
from dataclasses import dataclass
from typing import Final

from django.utils.formats import number_format
from django.utils.translation import ngettext

from harness_site.core.masking.masker import get_masked_text_beginning, mask_text

_UNITS = ("KB", "MB", "GB")
_UUID: Final = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FoldedText:
    """The beginning of a text. `whole` is True if it is complete; `size` is that of the whole text in bytes."""

    text: str
    whole: bool
    size: int


def shorten_text(text: str, limit: int) -> str:
    """Return a text of `limit` characters at most, the last one `…` if it is longer."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def shorten_text_in_middle(text: str, limit: int) -> str:
    """Return a text of `limit` characters at most; `…` stands for the middle of a longer one, so that its end is
    shown."""
    if len(text) <= limit:
        return text
    tail = limit * 3 // 5
    return f"{text[: limit - 1 - tail]}…{text[-tail:]}"


def shorten_uuids(session_id: str) -> str:
    """Shorten each UUID in an id to its first group: `0ccf1a04…/agent-a5bdbc1`."""
    return _UUID.sub(r"\1…", session_id)


def get_byte_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def format_byte_size(count: int) -> str:
    """Format a size: 980 bytes, 12 KB, 5.2 MB."""
    if count < 1000:
        return ngettext("%(count)s byte", "%(count)s bytes", count) % {"count": count}
    power = min(len(_UNITS), int(math.log(count, 1000) + 1e-9))
    amount = count / 1000**power
    number = number_format(f"{amount:.{int(amount < 9.95)}f}", use_l10n=True)
    return f"{number} {_UNITS[power - 1]}"


def cut_text_to_preview(text: str, limit: int, lines: int | None = None) -> FoldedText:
    """Return the first `limit` characters or `lines` lines, cut at a line end or between words if one is near.

    A text that is only a little longer is returned completely.
    """
    size = get_byte_size(text)
    if lines is not None and text.count("\n") > lines * 5 // 4:
        head = "\n".join(text.split("\n", lines)[:lines])
        if len(head) <= limit:
            return FoldedText(head, False, size)
    if len(text) <= limit * 5 // 4:
        return FoldedText(text, True, size)
    cut = next((at for at in (text.rfind(mark, limit // 2, limit) for mark in ("\n", " ")) if at > 0), limit)
    return FoldedText(text[:cut], False, size)


def cut_and_mask_text_to_preview(text: str, limit: int, lines: int | None = None) -> FoldedText:
    """Fold and mask a text; the omitted part is not scanned."""
    beginning = cut_text_to_preview(text, limit, lines)
    if beginning.whole:
        return FoldedText(mask_text(text), True, beginning.size)
    return FoldedText(get_masked_text_beginning(text, len(beginning.text)), False, beginning.size)
