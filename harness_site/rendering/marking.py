"""Marking words in HTML that is made already: between its tags, never inside one."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from django.utils.safestring import SafeString, mark_safe

from harness_site.rendering.linear_patterns import LinearPattern, compile_pattern, escape

#: How the characters that HTML writes in other ways may stand there.
_WRITTEN: Final = {"&": "&amp;", "<": "&lt;", ">": "(?:&gt;|>)", '"': '(?:&quot;|")', "'": "(?:&#x27;|&#39;|')"}
_TAG: Final = r"""<(?:[^<>"']|"[^"]*"|'[^']*')*>"""
_ENTITY: Final = r"&[#\w]+;"
#: The first mark of a page, where it is asked for one.
FOUND: Final = "found"


@dataclass(frozen=True, slots=True)
class Marked:
    """HTML with the words marked, and whether each of them stands in it."""

    html: SafeString
    complete: bool


def marked(html: SafeString, words: tuple[str, ...], *, named: bool = False) -> Marked:
    """`html` with every occurrence of `words` marked, in any case, and all that is folded around one opened. What
    stands across two tags is not marked. With `named`, the first mark can be linked to, as `FOUND`."""
    if not words:
        return Marked(html, complete=True)
    parts: list[str] = []
    folds: list[int] = []
    seen: set[str] = set()
    at = 0
    for found in _pattern(words).finditer(html):
        parts.append(html[at : found.start()])
        at = found.end()
        word = next((index for index, group in enumerate(found.groups()) if group is not None), None)
        if word is None:
            parts.append(_tag(found[0], folds, len(parts)))
            continue
        for fold in folds:
            parts[fold] = "<details open" + parts[fold].removeprefix("<details").removeprefix(" open")
        parts.append(f'<mark id="{FOUND}">{found[0]}</mark>' if named and not seen else f"<mark>{found[0]}</mark>")
        seen.add(_longest_first(words)[word].casefold())
    parts.append(html[at:])
    complete = all(any(word.casefold() in other for other in seen) for word in words)
    return Marked(mark_safe("".join(parts)), complete)  # noqa: S308 - tags of ours around what is safe already


def _tag(tag: str, folds: list[int], place: int) -> str:
    """Keeps count of the folds that are around what comes next."""
    if tag.startswith("<details"):
        folds.append(place)
    elif tag == "</details>" and folds:
        folds.pop()
    return tag


@lru_cache(maxsize=64)
def _pattern(words: tuple[str, ...]) -> LinearPattern:
    """A group for each word."""
    groups = [f"({_written(word)})" for word in _longest_first(words)]
    return compile_pattern(f"{_TAG}|{'|'.join(groups)}|{_ENTITY}", ignore_case=True)


def _longest_first(words: tuple[str, ...]) -> list[str]:
    """The order in which they are tried, so that the longest is marked."""
    return sorted(words, key=len, reverse=True)


def _written(word: str) -> str:
    return "".join(_WRITTEN.get(letter, escape(letter)) for letter in word)
