"""Pages of long texts: a text of several megabytes is masked and sent in parts.

A text is named by a keyed digest, so that its pages have stable addresses that reveal nothing of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from checkpoints.formats.parse_message_parts import OtherPart, Part, ReasoningPart, ResultPart, TextPart
from harness_site.core.masking.masker import MASK, get_masked_text_slice, mask_secret_fields_only
from harness_site.core.masking.replace_digests_by_fingerprints import compute_keyed_fingerprint_of_digest
from harness_site.core.rendering.json_tree import dump_json_for_display
from harness_site.core.rendering.text_shortening import get_byte_size
from harness_site.sessions.selectors.conversation_window import CallCard

#: Characters of one page.
PAGE: Final = 100_000
#: Characters of a JSON value that is displayed as a list; a longer one continues as JSON text.
MAX_UNPAGED_LENGTH: Final = 50_000
#: Name of the stored JSON of a message or call in addresses; it is only formatted where it is displayed.
STORED: Final = "stored"


@dataclass(frozen=True, slots=True)
class TextPage:
    """One page of a text, masked. `number` counts from 1, `size` is that of the whole text in bytes."""

    key: str
    text: str
    number: int
    count: int
    size: int


def build_masked_text_page(text: str, number: int) -> TextPage:
    """Build page `number` of a text; the last one if there are fewer."""
    count = count_pages_of_text(text)
    number = max(1, min(number, count))
    start = (number - 1) * PAGE
    masked = get_masked_text_slice(text, start, start + PAGE)
    return TextPage(compute_text_fingerprint(text), masked, number, count, get_byte_size(text))


def count_pages_of_text(text: str) -> int:
    return max(1, -(-len(text) // PAGE))


def compute_text_fingerprint(text: str) -> str:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()
    return compute_keyed_fingerprint_of_digest(digest)[:16]


def mask_secret_fields_and_format_json(value: Any) -> str:
    """Format a JSON value as text without the values of its secret fields; secrets in its texts are still there."""
    return dump_json_for_display(mask_secret_fields_only(value), indent=1)


def iterate_pageable_texts(parts: Iterable[Part | CallCard]) -> Iterator[str]:
    """Yield the texts of a message or call that may have more than one page."""
    for part in parts:
        match part:
            case TextPart(text=text) | ReasoningPart(text=text):
                yield text
            case CallCard(call=call, result=result):
                yield mask_secret_fields_and_format_json(call.args)
                yield from iterate_pageable_texts(result.parts if result is not None else ())
            case ResultPart(parts=inner):
                yield from iterate_pageable_texts(inner)
            case OtherPart(value=value):
                yield mask_secret_fields_and_format_json(value)


def find_long_text_by_fingerprint(texts: Iterable[str], key: str) -> str | None:
    """Return the text with this key."""
    return next(
        (text for text in texts if len(text) > MAX_UNPAGED_LENGTH and compute_text_fingerprint(text) == key), None
    )


def find_later_text_page_with_any_word(texts: Iterable[str], words: Iterable[str]) -> TextPage | None:
    """Return the first page after the first one of a text on which one of these words is visible."""
    folded_words = [word.casefold() for word in words]
    for text in texts:
        if len(text) <= PAGE:
            continue
        for number in range(1, count_pages_of_text(text) + 1):
            if not _may_show_any_word(text[(number - 1) * PAGE : number * PAGE], folded_words):
                continue
            page = build_masked_text_page(text, number)
            if any(word in page.text.casefold() for word in folded_words):
                if number > 1:
                    return page
                break
    return None


def _may_show_any_word(stored: str, folded_words: Iterable[str]) -> bool:
    """Return whether one of these words may be visible in a text once it is masked, without masking it."""
    folded = stored.casefold()
    return any(word in folded or word in MASK or MASK[0] in word or MASK[-1] in word for word in folded_words)
