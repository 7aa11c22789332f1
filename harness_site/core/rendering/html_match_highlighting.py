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


def mark_search_words_and_open_folds(
    html: SafeString, words: tuple[str, ...], *, named: bool = False, current: bool = False
) -> MarkedHtml:
    """Highlight every occurrence of `words`, ignoring case, and open the folds around them.

    Words that follow each other in their order have one mark. Words that are split by a tag are not found, nor are the
    role and time beside a message, which are no part of it. With `named`, the first mark gets the id `FOUND`; with
    `current`, the marks stand out among those of other matches.
    """
    if not words:
        return MarkedHtml(html, complete=True)
    parts: list[str] = []
    folds: list[int] = []
    marked_words: set[str] = set()
    words_of_groups = _list_word_groups_longest_first(words)
    is_aside = False
    at = 0
    for match in _build_words_pattern(words).finditer(html):
        parts.append(html[at : match.start()])
        at = match.end()
        group = next((index for index, found in enumerate(match.groups()) if found is not None), None)
        if match[0].startswith(("<aside", "</aside")):
            is_aside = match[0].startswith("<aside")
        if group is None or is_aside:
            parts.append(_update_open_folds_and_return_tag(match[0], folds, len(parts)))
            continue
        for fold in folds:
            parts[fold] = "<details open" + parts[fold].removeprefix("<details").removeprefix(" open")
        anchor = f' id="{FOUND}"' if named and not marked_words else ""
        emphasis = ' class="current"' if current else ""
        parts.append(f"<mark{anchor}{emphasis}>{match[0]}</mark>")
        marked_words.update(found.casefold() for found in words_of_groups[group])
    parts.append(html[at:])
    complete = all(any(word.casefold() in other for other in marked_words) for word in words)
    return MarkedHtml(mark_safe("".join(parts)), complete)  # noqa: S308 - tags of ours around what is safe already


def _update_open_folds_and_return_tag(tag: str, folds: list[int], place: int) -> str:
    """Track the stack of open folds at a tag."""
    if tag.startswith("<details"):
        folds.append(place)
    elif tag == "</details>" and folds:
        folds.pop()
    return tag


@lru_cache(maxsize=64)
def _build_words_pattern(words: tuple[str, ...]) -> LinearPattern:
    """Compile a pattern with a group for all words in a row, and one for each of them."""
    groups = (
        r"\s+".join(_build_pattern_of_html_escaped_word(word) for word in in_a_row)
        for in_a_row in _list_word_groups_longest_first(words)
    )
    alternatives = "|".join(f"({group})" for group in groups)
    return compile_pattern(f"{_TAG}|{alternatives}|{_ENTITY}", ignore_case=True)


def _list_word_groups_longest_first(words: tuple[str, ...]) -> list[tuple[str, ...]]:
    """List the words of each group, the longest first, so that the longest match is marked."""
    return [words, *((word,) for word in sorted(words, key=len, reverse=True))]


def _build_pattern_of_html_escaped_word(word: str) -> str:
    return "".join(_HTML_ESCAPES.get(letter, escape_pattern(letter)) for letter in word)
