"""Outcomes of tool calls, and answers of verify hooks."""

from __future__ import annotations

from dataclasses import dataclass, field
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
        value: Value that the tool returned, or its decoded copy. None if the call failed, or if the tool has no codec
            and the call was replayed.
    """

    call_id: str
    content: str
    is_error: bool = False
    replayed: bool = False
    attempt: int = 1
    answered_before: bool = False
    value: Any = field(default=None, compare=False)


#: Result for the agent if the verify hook says that the call landed, but not with what result.
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


def interpret_verify_hook_answer(value: object) -> Answer:
    """Return what a verify hook meant by `value`.

    Every hook is asked one question: did this call land? `True` and `False` answer it, and so do the classes
    `Landed`, `NotLanded` and `Unknown` themselves. `True` settles the call although the result is missing: the agent
    is told that the call happened, which keeps it from repeating it. Nothing else settles a call: `None` is
    returned by a hook that forgot an answer, and a text may be a result as well as a reason for not knowing.
    """
    if isinstance(value, Landed | NotLanded | Unknown):
        return value
    if value is True or value is Landed:
        return Landed()
    if value is False or value is NotLanded:
        return NotLanded()
    if value is Unknown:
        return Unknown()
    type_name = "None" if value is None else f"a value of type {type(value).__name__}"
    return Unknown(f"the verify hook returned {type_name} instead of Landed(result), NotLanded() or Unknown(why)")
