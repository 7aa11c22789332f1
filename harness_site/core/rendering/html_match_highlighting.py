"""Highlighting of words in rendered HTML, outside of its tags."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from django.utils.safestring import SafeString, mark_safe

from harness_site.core.linear_regex import LinearPattern, compile_pattern, escape_pattern

#: Spellings of characters that HTML may escape.
_HTML_ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "(?:&gt;|>)", '"': '(?:&quot;|")', "'": "(?:&#x27;|&#39;|')"}
_TAG: Final = r"""<(?:[^<>"']|"[^"]*"|'[^']*')*>"""
_ENTITY: Final = r"&[#\w]+;"
#: Id of the first mark of a page, if requested.
FOUND: Final = "found"


@dataclass(frozen=True, slots=True)
class MarkedHtml:
    """HTML with highlighted words; `complete` is True if each of them occurs."""

    html: SafeString
    complete: bool


def mark_search_words_and_open_folds(html: SafeString, words: tuple[str, ...], *, named: bool = False) -> MarkedHtml:
    """Highlight every occurrence of `words`, ignoring case, and open the folds around them.

    Words that are split by a tag are not found, nor are the role and time beside a message, which are no part of it.
    With `named`, the first mark gets the id `FOUND`.
    """
    if not words:
        return MarkedHtml(html, complete=True)
    parts: list[str] = []
    folds: list[int] = []
    marked_words: set[str] = set()
    is_aside = False
    at = 0
    for match in _build_words_pattern(words).finditer(html):
        parts.append(html[at : match.start()])
        at = match.end()
        word = next((index for index, group in enumerate(match.groups()) if group is not None), None)
        if match[0].startswith(("<aside", "</aside")):
            is_aside = match[0].startswith("<aside")
        if word is None or is_aside:
            parts.append(_track_open_folds(match[0], folds, len(parts)))
            continue
        for fold in folds:
            parts[fold] = "<details open" + parts[fold].removeprefix("<details").removeprefix(" open")
        parts.append(
            f'<mark id="{FOUND}">{match[0]}</mark>' if named and not marked_words else f"<mark>{match[0]}</mark>"
        )
        marked_words.add(_sort_longest_first(words)[word].casefold())
    parts.append(html[at:])
    complete = all(any(word.casefold() in other for other in marked_words) for word in words)
    return MarkedHtml(mark_safe("".join(parts)), complete)  # noqa: S308 - tags of ours around what is safe already


def _track_open_folds(tag: str, folds: list[int], place: int) -> str:
    """Track the stack of open folds at a tag."""
    if tag.startswith("<details"):
        folds.append(place)
    elif tag == "</details>" and folds:
        folds.pop()
    return tag


@lru_cache(maxsize=64)
def _build_words_pattern(words: tuple[str, ...]) -> LinearPattern:
    """Compile a pattern with a group for each word."""
    groups = [f"({_build_pattern_of_html_escaped_word(word)})" for word in _sort_longest_first(words)]
    return compile_pattern(f"{_TAG}|{'|'.join(groups)}|{_ENTITY}", ignore_case=True)


def _sort_longest_first(words: tuple[str, ...]) -> list[str]:
    """Sort words by length, longest first, so that the longest match is marked."""
    return sorted(words, key=len, reverse=True)


def _build_pattern_of_html_escaped_word(word: str) -> str:
    return "".join(_HTML_ESCAPES.get(letter, escape_pattern(letter)) for letter in word)
