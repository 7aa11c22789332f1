"""Idempotency keys: which calls are the same operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from checkpoints.enums import KeyPolicy, KeyScope
from checkpoints.exceptions import InvalidArguments, InvalidInput
from checkpoints.serde import digests

#: `once`: the same tool with the same arguments is one operation. `unanswered`: it is one until a saved version has its
#: result; after that the same call is a new operation. `call`: each call is an operation of its own. A function of the
#: arguments gives the key itself, for vendors that have one.
Policy = Literal["once", "unanswered", "call"] | Callable[[dict[str, Any]], str]
_NAMED = frozenset({KeyPolicy.ONCE, KeyPolicy.UNANSWERED, KeyPolicy.CALL})


def checked_policy(policy: object, scope: KeyScope = KeyScope.SESSION) -> Policy:
    """`policy`, where it is one that a tool of `scope` can have. Raises `InvalidInput`."""
    if policy == "args":
        raise InvalidInput("The idempotency policy 'args' is called 'once'. Use 'once'.")
    if not callable(policy) and not (isinstance(policy, str) and policy in _NAMED):
        raise InvalidInput(
            f"{policy!r} is not an idempotency policy. Use 'once', 'unanswered', 'call', or a function of the args."
        )
    if policy == "unanswered" and scope == KeyScope.WORKSPACE:
        raise InvalidInput(
            "The idempotency policy 'unanswered' looks at the transcript of one session, so it cannot have the scope "
            "'workspace'. Use 'once', or a function of the args."
        )
    return policy  # type: ignore[return-value]


def policy_name(policy: Policy) -> KeyPolicy:
    """What the call log says of `policy`."""
    return KeyPolicy.FUNCTION if callable(policy) else KeyPolicy(policy)


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

    `key_space` stands for the session and its forks. A call by the policy `unanswered` has a key that depends on what
    is logged already: see `unanswered_key`.

    Raises `NotRepresentable` for arguments without an exact JSON form, and `InvalidInput` where a key function
    returns no text.
    """
    place = [workspace] if scope == KeyScope.WORKSPACE else [workspace, key_space]
    if policy == "once":
        return digests.key_digest("args", place, tool, args)
    if policy == "call":
        return digests.key_digest("call", place, tool, args, call_id, step)
    if not callable(policy):
        raise InvalidInput(f"{policy!r} does not say by itself which key a call has.")
    try:
        own: object = policy(args)
    except Exception as error:
        raise InvalidArguments(tool, f"its idempotency function raised {type(error).__name__}: {error}") from error
    if not isinstance(own, str) or not own:
        raise InvalidInput(f"The idempotency function of {tool!r} returned {own!r}; it has to return a text.")
    return digests.key_digest("own", place, tool, own)


def unanswered_key(
    *, workspace: str, key_space: str, session: int, tool: str, args: dict[str, Any], step: int, number: int
) -> str:
    """The key of a new operation by the policy `unanswered`: the `number`-th of its tool and arguments, from 0, that
    was issued in `step` of a session.

    The operations that a fork inherits keep their keys. `session`, the key of the session's row, keeps new ones apart.
    """
    return digests.key_digest("unanswered", [workspace, key_space], session, tool, args, step, number)
