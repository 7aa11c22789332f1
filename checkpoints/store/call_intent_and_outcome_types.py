"""Values that are logged about a call before and after it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from checkpoints.enums import (
    LOGGED_EFFECTS,
    CallStatus,
    InterruptReason,
    KeyPolicy,
    KeyScope,
    Risk,
    SideEffect,
    get_default_risk,
)
from checkpoints.exceptions import InvalidArguments, InvalidInput
from checkpoints.formats import digests
from checkpoints.formats.caller_argument_order import encode_argument_order, restore_argument_order_in_json
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.generate_and_validate_ids import validate_id, validate_integer

TOOL_NAME_LENGTH = 200
_KNOWN_EFFECTS = frozenset(SideEffect.values)


@dataclass(frozen=True)
class CallIntent:
    """Intent of a call that is about to be made. `args` is canonical JSON text."""

    call_id: str
    tool: str
    args: str
    key: str
    step: int | None = None
    scope: KeyScope = KeyScope.SESSION
    #: Policy that made `key`; empty if a program gave the key itself.
    policy: KeyPolicy | None = None
    side_effects: frozenset[str] = field(default_factory=lambda: frozenset({SideEffect.MUTATE}))
    #: None if the tool declares none.
    declared_risk: Risk | None = None
    sentence: str = ""
    #: Format string over the arguments that made `sentence`.
    sentence_template: str = ""
    verifiable: bool = False
    requires_approval: bool = False
    approvals: int = 1
    decide_within: timedelta | None = None
    #: Kinds of the decisions that the framework which asks accepts; empty if it accepts all.
    allowed_decisions: tuple[str, ...] = ()
    #: Digest of the arguments it was requested with, if a person has changed them to `args`; else empty.
    asked_args_digest: str = ""
    #: Order in which the caller wrote the arguments, as `ToolCall.args_order` has it.
    args_order: str = ""

    @property
    def args_json_in_caller_order(self) -> str:
        """Arguments as JSON text in the order of the caller."""
        return restore_argument_order_in_json(self.args, self.args_order)

    @property
    def args_digest(self) -> str:
        return digests.digest_text(self.args)

    @property
    def risk(self) -> Risk:
        return self.declared_risk or get_default_risk(self.side_effects)

    @property
    def has_side_effects(self) -> bool:
        return bool(LOGGED_EFFECTS & self.side_effects)


@dataclass(frozen=True)
class IssuedCall:
    """Logged intent: the call may run now."""

    pk: int
    tool: str
    call_id: str
    step: int
    attempt: int
    #: Canonical JSON text of the arguments to run with, if they are a person's decision.
    args: str | None = None


@dataclass(frozen=True)
class CallOutcome:
    """Outcome of a call: completed, failed or interrupted.

    Attributes:
        status: Status that the call gets.
        result: What the agent gets as the answer, as canonical JSON text; None for an interrupted call.
        error_type: Type of the error that the tool raised; empty without one.
        error_message: Message of that error.
        reason: Why it is unknown whether an interrupted call happened.
        value: Value of a completed call as its tool's codec encoded it.
    """

    status: CallStatus
    result: str | None
    error_type: str = ""
    error_message: str = ""
    reason: InterruptReason | str = ""
    value: tuple[str, bytes] | None = None

    @property
    def result_or_error(self) -> str | None:
        """Canonical JSON text of the result, or of the error of a call that has none."""
        if self.result is not None or not self.error_type:
            return self.result
        return to_canonical_json(f"{self.error_type}: {self.error_message}" if self.error_message else self.error_type)


def validate_and_normalize_side_effects(given: Iterable[str]) -> frozenset[str]:
    """Validate one or more of `read`, `write`, `mutate`, also given as a single word. Raises `InvalidInput`."""
    try:
        effects = frozenset([given] if isinstance(given, str) else given)
    except TypeError:
        effects = frozenset()
    unknown = sorted(str(effect) for effect in effects - _KNOWN_EFFECTS)
    if unknown or not effects:
        valid_values = ", ".join(SideEffect.values)
        problem = f"{unknown} are not side effects" if unknown else "No side effect was given"
        raise InvalidInput(f"{problem}. Use one or more of {valid_values}.")
    return effects


def validate_tool_name(name: object) -> str:
    validate_id("tool name", name)
    if len(str(name)) > TOOL_NAME_LENGTH:
        raise InvalidInput(f"The tool name {str(name)[:40]}… is longer than {TOOL_NAME_LENGTH} characters.")
    return str(name)


def require_args_dict(tool: str, args: object) -> None:
    """Raise `InvalidArguments` if the arguments of a call are not a dict, such as the JSON text of a model."""
    if isinstance(args, str | bytes):
        raise InvalidArguments(tool, "they are text, and a dict is wanted; json.loads(…) makes one of JSON text")
    if not isinstance(args, dict):
        raise InvalidArguments(tool, f"a {type(args).__name__} is not a dict of arguments by name")


def validate_and_build_call_intent(
    call_id: str, tool: str, args: dict[str, Any], key: str, *, side_effects: Iterable[str], step: int | None
) -> CallIntent:
    """Build an intent from user input. Raises `InvalidInput` and its subclasses."""
    name = validate_tool_name(tool)
    require_args_dict(name, args)
    return CallIntent(
        call_id=validate_id("call id", call_id),
        tool=name,
        args=to_canonical_json(args, "args"),
        args_order=encode_argument_order(args),
        key=validate_id("idempotency key", key),
        step=None if step is None else validate_integer("step", step),
        side_effects=validate_and_normalize_side_effects(side_effects),
    )
