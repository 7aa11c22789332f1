"""Text of pages as a person reads it."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from django.test import Client

    from checkpoints.models import Session

_SILENT = {"script", "style", "head", "template"}
#: Elements without a space before and after them.
_INLINE = {
    "wbr",
    "a",
    "abbr",
    "b",
    "bdi",
    "button",
    "code",
    "em",
    "i",
    "kbd",
    "mark",
    "q",
    "small",
    "span",
    "strong",
    "time",
}


class Page(Protocol):
    content: bytes


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in _SILENT
        self._separate_blocks(tag)

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in _SILENT
        self._separate_blocks(tag)

    def _separate_blocks(self, tag: str) -> None:
        if tag not in _INLINE:
            self.words.append(" ")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.words.append(data)


def visible_text(page: Page) -> str:
    """Return the visible text of a page in one line."""
    reader = _Words()
    reader.feed(page.content.decode())
    return " ".join("".join(reader.words).split())


def get_session_page(client: Client, session: Session, query: str = "") -> str:
    """Return the HTML of the session's page, or of the page at `query` below it."""
    return client.get(f"/sessions/{session.pk}/{query}").content.decode()
