"""Requested steps of a workflow: a function, its arguments, a version."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from checkpoints.exceptions import InvalidArguments
from checkpoints.formats import digests
from checkpoints.formats.canonical_json import parse_json, to_canonical_json
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.store.call_intent_and_outcome_types import TOOL_NAME_LENGTH
from checkpoints.tools.tool import Tool


@dataclass(frozen=True)
class StepRequest:
    """Requested step. `args` is the canonical JSON text of the arguments by name."""

    step_id: str
    tool: Tool
    args: str
    version: str

    @property
    def args_digest(self) -> str:
        return digests.digest_text(self.args)


@dataclass(frozen=True)
class BoundStepRequest(StepRequest):
    """Requested step with the arguments that its function gets."""

    bound: inspect.BoundArguments

    @classmethod
    def from_arguments(
        cls,
        step_id: str,
        function: Callable[..., Any] | Tool,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        version: object,
    ) -> BoundStepRequest:
        """Build a request. Raises `InvalidIdentifier`, `InvalidArguments`, `NotRepresentable`, `TooLarge`."""
        tool = function if isinstance(function, Tool) else Tool(_get_function_name(function), function)
        try:
            bound_args = _get_signature_or_catch_all(tool.run).bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidArguments(tool.name, str(error)) from None
        return cls(
            validate_id("step id", step_id),
            tool,
            to_canonical_json(dict(bound_args.arguments), "args"),
            validate_id("version", str(version)),
            bound_args,
        )

    def build_callable_with_bound_args(self, changed_args: str | None = None) -> Callable[[], Any]:
        """Bind the function to its arguments, or to those that a person changed them to."""
        bound_args = (
            self.bound
            if changed_args in {None, self.args}
            else self._bind_args_changed_by_person(parse_json(changed_args or "{}"))
        )
        return partial(self.tool.run, *bound_args.args, **bound_args.kwargs)

    def _bind_args_changed_by_person(self, args: dict[str, Any]) -> inspect.BoundArguments:
        signature = self.bound.signature
        known_args = {name: args[name] for name in signature.parameters if name in args}
        if known_args.keys() != args.keys():
            raise InvalidArguments(self.tool.name, f"it takes {', '.join(signature.parameters) or 'none'}")
        bound_args = inspect.BoundArguments(signature, known_args)
        try:
            return signature.bind(*bound_args.args, **bound_args.kwargs)
        except TypeError as error:
            raise InvalidArguments(self.tool.name, str(error)) from None


def _get_signature_or_catch_all(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError:  # a function written in C without a signature
        return inspect.Signature(
            [
                inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
                inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
            ]
        )


def _get_function_name(function: Callable[..., Any]) -> str:
    while isinstance(function, partial):
        function = function.func
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return name.rpartition("<locals>.")[2][-TOOL_NAME_LENGTH:]
