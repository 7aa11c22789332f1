from collections.abc import Callable
from typing import Any

import pytest

from checkpoints.enums import KeyScope
from checkpoints.exceptions import InvalidInput, NotRepresentable
from checkpoints.tools.idempotency import IdempotencyPolicy, make_idempotency_key

PLACE: dict[str, Any] = {"workspace": "w", "key_space": "s", "tool": "t", "call_id": "call_1", "step": 1}


def key(policy: IdempotencyPolicy = "once", scope: KeyScope = KeyScope.SESSION, **changed: Any) -> str:
    return make_idempotency_key(policy, scope, **({"args": {"a": 1}} | PLACE | changed))


def by_order(args: dict[str, Any]) -> str:
    return str(args["order"])


def test_key_by_args_ignores_the_call_id() -> None:
    assert key(call_id="call_2", step=7) == key()


@pytest.mark.parametrize(
    "changed",
    [
        {"args": {"a": 2}},
        {"args": {"a": "1"}},
        {"args": {"a": 1.0}},
        {"args": {"a": True}},
        {"args": {}},
        {"tool": "u"},
        {"key_space": "s2"},
        {"workspace": "w2"},
    ],
    ids=repr,
)
def test_key_by_args_depends_on(changed: dict[str, Any]) -> None:
    assert key(**changed) != key()


def test_key_by_args_distinguishes_session_and_tool() -> None:
    assert key(key_space="a:b", tool="c") != key(key_space="a", tool="b:c")
    assert key(key_space="ab", tool="c") != key(key_space="a", tool="bc")


@pytest.mark.parametrize("changed", [{"call_id": "call_2"}, {"step": 2}, {"args": {"a": 2}}], ids=repr)
def test_key_by_call_depends_on(changed: dict[str, Any]) -> None:
    assert key("call", **changed) != key("call")


@pytest.mark.parametrize("policy", ["once", "call", lambda args: "own"], ids=["once", "call", "function"])
def test_workspace_key_is_the_same_in_every_session(policy: IdempotencyPolicy) -> None:
    assert key(policy, KeyScope.WORKSPACE, key_space="other") == key(policy, KeyScope.WORKSPACE)
    assert key(policy, KeyScope.WORKSPACE, workspace="other") != key(policy, KeyScope.WORKSPACE)
    assert key(policy, KeyScope.WORKSPACE) != key(policy, KeyScope.SESSION)


def test_custom_key_is_derived_from_the_function_result() -> None:
    same = key(by_order, args={"order": 17, "note": "first"})

    assert key(by_order, args={"order": 17, "note": "second"}) == same
    assert key(by_order, args={"order": 18, "note": "first"}) != same


def test_custom_key_never_equals_a_key_by_args() -> None:
    assert key(lambda args: '{"a":1}') != key()


@pytest.mark.parametrize("returned", [None, "", 17, b"key", ["key"]], ids=repr)
def test_custom_key_that_is_not_a_string_is_refused(returned: Any) -> None:
    function: Callable[[dict[str, Any]], Any] = lambda args: returned  # noqa: E731
    with pytest.raises(InvalidInput):
        key(function)


def test_unknown_policy_is_refused() -> None:
    with pytest.raises(InvalidInput):
        key("arguments")  # type: ignore[arg-type]


def test_arguments_without_a_json_form_are_refused() -> None:
    with pytest.raises(NotRepresentable):
        key(args={"a": {1, 2}})
