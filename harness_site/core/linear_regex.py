"""Regular expressions in linear time, for text of agents.

The backtracking engine of Python may take minutes for crafted text while it holds the GIL. RE2 reads each character
once for a search and releases the GIL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol, TypeAlias

import re2

#: A surrogate, which UTF-8 cannot encode.
SURROGATE: Final = re.compile("[\ud800-\udfff]")


class UnsupportedPattern(ValueError):
    """Raised for a pattern that is invalid or cannot be matched in linear time.

    Lookaround, backreferences, possessive and atomic groups, and repetitions of more than 1000 are not supported. If
    only the borders of a match matter, match more and use a group of it.
    """

    def __init__(self, pattern: str, reason: str) -> None:
        self.pattern = pattern
        super().__init__(f"The pattern {pattern!r} cannot be matched in linear time: {reason}.")


class Match(Protocol):
    """The methods of `re.Match` that both engines have.

    Unpaired surrogates are U+FFFD in the groups. Positions refer to the searched text and are available by group number
    only.
    """

    def start(self, group: int = 0, /) -> int: ...
    def end(self, group: int = 0, /) -> int: ...
    def span(self, group: int = 0, /) -> tuple[int, int]: ...
    def group(self, group: int | str = 0, /) -> Any: ...
    def groups(self) -> tuple[Any, ...]: ...
    def __getitem__(self, group: int | str, /) -> Any: ...


class _AsciiMatch:
    """A match in the bytes of a text whose characters are one byte each.

    RE2 maps the positions of every match in a `str` from bytes to characters, which takes several times as long.
    """

    __slots__ = ("_match", "end", "span", "start")

    def __init__(self, match: Any) -> None:
        self._match = match
        self.start: Callable[..., int] = match.start
        self.end: Callable[..., int] = match.end
        self.span: Callable[..., tuple[int, int]] = match.span

    def __getitem__(self, group: int | str, /) -> Any:
        found = self._match[group]
        return None if found is None else found.decode("ascii")

    def group(self, group: int | str = 0, /) -> Any:
        return self[group]

    def groups(self) -> tuple[Any, ...]:
        return tuple(None if found is None else found.decode("ascii") for found in self._match.groups())


class LinearPattern:
    """A compiled pattern.

    There is no start position: each search encodes the whole text, so a loop of searches would take quadratic time. Use
    `finditer`.
    """

    __slots__ = ("_compiled", "pattern")

    def __init__(self, pattern: str, compiled: Any) -> None:
        self.pattern = pattern
        self._compiled = compiled

    def __repr__(self) -> str:
        return f"LinearPattern({self.pattern!r})"

    def search(self, text: str) -> Match | None:
        """Return the first match in `text`."""
        return next(self.finditer(text), None)

    def iterate_spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of the matches in `text` in order: faster than `finditer` where no group matters.

        Much faster still if the pattern has no groups, because RE2 looks for them again inside of each match.
        """
        searched = text.encode("ascii") if text.isascii() else SURROGATE.sub("\ufffd", text)
        return (match.span() for match in self._compiled.finditer(searched))

    def finditer(self, text: str) -> Iterator[Match]:
        """Yield the matches in `text` in order, none inside another.

        The sum of all searches is linear where a search cannot read far beyond the match it finds: give repetitions
        an upper bound, or let nothing but the end of the repeated characters follow them.
        """
        if text.isascii():
            return map(_AsciiMatch, self._compiled.finditer(text.encode("ascii")))
        matches: Iterator[Match] = self._compiled.finditer(SURROGATE.sub("\ufffd", text))
        return matches


#: A pattern of either engine.
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
        raise UnsupportedPattern(pattern, _format_pattern_error(error)) from None


def escape_pattern(text: str) -> str:
    """Return a pattern that matches `text` and nothing else."""
    escaped: str = re2.escape(_replace_surrogates(text))
    return escaped


def _format_pattern_error(error: Exception) -> str:
    message = error.args[0] if error.args else ""
    return message.decode("utf-8", "replace") if isinstance(message, bytes) else str(error)


def _replace_surrogates(text: str) -> str:
    """Replace unpaired surrogates, keeping the length of `text`."""
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)
