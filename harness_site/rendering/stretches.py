"""Long texts in stretches of lines, so that a browser lays out only those that are in view."""

from collections.abc import Iterator
from typing import Final

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

#: Lines of one stretch.
LINES: Final = 200


def cut(text: str) -> Iterator[str]:
    """`text` in parts that end where a line does; each with its line break."""
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


def joined(parts: list[SafeString]) -> SafeString:
    """Stretches below each other; a single one as it is."""
    if len(parts) == 1:
        return parts[0]
    return format_html_join("", "{}", ((_stretch(part),) for part in parts))


def _stretch(html: SafeString) -> SafeString:
    return format_html('<span class="stretch">{}</span>', html)
