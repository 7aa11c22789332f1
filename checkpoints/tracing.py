"""Spans of OpenTelemetry for saves, calls, resumes with their waits, and decisions.

They are made in a program that has imported `opentelemetry.trace`, as every program does that configures its SDK. In
other programs nothing is imported, and nothing is done. A span has no text of a session.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")

SAVE: Final = "harness.save"
RESUME: Final = "harness.resume"
DECIDE: Final = "harness.decide"

SESSION: Final = "gen_ai.conversation.id"
OPERATION: Final = "gen_ai.operation.name"
TOOL: Final = "gen_ai.tool.name"
CALL: Final = "gen_ai.tool.call.id"


class OpenSpan:
    """Span that has begun, or nothing where no spans are made."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def set_attributes(self, attributes: Mapping[str, str | int | bool]) -> None:
        """Add attributes."""
        if self._span is not None:
            self._span.set_attributes(dict(attributes))


_NO_SPAN: Final = OpenSpan()


@contextmanager
def open_span(name: str, attributes: Mapping[str, str | int | bool]) -> Iterator[OpenSpan]:
    """Open a span while the context lasts. An error of the context is the status of the span.

    The span is a child of the current one. It does not become the current one itself, because flows are suspended.

    Args:
        name: Name of the span.
        attributes: Attributes that are known at its start.

    Yields:
        The span.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        yield _NO_SPAN
        return
    span = trace.get_tracer("checkpoints").start_span(name, attributes=dict(attributes))
    try:
        yield OpenSpan(span)
    except Exception as error:
        span.set_attribute("error.type", type(error).__name__)
        span.set_status(trace.Status(trace.StatusCode.ERROR, type(error).__name__))
        raise
    finally:
        span.end()


def trace_session_function(
    name: str,
) -> Callable[[Callable[Concatenate[S, str, P], T]], Callable[Concatenate[S, str, P], T]]:
    """Decorate a function whose second argument is a session id, so that each call is a span."""

    def trace_function(function: Callable[Concatenate[S, str, P], T]) -> Callable[Concatenate[S, str, P], T]:
        @wraps(function)
        def call_function_in_span(first: S, session_id: str, /, *args: P.args, **options: P.kwargs) -> T:
            with open_span(name, {SESSION: str(session_id)}):
                return function(first, session_id, *args, **options)

        return call_function_in_span

    return trace_function


Y = TypeVar("Y")
_Flow = Callable[Concatenate[S, str, P], Generator[Y, Any, T]]


def trace_session_flow(name: str) -> Callable[[_Flow[S, P, Y, T]], _Flow[S, P, Y, T]]:
    """Decorate a flow whose second argument is a session id, so that each run of it is a span."""

    def trace_flow(flow: _Flow[S, P, Y, T]) -> _Flow[S, P, Y, T]:
        @wraps(flow)
        def run_flow_in_span(first: S, session_id: str, /, *args: P.args, **options: P.kwargs) -> Generator[Y, Any, T]:
            with open_span(name, {SESSION: str(session_id)}):
                return (yield from flow(first, session_id, *args, **options))

        return run_flow_in_span

    return trace_flow
