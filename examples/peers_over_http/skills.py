"""What each agent can do: from a request and the answers it has so far to what it asks next, or to its own answer.

Nothing here knows of databases or networks. A model would sit in the place of these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Request = Mapping[str, Any]
#: By a name that the agent chose when it asked. None: no answer came in time.
Answers = Mapping[str, Any]

ORDERS = {17: {"lamp": 2, "shade": 3}, 18: {"lamp": 1}}
GRAMS = {"lamp": 1200, "shade": 250}
CENTS_PER_KILO = {"Bergen": 900, "Oslo": 600}


@dataclass(frozen=True)
class Ask:
    """Questions to other agents, by name: which agent, and the request."""

    questions: Mapping[str, tuple[str, Request]]


@dataclass(frozen=True)
class Say:
    """The agent's own answer."""

    result: Any


Skill = Callable[[Request, Answers], Ask | Say]


def desk(request: Request, answers: Answers) -> Ask | Say:
    if "items" in request:
        return Say(ORDERS[request["items"]])
    order, city = request["deliver"], request["to"]
    if not answers:
        asked = {"order": order}
        return Ask({"weight": ("stock", asked), "price": ("courier", {**asked, "to": city})})
    return Say({"order": order, "to": city, "grams": answers["weight"], "cents": answers["price"]})


def stock(request: Request, answers: Answers) -> Ask | Say:
    if not answers:
        return Ask({"items": ("desk", {"items": request["order"]})})
    items = answers["items"]
    return Say(None if items is None else sum(GRAMS[item] * count for item, count in items.items()))


def courier(request: Request, answers: Answers) -> Ask | Say:
    if not answers:
        return Ask({"weight": ("stock", {"order": request["order"]})})
    grams = answers["weight"]
    return Say(None if grams is None else -(-grams // 1000) * CENTS_PER_KILO[request["to"]])


SKILLS: dict[str, Skill] = {"desk": desk, "stock": stock, "courier": courier}
