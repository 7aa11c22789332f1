"""Tool: a function that an agent may call, with what has to be known about it to call it safely."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, TypedDict, Unpack, overload

from checkpoints.calls.ambiguous_errors import AmbiguousErrors, is_outcome_unknown
from checkpoints.calls.sentence_templates import format_sentence
from checkpoints.calls.tool_result_and_verify_answer_types import Answer
from checkpoints.calls.value_codec import ValueCodec
from checkpoints.enums import LOGGED_EFFECTS, KeyScope, Risk, SideEffect
from checkpoints.exceptions import InvalidArguments, InvalidInput
from checkpoints.generate_and_validate_ids import validate_integer
from checkpoints.store.call_intent_and_outcome_types import validate_and_normalize_side_effects, validate_tool_name
from checkpoints.tools.idempotency import IdempotencyPolicy, validate_idempotency_policy

VerifyHook = Callable[[dict[str, Any]], Answer | Awaitable[Answer]]


@dataclass(frozen=True)
class Tool:
    """Function an agent may call, with what has to be known about it to call it safely.

    Attributes:
        name: Name of the tool, for the model and the log.
        run: The function, sync or async.
        description: Description for the model.
        side_effects: Any of `read` (not logged), `write` and `mutate` (logged before they run).
        verify: Verify hook: gets the arguments of an interrupted call as one dict, by position, and returns
            `Landed(result)`, `NotLanded()` or `Unknown(why)`; what else counts says
            `tool_result_and_verify_answer_types.interpret_verify_hook_answer`.
        idempotency: Policy that says which calls are the same operation. None: that of the registry.
        scope: Scope in which they are the same operation: session or workspace.
        requires_approval: Whether each call waits for a person before it runs.
        approvals: Number of different people who have to agree on every decision about a call.
        decide_within: Time in seconds for a decision; afterwards only an admin may decide. None: no deadline.
        ambiguous_errors: Exception types, or a function of the exception, that leave the effect unknown.
        timeout: Longest run time in seconds. None: no limit.
        sentence: Format string over the arguments that says what a call does, for the person who decides. A field of
            one element of a list, such as `{to[0]}`, also says how many more there are.
        risk: Risk people sort by. None: derived from the side effects (`enums.get_default_risk`).
        codec: Encoder of the values that the tool returns, so that a replayed value equals the first one. None: only
            the text for the model is stored.
        continues_open_calls: Whether a call by the policy `call` keeps its key in a later step, until a saved version
            has its result. Adapters and `guard` need it: a framework saves while a call waits for a person.

    Raises:
        InvalidInput: The function is a generator, or the verify hook cannot be called with one positional argument.
    """

    name: str
    run: Callable[..., Any]
    description: str = ""
    side_effects: frozenset[str] = frozenset({SideEffect.MUTATE})
    verify: VerifyHook | None = None
    idempotency: IdempotencyPolicy | None = None
    scope: KeyScope = KeyScope.SESSION
    requires_approval: bool = False
    approvals: int = 1
    decide_within: float | None = None
    ambiguous_errors: AmbiguousErrors = is_outcome_unknown
    timeout: float | None = None
    sentence: str = ""
    risk: Risk | None = None
    codec: ValueCodec | None = None
    continues_open_calls: bool = False

    def __post_init__(self) -> None:
        """Check the function and the verify hook."""
        if _is_generator_function(self.run):
            raise InvalidInput(
                f"The function of the tool {self.name!r} is a generator: a call of it runs nothing. Return what it "
                "yields, as a list or as text."
            )
        if self.verify is not None:
            require_callable_verify_hook(self.name, self.verify)

    @property
    def logged(self) -> bool:
        """Whether calls of the tool are logged before they run."""
        return bool(LOGGED_EFFECTS & self.side_effects)

    def leaves_outcome_unknown(self, error: BaseException) -> bool:
        """Return whether an error leaves it open if the effect happened. What stops a process always does.

        Args:
            error: Exception the tool raised.

        Returns:
            Whether the effect is unknown.
        """
        if not isinstance(error, Exception):
            return True
        if not callable(self.ambiguous_errors):
            return isinstance(error, self.ambiguous_errors)
        try:
            return bool(self.ambiguous_errors(error))
        except Exception:  # a failed check does not prove that nothing happened
            return True

    def bind_arguments(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Convert and check arguments against the signature of the function.

        Args:
            args: Arguments of a call, by name.

        Returns:
            The arguments as the function takes them.

        Raises:
            InvalidArguments: They do not fit the signature.
        """
        try:
            _get_signature(self.run).bind(**args)
        except TypeError as error:
            raise InvalidArguments(self.name, str(error)) from None
        hints = _get_type_hints(self.run)
        return {name: self._check_or_convert_argument(name, value, hints.get(name)) for name, value in args.items()}

    def _check_or_convert_argument(self, name: str, value: Any, kind: Any) -> Any:
        if kind is Decimal:
            return self._convert_to_decimal(name, value)
        if kind in (int, str, bool, float) and not _is_strict_instance(value, kind):
            raise InvalidArguments(self.name, f"{name}={value!r} is not of type {kind.__name__}")
        return value

    def _convert_to_decimal(self, name: str, value: Any) -> Decimal:
        try:
            number = Decimal(str(value)) if type(value) in (str, int, float, Decimal) else Decimal("NaN")
        except InvalidOperation:
            number = Decimal("NaN")
        if not number.is_finite():
            raise InvalidArguments(self.name, f"{name}={value!r} is not a decimal number")
        return number

    def describe_call(self, args: Mapping[str, Any]) -> str:
        """Format the sentence that says what a call does.

        Args:
            args: Arguments of the call.

        Returns:
            The sentence; empty where the tool has none that fits.
        """
        try:
            return format_sentence(self.sentence, args)
        except Exception:  # a user's format string; without it the page builds a sentence
            return ""


def _is_generator_function(function: Callable[..., Any]) -> bool:
    call = getattr(function, "__call__", function)  # noqa: B004 - the method of a callable object
    return any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in (function, call))


def require_callable_verify_hook(tool: str, hook: object) -> None:
    """Raise `InvalidInput` if `hook` cannot be called with the arguments of a call as one positional argument.

    Further parameters need defaults. A callable without a signature, such as some written in C, is accepted.
    """
    if not callable(hook):
        raise InvalidInput(f"The verify hook of {tool!r} is of type {type(hook).__name__}, which cannot be called.")
    try:
        signature = inspect.signature(hook)
    except (ValueError, TypeError):
        return
    try:
        signature.bind({})
    except TypeError as error:
        raise InvalidInput(
            f"The verify hook of {tool!r} has the signature {signature}. It is called with the arguments of the call, "
            f"a dict, as its one positional argument: {error}."
        ) from None


def _is_strict_instance(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


@cache
def _get_signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


@cache
def _get_type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError):
        return {}


class ToolOptions(TypedDict, total=False):
    """Options of a tool, with the defaults of `Tool`; `name` defaults to the function's own."""

    name: str
    side_effects: Iterable[str]
    verify: VerifyHook | None
    idempotency: IdempotencyPolicy | None
    scope: str
    requires_approval: bool
    approvals: int
    decide_within: float | None
    ambiguous_errors: AmbiguousErrors
    timeout: float | None
    sentence: str
    risk: str | None
    codec: ValueCodec | None


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a `Tool` of a function: `@tool` or `@tool(side_effects={"read"})`.

    Args:
        function: The function, sync or async. None: return a decorator.
        options: Fields of `Tool`; `name` is the function's own where it is left out.

    Returns:
        The tool, or a decorator that makes one.

    Raises:
        InvalidInput: An option cannot be used.
    """

    def make_tool_of_function(run: Callable[..., Any]) -> Tool:
        return make_tool(run, options)

    return make_tool_of_function if function is None else make_tool_of_function(function)


def make_tool(run: Callable[..., Any], options: ToolOptions) -> Tool:
    """Make a tool of a function. Raises `InvalidInput`."""
    values = {"name": getattr(run, "__name__", None), **options}
    if values["name"] is None:
        raise InvalidInput(f"A {type(run).__name__} has no name of its own. Give the tool one: name=….")
    name = validate_tool_name(values.pop("name"))
    effects = validate_and_normalize_side_effects(options.get("side_effects", (SideEffect.MUTATE,)))
    validate_integer("approvals", options.get("approvals", 1), minimum=1)
    within = options.get("decide_within")
    if within is not None and not within > 0:
        raise InvalidInput(f"decide_within is {within!r}; it has to be a number of seconds above 0.")
    scope, policy = _parse_key_scope(options.get("scope", KeyScope.SESSION)), options.get("idempotency")
    if policy is not None:
        validate_idempotency_policy(policy, scope)
    values |= {"side_effects": effects, "scope": scope}
    values["risk"] = _parse_risk(options.get("risk"))
    try:
        return Tool(name=name, run=run, description=inspect.getdoc(run) or "", **values)  # type: ignore[arg-type]
    except TypeError as error:
        raise InvalidInput(f"The tool {name!r} cannot be made: {error}.") from None


def _parse_key_scope(text: str) -> KeyScope:
    try:
        return KeyScope(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is not a scope. Use 'session' or 'workspace'.") from None


def _parse_risk(text: str | None) -> Risk | None:
    try:
        return None if text is None else Risk(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is not a risk. Use 'low', 'medium' or 'high'.") from None
