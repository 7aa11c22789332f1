"""Policies of the guarded tools, by patterns of their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal, cast

from checkpoints.enums import SideEffect

GuardIdempotency = Literal["once", "unanswered", "call"]

_SIDE_EFFECTS: Final = frozenset({SideEffect.READ, SideEffect.WRITE, SideEffect.MUTATE})
_IDEMPOTENCY: Final = frozenset({"once", "unanswered", "call"})
_APPROVAL: Final = "approval"


@dataclass(frozen=True)
class ToolPolicy:
    """How the calls of a tool are guarded.

    Attributes:
        side_effect: `read` (forwarded, not logged), `write` or `mutate` (logged before they are forwarded).
        requires_approval: Whether each call waits for a person before it is forwarded.
        idempotency: Policy that says which calls are the same operation.
    """

    side_effect: str = SideEffect.MUTATE
    requires_approval: bool = False
    idempotency: GuardIdempotency = "unanswered"

    @property
    def is_logged(self) -> bool:
        """Whether the calls of the tool are logged."""
        return self.side_effect != SideEffect.READ


#: Policy of a tool that no pattern matches.
UNKNOWN_TOOL: Final = ToolPolicy()


@dataclass(frozen=True)
class ToolPolicies:
    """Policies by patterns of tool names. The first pattern that matches counts."""

    patterns: tuple[tuple[str, ToolPolicy], ...] = ()

    def get_policy_or_default(self, tool: str) -> ToolPolicy:
        """Return the policy of a tool: that of the first pattern that matches, or else `mutate`."""
        return next((policy for pattern, policy in self.patterns if fnmatchcase(tool, pattern)), UNKNOWN_TOOL)


def parse_policies(lines: Sequence[str]) -> ToolPolicies:
    """Parse lines such as `send_*: mutate + approval`. Empty lines and lines that begin with `#` are skipped.

    Args:
        lines: Lines, each with a pattern of `fnmatch`, a colon, and words joined by `+`: a side effect (`read`,
            `write`, `mutate`), `approval`, and an idempotency policy (`once`, `unanswered`, `call`).

    Returns:
        The policies, in the order of the lines.

    Raises:
        ValueError: A line cannot be read.
    """
    stripped = [line.strip() for line in lines]
    return ToolPolicies(tuple(_parse_policy_line(line) for line in stripped if line and not line.startswith("#")))


def _parse_policy_line(line: str) -> tuple[str, ToolPolicy]:
    pattern, colon, text = line.rpartition(":")
    words = [word.strip() for word in text.split("+")]
    effects = [word for word in words if word in _SIDE_EFFECTS]
    policies = [word for word in words if word in _IDEMPOTENCY]
    known = len(effects) + len(policies) + words.count(_APPROVAL)
    if not colon or not pattern.strip() or known != len(words) or max(map(words.count, words)) > 1:
        raise ValueError(f"{line!r} is not a policy. An example is 'send_*: mutate + approval'.")
    if len(effects) > 1 or len(policies) > 1:
        raise ValueError(f"{line!r} names two side effects or two idempotency policies.")
    if effects == [SideEffect.READ] and len(words) > 1:
        raise ValueError(f"{line!r} cannot be: calls that only read are neither logged nor held.")
    return pattern.strip(), ToolPolicy(
        side_effect=effects[0] if effects else SideEffect.MUTATE,
        requires_approval=_APPROVAL in words,
        idempotency=cast("GuardIdempotency", policies[0] if policies else UNKNOWN_TOOL.idempotency),
    )
