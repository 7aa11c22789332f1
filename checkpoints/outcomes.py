"""What a tool call came to, and what a verify hook can say about it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ToolResult:
    """Answer to one dispatched call.

    Attributes:
        call_id: Identifier of the call.
        content: Text the model gets as the call's answer.
        is_error: Whether the content is an error.
        replayed: Whether nothing ran now and the content is the stored one.
        attempt: Number of the attempt, from 1.
        answered_before: Whether the replayed result already was in the transcript of a saved version: the model has
            seen it and asked once more.
    """

    call_id: str
    content: str
    is_error: bool = False
    replayed: bool = False
    attempt: int = 1
    answered_before: bool = False


#: What the agent reads as the result of a call whose verify hook says that it landed, and not with what result.
LANDED_WITHOUT_RESULT = "This call happened. What it returned is not known."


@dataclass(frozen=True)
class Landed:
    """Answer of a verify hook: the effect happened.

    Attributes:
        result: What the call would have returned: text, or a JSON value that becomes text.
    """

    result: Any = LANDED_WITHOUT_RESULT


@dataclass(frozen=True)
class NotLanded:
    """Answer of a verify hook: the effect did not happen."""


@dataclass(frozen=True)
class Unknown:
    """Answer of a verify hook: it cannot tell whether the effect happened.

    Attributes:
        why: Reason, shown to the person who then has to decide.
    """

    why: str = ""


Answer = Landed | NotLanded | Unknown


def interpret_answer(value: object) -> Answer:
    """Return what a verify hook meant by `value`.

    Every hook is asked one question: did this call land? `True` and `False` answer it, and so do the classes
    `Landed`, `NotLanded` and `Unknown` themselves. `True` settles the call although the result is missing: the agent
    is told that the call happened, which is what keeps it from happening twice. Nothing else settles a call: `None` is
    what a hook returns that forgot an answer, and a text may be a result as well as a reason for not knowing.
    """
    if isinstance(value, Landed | NotLanded | Unknown):
        return value
    if value is True or value is Landed:
        return Landed()
    if value is False or value is NotLanded:
        return NotLanded()
    if value is Unknown:
        return Unknown()
    given = "None" if value is None else f"a value of type {type(value).__name__}"
    return Unknown(f"the verify hook returned {given} instead of Landed(result), NotLanded() or Unknown(why)")


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
