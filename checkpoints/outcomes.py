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
    the call was stopped from outside. Looks at what the error was raised from, too, and recognises the errors of
    HTTP clients by name."""
    return any(_ambiguous(link) for link in _causes(error))


def _ambiguous(error: BaseException) -> bool:
    if isinstance(error, TimeoutError | ConnectionError | asyncio.CancelledError) or not isinstance(error, Exception):
        return True
    return any(_NAMES.search(kind.__name__) for kind in type(error).__mro__[:-2])


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in found:
        found.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return found
