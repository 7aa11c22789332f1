"""Idempotency keys: which calls are the same operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from checkpoints.enums import KeyScope
from checkpoints.exceptions import InvalidArguments, InvalidInput
from checkpoints.serde import digests

#: `args`: the same tool with the same arguments is one operation. `call`: each call is an operation of its own.
#: A function of the arguments gives the key itself, for vendors that have one.
Policy = Literal["args", "call"] | Callable[[dict[str, Any]], str]


def key_for(
    policy: Policy,
    scope: KeyScope,
    *,
    workspace: str,
    key_space: str,
    tool: str,
    args: dict[str, Any],
    call_id: str,
    step: int | None,
) -> str:
    """The key of one call: a digest of an encoding that keeps the borders and types of its parts.

    `key_space` stands for the session and its forks.

    Raises `NotRepresentable` for arguments without an exact JSON form, and `InvalidInput` where a key function
    returns no text.
    """
    place = [workspace] if scope == KeyScope.WORKSPACE else [workspace, key_space]
    if policy == "args":
        return digests.key_digest("args", place, tool, args)
    if policy == "call":
        return digests.key_digest("call", place, tool, args, call_id, step)
    if not callable(policy):
        raise InvalidInput(f"{policy!r} is not an idempotency policy. Use 'args', 'call', or a function of the args.")
    try:
        own: object = policy(args)
    except Exception as error:
        raise InvalidArguments(tool, f"its idempotency function raised {type(error).__name__}: {error}") from error
    if not isinstance(own, str) or not own:
        raise InvalidInput(f"The idempotency function of {tool!r} returned {own!r}; it has to return a text.")
    return digests.key_digest("own", place, tool, own)
