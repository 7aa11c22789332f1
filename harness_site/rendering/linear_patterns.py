"""Regular expressions whose work grows in proportion to the text, for text that agents wrote.

Python's own engine tries every way in which a pattern can match; a text made for it keeps the interpreter busy for
minutes. RE2 reads each character once for a search and lets other threads run meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Protocol, TypeAlias

import re2

#: Half of a character, which UTF-8 cannot hold.
SURROGATE: Final = re.compile("[\ud800-\udfff]")


class UnsupportedPattern(ValueError):
    """A pattern that cannot be matched in linear time, or is not a pattern at all.

    Lookaround, backreferences, possessive and atomic groups, and repetitions of more than 1000 are refused. Where
    only the borders of a match matter, match more and take a group of it.
    """

    def __init__(self, pattern: str, reason: str) -> None:
        self.pattern = pattern
        super().__init__(f"The pattern {pattern!r} cannot be matched in linear time: {reason}.")


class Match(Protocol):
    """The part of `re.Match` that both engines have. A surrogate without its other half is U+FFFD in the groups;
    positions are those of the text that was searched, and are told by the number of a group alone."""

    def start(self, group: int = 0, /) -> int: ...
    def end(self, group: int = 0, /) -> int: ...
    def span(self, group: int = 0, /) -> tuple[int, int]: ...
    def group(self, group: int | str = 0, /) -> Any: ...
    def groups(self) -> tuple[Any, ...]: ...
    def __getitem__(self, group: int | str, /) -> Any: ...


class LinearPattern:
    """A compiled pattern. There is no position to start from: each search encodes the whole text, so that a loop of
    searches would be quadratic. Use `finditer`."""

    __slots__ = ("_compiled", "pattern")

    def __init__(self, pattern: str, compiled: Any) -> None:
        self.pattern = pattern
        self._compiled = compiled

    def __repr__(self) -> str:
        return f"LinearPattern({self.pattern!r})"

    def search(self, text: str) -> Match | None:
        """Return the first match in `text`."""
        found: Match | None = self._compiled.search(_encodable(text))
        return found

    def finditer(self, text: str) -> Iterator[Match]:
        """Yield the matches in `text` in order, none inside another.

        The sum of all searches is linear where a search cannot read far beyond the match it finds: give repetitions
        an upper bound, or let nothing but the end of the repeated characters follow them.
        """
        found: Iterator[Match] = self._compiled.finditer(_encodable(text))
        return found


#: What takes a pattern of either engine.
Pattern: TypeAlias = re.Pattern[str] | LinearPattern


def compile_pattern(pattern: str, *, ignore_case: bool = False, dot_all: bool = False) -> LinearPattern:
    r"""Compile `pattern` for RE2. Raises `UnsupportedPattern`.

    Differences from `re`: `\w`, `\d`, `\s` and `\b` know only ASCII (write `\pL` for letters, `\pN` for numbers of
    all scripts), and the end of the text is `\z`.
    """
    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.dot_nl = dot_all
    options.log_errors = False
    try:
        return LinearPattern(pattern, re2.compile(pattern, options))
    except (re2.error, UnicodeEncodeError) as error:
        raise UnsupportedPattern(pattern, _reason(error)) from None


def escape(text: str) -> str:
    """Return a pattern that matches `text` and nothing else."""
    escaped: str = re2.escape(_encodable(text))
    return escaped


def _reason(error: Exception) -> str:
    told = error.args[0] if error.args else ""
    return told.decode("utf-8", "replace") if isinstance(told, bytes) else str(error)


def _encodable(text: str) -> str:
    """`text` with as many characters, all of which UTF-8 can hold."""
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)
