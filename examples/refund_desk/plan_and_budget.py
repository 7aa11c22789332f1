"""Plan, budget and usage of the agent: saved with every version, and restored from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum


class StepStatus(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"
    FAILED = "failed"


@dataclass
class Step:
    """Step of the plan; `tool` carries it out."""

    title: str
    tool: str
    status: StepStatus = StepStatus.PENDING


@dataclass
class Plan:
    goal: str
    steps: list[Step] = field(default_factory=list)

    @classmethod
    def create_for_order(cls, order: int) -> Plan:
        return cls(
            goal=f"Settle the complaint about order {order}",
            steps=[
                Step("Look up the order", "find_order"),
                Step("Check the refund policy", "read_policy"),
                Step("Find the payment", "find_payment"),
                Step("Refund the card", "refund_card"),
                Step("Tell the customer", "send_email"),
            ],
        )

    def is_step_of_tool_done(self, tool: str) -> bool:
        return any(step.tool == tool and step.status == StepStatus.DONE for step in self.steps)

    def mark_step(self, tool: str, status: StepStatus) -> None:
        for step in self.steps:
            if step.tool == tool:
                step.status = status


@dataclass
class Usage:
    """Tokens used by the whole session so far, and the model that used them."""

    input_tokens: int = 0
    output_tokens: int = 0
    model: str = ""

    def add_usage(self, other: Usage) -> None:
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.model = other.model or self.model


#: US dollars per token.
INPUT_PRICE = Decimal("0.000003")
OUTPUT_PRICE = Decimal("0.000015")


@dataclass
class Budget:
    """Budget in US dollars. `spent` is saved and restored with the session, so a crash does not refill it."""

    limit: Decimal
    spent: Decimal = Decimal(0)

    @property
    def is_exhausted(self) -> bool:
        return self.spent >= self.limit

    def add_usage_cost(self, usage: Usage) -> None:
        self.spent += usage.input_tokens * INPUT_PRICE + usage.output_tokens * OUTPUT_PRICE
