"""Skills of the agents: functions from a request and the answers so far to further questions or the final answer.

They know nothing of databases or networks. A real agent would call a model instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Request = Mapping[str, Any]
#: Answers by the name that the agent gave the question; None if no answer came in time.
Answers = Mapping[str, Any]

ORDERS = {17: {"lamp": 2, "shade": 3}, 18: {"lamp": 1}}
GRAMS = {"lamp": 1200, "shade": 250}
CENTS_PER_KILO = {"Bergen": 900, "Oslo": 600}


@dataclass(frozen=True)
class Questions:
    """Questions to other agents, by name: agent and request."""

    questions: Mapping[str, tuple[str, Request]]


@dataclass(frozen=True)
class FinalAnswer:
    """Final answer of the agent."""

    result: Any


Skill = Callable[[Request, Answers], Questions | FinalAnswer]


def answer_desk_request_or_ask(request: Request, answers: Answers) -> Questions | FinalAnswer:
    if "items" in request:
        return FinalAnswer(ORDERS.get(request["items"]))  # None for an unknown order
    order, city = request["deliver"], request["to"]
    if not answers:
        request_for_stock = {"order": order}
        return Questions(
            {"weight": ("stock", request_for_stock), "price": ("courier", {**request_for_stock, "to": city})}
        )
    return FinalAnswer({"order": order, "to": city, "grams": answers["weight"], "cents": answers["price"]})


def answer_stock_request_or_ask(request: Request, answers: Answers) -> Questions | FinalAnswer:
    if not answers:
        return Questions({"items": ("desk", {"items": request["order"]})})
    items = answers["items"]
    return FinalAnswer(None if items is None else sum(GRAMS[item] * count for item, count in items.items()))


def answer_courier_request_or_ask(request: Request, answers: Answers) -> Questions | FinalAnswer:
    if not answers:
        return Questions({"weight": ("stock", {"order": request["order"]})})
    grams, cents_per_kilo = answers["weight"], CENTS_PER_KILO.get(request["to"])
    return FinalAnswer(None if grams is None or cents_per_kilo is None else -(-grams // 1000) * cents_per_kilo)


SKILLS: dict[str, Skill] = {
    "desk": answer_desk_request_or_ask,
    "stock": answer_stock_request_or_ask,
    "courier": answer_courier_request_or_ask,
}
