import dataclasses
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest

from checkpoints.formats import load_as, parse_json, to_canonical_json


class State(StrEnum):
    OPEN = "open"
    DONE = "done"


@dataclass
class Step:
    title: str
    state: State = State.OPEN
    evidence: list[str] = field(default_factory=list)


@dataclass
class Cost:
    amount: Decimal
    at: datetime


@dataclass
class Plan:
    goal: str
    steps: list[Step]
    costs: dict[str, Cost] = field(default_factory=dict)
    pair: tuple[Step, Step] | None = None
    tail: tuple[int, ...] = ()
    parent: "Plan | None" = None
    anything: Any = None
    open_steps: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.open_steps = sum(step.state is State.OPEN for step in self.steps)


@dataclass
class Tagged:
    tags: frozenset[str]
    numbers: set[int]


@dataclass
class Text:
    text: str


@dataclass
class Picture:
    url: str
    width: int


@dataclass
class Turn:
    block: Text | Picture


def stored(value: Any) -> Any:
    return parse_json(to_canonical_json(dataclasses.asdict(value)))


def test_nested_dataclasses_are_restored_equal() -> None:
    plan = Plan(
        goal="refund",
        steps=[Step("find the order", State.DONE, ["order 17"]), Step("pay")],
        pair=(Step("a"), Step("b")),
        tail=(1, 2, 3),
        parent=Plan("outer", [Step("inner")]),
        anything={"free": ["form"]},
    )

    assert load_as(Plan, stored(plan)) == plan


def test_values_stored_as_text_are_restored_with_their_types() -> None:
    data = {"amount": "12.50", "at": "2026-01-02T03:04:05+00:00"}

    assert load_as(Cost, data) == Cost(Decimal("12.50"), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


def test_dict_of_dataclasses_is_restored() -> None:
    data = {"goal": "g", "steps": [], "costs": {"a": {"amount": "1", "at": "2026-01-02T03:04:05+00:00"}}}

    assert load_as(Plan, data).costs == {"a": Cost(Decimal(1), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))}


def test_sets_are_restored_as_sets() -> None:
    assert load_as(Tagged, {"tags": ["x", "y"], "numbers": [1, 1]}) == Tagged(frozenset({"x", "y"}), {1})


@pytest.mark.parametrize("turn", [Turn(Text("hello")), Turn(Picture("p.png", 40))], ids=["text", "picture"])
def test_union_selects_the_matching_class(turn: Turn) -> None:
    assert load_as(Turn, stored(turn)) == turn


def test_unknown_field_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="colour"):
        load_as(Step, {"title": "t", "colour": "red"})


def test_missing_field_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="title"):
        load_as(Step, {})


def test_value_that_is_not_a_dict_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="Step needs a dict"):
        load_as(Step, ["title"])


def test_unknown_member_of_an_enum_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="lost"):
        load_as(Step, {"title": "t", "state": "lost"})


def test_plain_value_is_unchanged() -> None:
    assert load_as(int, 3) == 3
    assert load_as(list[int], [1, 2]) == [1, 2]
