"""What is logged about a call before it runs and after."""

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
    usual_risk,
)
from checkpoints.exceptions import InvalidArguments, InvalidInput
from checkpoints.ids import checked, checked_number
from checkpoints.serde import digests
from checkpoints.serde.canonical import canonical

TOOL_NAME_LENGTH = 200
_EFFECTS = frozenset(SideEffect.values)


@dataclass(frozen=True)
class Intent:
    """A call about to be made. `args` is canonical JSON text."""

    call_id: str
    tool: str
    args: str
    key: str
    step: int | None = None
    scope: KeyScope = KeyScope.SESSION
    #: The rule that made `key`; empty where a program gave the key itself.
    policy: KeyPolicy | None = None
    side_effects: frozenset[str] = field(default_factory=lambda: frozenset({SideEffect.MUTATE}))
    #: None where the tool declares none.
    declared_risk: Risk | None = None
    sentence: str = ""
    verifiable: bool = False
    requires_approval: bool = False
    approvals: int = 1
    decide_within: timedelta | None = None
    #: Digest of the arguments it was asked with, where `args` are others that a person has chosen; else empty.
    asked_args_digest: str = ""

    @property
    def args_digest(self) -> str:
        return digests.text_digest(self.args)

    @property
    def risk(self) -> Risk:
        return self.declared_risk or usual_risk(self.side_effects)

    @property
    def mutates(self) -> bool:
        return bool(LOGGED_EFFECTS & self.side_effects)


@dataclass(frozen=True)
class Issued:
    """A logged intent: the call may run now."""

    pk: int
    call_id: str
    step: int
    attempt: int
    #: Canonical JSON text of the arguments to run with, where they are a person's decision.
    args: str | None = None


@dataclass(frozen=True)
class Outcome:
    """How a call ended: completed, failed or interrupted. `result` is canonical JSON text."""

    status: CallStatus
    result: str | None
    error_type: str = ""
    reason: InterruptReason | str = ""


def checked_effects(given: Iterable[str]) -> frozenset[str]:
    """One or more of `read`, `write`, `mutate`, also as a single word. Raises `InvalidInput`."""
    try:
        effects = frozenset([given] if isinstance(given, str) else given)
    except TypeError:
        effects = frozenset()
    unknown = sorted(str(effect) for effect in effects - _EFFECTS)
    if unknown or not effects:
        known = ", ".join(SideEffect.values)
        said = f"{unknown} are not side effects" if unknown else "No side effect was given"
        raise InvalidInput(f"{said}. Use one or more of {known}.")
    return effects


def checked_tool_name(name: object) -> str:
    checked("tool name", name)
    if len(str(name)) > TOOL_NAME_LENGTH:
        raise InvalidInput(f"The tool name {str(name)[:40]}… is longer than {TOOL_NAME_LENGTH} characters.")
    return str(name)


def require_argument_dict(tool: str, args: object) -> None:
    """Raise `InvalidArguments` where the arguments of a call are not a dict, such as the JSON text of a model."""
    if isinstance(args, str | bytes):
        raise InvalidArguments(tool, "they are text, and a dict is wanted; json.loads(…) makes one of JSON text")
    if not isinstance(args, dict):
        raise InvalidArguments(tool, f"a {type(args).__name__} is not a dict of arguments by name")


def intent(
    call_id: str, tool: str, args: dict[str, Any], key: str, *, side_effects: Iterable[str], step: int | None
) -> Intent:
    """An intent from what users give. Raises `InvalidInput` and its kinds."""
    name = checked_tool_name(tool)
    require_argument_dict(name, args)
    return Intent(
        call_id=checked("call id", call_id),
        tool=name,
        args=canonical(args, "args"),
        key=checked("idempotency key", key),
        step=None if step is None else checked_number("step", step),
        side_effects=checked_effects(side_effects),
    )
