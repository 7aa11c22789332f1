"""What the agent means to do, may spend and has used: saved with every version, and rebuilt from it."""

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
    """One thing to do; `tool` is what does it."""

    title: str
    tool: str
    status: StepStatus = StepStatus.PENDING


@dataclass
class Plan:
    goal: str
    steps: list[Step] = field(default_factory=list)

    @classmethod
    def for_order(cls, order: int) -> Plan:
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

    def done(self, tool: str) -> bool:
        return any(step.tool == tool and step.status == StepStatus.DONE for step in self.steps)

    def mark(self, tool: str, status: StepStatus) -> None:
        for step in self.steps:
            if step.tool == tool:
                step.status = status


@dataclass
class Usage:
    """Tokens of the whole session so far."""

    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, other: Usage) -> None:
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens


#: US dollars for one token.
INPUT_PRICE = Decimal("0.000003")
OUTPUT_PRICE = Decimal("0.000015")


@dataclass
class Budget:
    """Both in US dollars. `spent` is saved and loaded with the session, so a crash does not refill it."""

    limit: Decimal
    spent: Decimal = Decimal(0)

    @property
    def exhausted(self) -> bool:
        return self.spent >= self.limit

    def charge(self, usage: Usage) -> None:
        self.spent += usage.input_tokens * INPUT_PRICE + usage.output_tokens * OUTPUT_PRICE
