"""Long texts in chunks of lines, so that a browser lays out only the visible ones."""

from collections.abc import Iterator
from typing import Final

from django.utils.safestring import SafeString

from harness_site.core.rendering.fast_format_html import build_html, join_html

#: Lines of one chunk.
LINES: Final = 200


def split_into_line_chunks(text: str) -> Iterator[str]:
    """Split `text` into chunks that end at a line break, which they include."""
    start = 0
    while start < len(text):
        end = start
        for _ in range(LINES):
            end = text.find("\n", end) + 1
            if not end:
                yield text[start:]
                return
        yield text[start:end]
        start = end


def join_chunks_as_blocks(parts: list[SafeString]) -> SafeString:
    """Join chunks as block elements; a single chunk is returned unchanged."""
    if len(parts) == 1:
        return parts[0]
    return join_html("", "{}", ((_render_chunk(part),) for part in parts))


def _render_chunk(html: SafeString) -> SafeString:
    return build_html('<span class="line-chunk">{}</span>', html)
