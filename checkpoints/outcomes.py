"""What a tool call came to, and what a verify hook can say about it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ToolResult:
    """The answer to one dispatched call. `replayed` says that nothing ran now; the content is the stored one."""

    call_id: str
    content: str
    is_error: bool = False
    replayed: bool = False
    attempt: int = 1


@dataclass(frozen=True)
class Landed:
    """The effect happened; `result` is what the call would have returned."""

    result: str


@dataclass(frozen=True)
class NotLanded:
    """The effect did not happen."""


@dataclass(frozen=True)
class Unknown:
    """The hook cannot tell; `why` is shown to the person who then has to."""

    why: str = ""


Answer = Landed | NotLanded | Unknown
Ambiguous = tuple[type[BaseException], ...] | Callable[[BaseException], bool]

_NAMES = re.compile(r"Time(d)?out|Connect|Network|Transport|Disconnect|BrokenPipe|IncompleteRead|Protocol|Unavailable")


def unknown_outcome(error: BaseException) -> bool:
    """The default for which errors leave the effect of a tool unknown: time ran out, the connection was lost, or
    the call was stopped from outside. Looks at what the error was raised from and into groups, too, and recognises
    the errors of HTTP clients by name."""
    return any(_ambiguous(link) for link in _related(error))


def _ambiguous(error: BaseException) -> bool:
    if isinstance(error, TimeoutError | ConnectionError | asyncio.CancelledError) or not isinstance(error, Exception):
        return True
    return any(_NAMES.search(kind.__name__) for kind in type(error).__mro__[:-2])


def _related(error: BaseException) -> list[BaseException]:
    """The error, what it was raised from, and the members of groups among these."""
    found: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is None or link in found:
            continue
        found.append(link)
        waiting += [link.__cause__, None if link.__suppress_context__ else link.__context__]
        waiting += link.exceptions if isinstance(link, BaseExceptionGroup) else ()
    return found
