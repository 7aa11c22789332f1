import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from checkpoints import Tool, ToolRegistry, ToolResult, tool
from checkpoints.calls.sentence_templates import format_sentence_if_harmless
from checkpoints.calls.tool_result_and_verify_answer_types import NotLanded, Unknown
from checkpoints.exceptions import InvalidArguments, InvalidIdentifier, InvalidInput, RegistryNotBound


def pay(order: int, amount: Decimal, note: str = "", express: bool = False, rate: float = 1.0) -> str:
    """Pay an order."""
    return f"{order} {amount} {note} {express} {rate}"


def anything(*args: Any, **kwargs: Any) -> str:
    return f"{args} {kwargs}"


def test_tool_takes_name_and_description_from_its_function() -> None:
    made: Tool = tool(pay)

    assert (made.name, made.description, made.logged) == ("pay", "Pay an order.", True)


@pytest.mark.parametrize(
    ("effects", "logged"),
    [
        ({"read"}, False),
        ("read", False),
        ({"write"}, True),
        (["mutate"], True),
        ("mutate", True),
        (("read", "write"), True),
    ],
    ids=repr,
)
def test_tool_with_side_effects_is_logged(effects: Any, logged: bool) -> None:
    made: Tool = tool(side_effects=effects)(pay)

    assert made.logged is logged


@pytest.mark.parametrize("effects", [set(), {"mutates"}, ("read", "delete"), "", "MUTATE"], ids=repr)
def test_unknown_side_effects_are_refused(effects: Any) -> None:
    with pytest.raises(InvalidInput):
        tool(side_effects=effects)(pay)


def yield_pages(order: int) -> Iterator[str]:
    yield f"page of {order}"


async def yield_pages_async(order: int) -> AsyncIterator[str]:
    yield f"page of {order}"


class PageSource:
    def __call__(self, order: int) -> Iterator[str]:
        yield f"page of {order}"


@pytest.mark.parametrize(
    "function",
    [yield_pages, yield_pages_async, PageSource(), partial(yield_pages, 17)],
    ids=["sync", "async", "object", "partial"],
)
def test_generator_is_no_tool_because_a_call_of_it_runs_nothing(function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInput, match="is a generator: a call of it runs nothing"):
        tool(name="pages")(function)


def test_callable_without_a_name_needs_one() -> None:
    nameless = partial(anything, "lamp")

    assert tool(name="buy")(nameless).name == "buy"
    with pytest.raises(InvalidInput, match="A partial has no name of its own"):
        tool(nameless)


def test_unknown_scope_is_refused() -> None:
    with pytest.raises(InvalidInput):
        tool(scope="world")(pay)


def test_arguments_are_bound_to_the_function_parameters() -> None:
    made: Tool = tool(pay)

    assert made.bind_arguments({"order": 17, "amount": "40.10"}) == {"order": 17, "amount": Decimal("40.10")}
    assert made.bind_arguments({"order": 17, "amount": 40, "rate": 2}) == {
        "order": 17,
        "amount": Decimal(40),
        "rate": 2,
    }
    assert made.bind_arguments({"order": 1, "amount": 0.1})["amount"] == Decimal("0.1")


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"order": 17},
        {"order": 17, "amount": "40", "colour": "red"},
        {"order": "17", "amount": "40"},
        {"order": 17.0, "amount": "40"},
        {"order": True, "amount": "40"},
        {"order": 17, "amount": "forty"},
        {"order": 17, "amount": True},
        {"order": 17, "amount": "NaN"},
        {"order": 17, "amount": "Infinity"},
        {"order": 17, "amount": "40", "note": 5},
        {"order": 17, "amount": "40", "express": 1},
        {"order": 17, "amount": "40", "rate": "fast"},
        {1: 17, "amount": "40"},
        ["order", 17],
        None,
        "order=17",
    ],
    ids=repr,
)
def test_invalid_arguments_are_refused(args: Any) -> None:
    with pytest.raises(InvalidArguments):
        tool(pay).bind_arguments(args)


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("Pay order {order}", "Pay order 17"),
        ("Delete {count:,} rows", "Delete 1,204 rows"),
        ("", ""),
        ("Pay {customer}", ""),
        ("Pay {order", ""),
        ("Pay {}", ""),
        ("Pay {items:>10}", ""),
        ("Pay {order.__class__.nothing}", ""),
    ],
)
def test_sentence_is_formatted_and_one_with_unknown_placeholders_is_omitted(sentence: str, said: str) -> None:
    made: Tool = tool(sentence=sentence)(anything)

    assert made.describe_call({"order": 17, "items": [1], "count": 1204}) == said


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("Mail {to[0]} about {subject}", "Mail ann (+3) about {{K}}"),
        ("Mail {to[0]!r:>6}", "Mail  'ann' (+3)"),
        ("Mail {to[0]}: {{dear {to[0]}}}", "Mail ann (+3): {dear ann}"),
        ("Mail {to[0]} and {to[1]}", "Mail ann and bob"),
        ("Mail {to[0]} of {to}", "Mail ann of ['ann', 'bob', 'cem', 'dora']"),
        ("Copy {cc[0]}", "Copy eve"),
        ("Order {lines[0][item]} for {order[id]}", "Order desk (+1) for 17"),
        ("Begin with {subject[0]}", "Begin with {"),
    ],
)
def test_sentence_that_names_one_element_of_a_list_says_how_many_more_there_are(template: str, said: str) -> None:
    made: Tool = tool(sentence=template)(anything)
    args = {
        "to": ["ann", "bob", "cem", "dora"],
        "cc": ["eve"],
        "subject": "{{K}}",
        "lines": [{"item": "desk"}, {"item": "lamp"}],
        "order": {"id": 17},
    }
    assert made.describe_call(args) == said
    if "!r" not in template:
        assert format_sentence_if_harmless(template, args) == said


def test_second_tool_with_the_same_name_is_refused() -> None:
    registry = ToolRegistry([tool(pay)])

    with pytest.raises(InvalidInput):
        registry.add(tool(name="pay")(anything))
    assert list(registry.tools) == ["pay"]


def test_same_tool_may_be_added_twice() -> None:
    made: Tool = tool(pay)
    registry = ToolRegistry({"pay": made})

    assert registry.add(made) is made


def test_decorator_returns_the_function_unchanged() -> None:
    registry = ToolRegistry()

    assert registry.tool(pay) is pay
    assert registry.tool(side_effects={"read"})(anything) is anything
    assert list(registry.tools) == ["pay", "anything"]


def test_hook_is_found_by_tool_name() -> None:
    hook: Callable[[dict[str, Any]], Unknown] = lambda args: Unknown()  # noqa: E731
    registry = ToolRegistry([tool(verify=hook)(pay), tool(anything)])

    assert [registry.get_verify_hook(name) for name in ("pay", "anything", "nothing")] == [hook, None, None]


# without a checkpointer: nothing is logged, and what has side effects is refused unless somebody said so


class Shop:
    """Tool that counts its executions."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def pay(self, order: int) -> str:
        self.paid.append(order)
        return f"paid {order}"


@pytest.mark.parametrize("effects", [["mutate"], ["write"], ["read", "mutate"]], ids=str)
def test_tool_with_side_effects_is_refused_without_a_log(effects: list[str]) -> None:
    shop = Shop()
    registry = ToolRegistry([tool(side_effects=effects)(shop.pay)])

    with pytest.raises(RegistryNotBound) as caught:
        registry.dispatch("pay", {"order": 17}, "c")
    with pytest.raises(RegistryNotBound):
        asyncio.run(registry.adispatch("pay", {"order": 17}, "c"))
    assert shop.paid == []
    assert str(caught.value) == (
        "'pay' has side effects, and its registry has no checkpointer to log the call with. Nothing was run. Bind the "
        "registry: ToolRegistry(checkpointer=cp, session_id=…), registry.bind(cp, session_id) or resume(session_id, "
        "registry). ToolRegistry(unlogged=True) runs such tools without a log."
    )


def test_reading_tool_runs_without_a_log() -> None:
    registry = ToolRegistry([tool(side_effects={"read"})(pay)])

    assert registry.dispatch("pay", {"order": 1, "amount": "2"}, "c") == ToolResult("c", "1 2  False 1.0")


def test_tool_runs_without_a_log_if_allowed() -> None:
    shop = Shop()
    registry = ToolRegistry([tool(shop.pay)], unlogged=True)

    assert registry.dispatch("pay", {"order": 17}, "c") == ToolResult("c", "paid 17")
    assert asyncio.run(registry.adispatch("pay", {"order": 18}, "c")) == ToolResult("c", "paid 18")
    assert shop.paid == [17, 18]


def test_tool_that_requires_approval_never_runs_without_a_log() -> None:
    shop = Shop()
    registry = ToolRegistry([tool(requires_approval=True)(shop.pay)], unlogged=True)

    with pytest.raises(RegistryNotBound):
        registry.dispatch("pay", {"order": 17}, "c")
    assert shop.paid == []


def test_unknown_tool_is_an_error_result() -> None:
    result = ToolRegistry().dispatch("pay", {}, "c")

    assert result == ToolResult("c", "There is no tool 'pay'. Nothing was run.", is_error=True)


@pytest.mark.parametrize("name", [None, 17, ["pay"], {"name": "pay"}])
def test_tool_name_that_is_no_text_is_an_unknown_tool(name: Any) -> None:
    result = ToolRegistry().dispatch(name, {}, "c")

    assert (result.content, result.is_error) == (f"There is no tool {name!r}. Nothing was run.", True)


def test_error_of_the_tool_is_an_error_result() -> None:
    def fails() -> None:
        raise ValueError("no such order")

    result = ToolRegistry([tool(fails)], unlogged=True).dispatch("fails", {}, "c")

    assert result == ToolResult("c", "fails raised ValueError: no such order", is_error=True)


@pytest.mark.parametrize("args", [{"order": float("nan"), "amount": "1"}, {"order": 1, "amount": {1}}, {}], ids=repr)
def test_invalid_arguments_are_an_error_result(args: dict[str, Any]) -> None:
    result = ToolRegistry([tool(pay)], unlogged=True).dispatch("pay", args, "c")

    assert (result.call_id, result.is_error) == ("c", True)


@pytest.mark.parametrize("call_id", ["", "\0", None, 5, "x" * 256], ids=repr)
def test_invalid_call_id_is_refused(call_id: Any) -> None:
    with pytest.raises(InvalidIdentifier):
        ToolRegistry([tool(pay)]).dispatch("pay", {"order": 1, "amount": "2"}, call_id)


# verify hooks


class Bank:
    def __call__(self, args: dict[str, Any], timeout: float = 1) -> bool:
        return True

    def found(self, args: dict[str, Any], /, **more: Any) -> bool:
        return True


@pytest.mark.parametrize(
    "hook",
    [lambda order: True, lambda *given: True, Bank(), Bank().found, partial(max, 1), min, {}.get, bool],
    ids=["any name", "any number", "object", "method", "partial", "no signature", "of C", "class"],
)
def test_callable_hook_is_accepted(hook: Any) -> None:
    assert tool(verify=hook)(pay).verify is hook


@pytest.mark.parametrize(
    ("hook", "why"),
    [
        (lambda: True, r"signature \(\)\. It is called with the arguments of the call, a dict, as its one positional"),
        (lambda args, bank: True, "missing a required argument: 'bank'"),
        (lambda *, args: True, "too many positional arguments"),
        (Bank.found, "missing a required argument: 'args'|too many positional|missing a required positional-only"),
        (NotLanded, "too many positional arguments"),
        ("was_paid", "of type str, which cannot be called"),
        (NotLanded(), "of type NotLanded, which cannot be called"),
    ],
    ids=["no argument", "two arguments", "by name only", "method without its object", "answer", "text", "object"],
)
def test_hook_with_an_unusable_signature_is_refused(hook: Any, why: str) -> None:
    registry = ToolRegistry()
    for register in (tool(verify=hook), registry.tool(verify=hook), lambda run: Tool("pay", run, verify=hook)):
        with pytest.raises(InvalidInput, match=why) as caught:
            register(pay)
        assert "verify hook of 'pay'" in str(caught.value)
    assert registry.tools == {}
