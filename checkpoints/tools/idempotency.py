"""Idempotency keys, which tell the calls that are the same operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from checkpoints.enums import KeyPolicy, KeyScope
from checkpoints.exceptions import InvalidArguments, InvalidInput
from checkpoints.formats import digests

#: `once`: the same tool with the same arguments is one operation. `unanswered`: it is one until a saved version has its
#: result; after that the same call is a new operation. `call`: each call is an operation of its own. A function of the
#: arguments gives the key itself, for vendors that have one.
IdempotencyPolicy = Literal["once", "unanswered", "call"] | Callable[[dict[str, Any]], str]
_NAMED_POLICIES = frozenset({KeyPolicy.ONCE, KeyPolicy.UNANSWERED, KeyPolicy.CALL})


def validate_idempotency_policy(policy: object, scope: KeyScope = KeyScope.SESSION) -> IdempotencyPolicy:
    """Return `policy` if a tool of `scope` can have it. Raises `InvalidInput`."""
    if policy == "args":
        raise InvalidInput("The idempotency policy 'args' is called 'once'. Use 'once'.")
    if not callable(policy) and not (isinstance(policy, str) and policy in _NAMED_POLICIES):
        raise InvalidInput(
            f"{policy!r} is not an idempotency policy. Use 'once', 'unanswered', 'call', or a function of the args."
        )
    if policy == "unanswered" and scope == KeyScope.WORKSPACE:
        raise InvalidInput(
            "The idempotency policy 'unanswered' looks at the transcript of one session, so it cannot have the scope "
            "'workspace'. Use 'once', or a function of the args."
        )
    return policy  # type: ignore[return-value]


def get_policy_name(policy: IdempotencyPolicy) -> KeyPolicy:
    """Return the name of `policy` in the call log."""
    return KeyPolicy.FUNCTION if callable(policy) else KeyPolicy(policy)


def make_idempotency_key(
    policy: IdempotencyPolicy,
    scope: KeyScope,
    *,
    workspace: str,
    key_space: str,
    tool: str,
    args: dict[str, Any],
    call_id: str,
    step: int | None,
) -> str:
    """Make the key of one call: a digest of an encoding that keeps the borders and types of its parts.

    `key_space` stands for the session and its forks. A call by the policy `unanswered` has a key that depends on the
    logged calls: see `make_key_by_unanswered_policy`.

    Raises `NotRepresentable` for arguments without an exact JSON form, and `InvalidInput` if a key function
    returns no text.
    """
    scope_parts = [workspace] if scope == KeyScope.WORKSPACE else [workspace, key_space]
    if policy == "once":
        return digests.digest_key_parts("args", scope_parts, tool, args)
    if policy == "call":
        return digests.digest_key_parts("call", scope_parts, tool, args, call_id, step)
    if not callable(policy):
        raise InvalidInput(f"{policy!r} does not say by itself which key a call has.")
    return digests.digest_key_parts("own", scope_parts, tool, compute_key_with_function(policy, tool, args))


def compute_key_with_function(policy: Callable[[dict[str, Any]], str], tool: str, args: dict[str, Any]) -> str:
    """Call the function that gives the key of a tool's call. Raises `InvalidArguments`, `InvalidInput`."""
    try:
        user_key: object = policy(args)
    except Exception as error:
        raise InvalidArguments(tool, f"its idempotency function raised {type(error).__name__}: {error}") from error
    if not isinstance(user_key, str) or not user_key:
        raise InvalidInput(f"The idempotency function of {tool!r} returned {user_key!r}; it has to return a text.")
    return user_key


def make_key_by_unanswered_policy(
    *, workspace: str, key_space: str, session: int, tool: str, args: dict[str, Any], step: int, number: int
) -> str:
    """Make the key of a new operation by the policy `unanswered`.

    It is the `number`-th of its tool and arguments, from 0, that was issued in `step` of a session. The operations
    that a fork inherits keep their keys. `session`, the key of the session's row, keeps new ones apart.
    """
    return digests.digest_key_parts("unanswered", [workspace, key_space], session, tool, args, step, number)
