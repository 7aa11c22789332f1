"""Marking words in HTML that is made already: between its tags, never inside one."""

import re
from functools import lru_cache
from typing import Final

from django.utils.safestring import SafeString, mark_safe

#: How the characters that HTML writes in other ways may stand there.
_WRITTEN: Final = {"&": "&amp;", "<": "&lt;", ">": "(?:&gt;|>)", '"': '(?:&quot;|")', "'": "(?:&#x27;|&#39;|')"}
_TAG: Final = r"""<(?:[^<>"']|"[^"]*"|'[^']*')*>"""
_ENTITY: Final = r"&[#\w]+;"


def marked(html: SafeString, words: str) -> tuple[SafeString, int]:
    """`html` with every occurrence of `words` marked, in any case, and how many there were. What stands across two tags
    is not marked."""
    if not words:
        return html, 0
    count = 0

    def mark(found: re.Match[str]) -> str:
        nonlocal count
        if found["words"] is None:
            return found[0]
        count += 1
        return f"<mark>{found[0]}</mark>"

    shown = _pattern(words).sub(mark, html)
    return mark_safe(shown), count  # noqa: S308 - a tag of ours around what is safe already


@lru_cache(maxsize=64)
def _pattern(words: str) -> re.Pattern[str]:
    written = "".join(_WRITTEN.get(letter, re.escape(letter)) for letter in words)
    return re.compile(f"{_TAG}|(?P<words>{written})|{_ENTITY}", re.IGNORECASE)
