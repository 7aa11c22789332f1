"""What a version holds beside its transcript, checked and in stored form."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from checkpoints.enums import Phase
from checkpoints.exceptions import InvalidInput, NotRepresentable
from checkpoints.serde import money
from checkpoints.serde.canonical import canonical, parse


class Unchanged:
    """Type of `UNCHANGED`, which keeps a value of the previous version."""

    def __repr__(self) -> str:
        return "UNCHANGED"


#: What a save takes over from the version before.
UNCHANGED: Final = Unchanged()


@dataclass(frozen=True)
class State:
    """The columns of a checkpoint that users give: canonical JSON text, NULL where nothing was given."""

    phase: Phase
    plan: str | None
    budget: str
    usage: str | None
    payload: str | None

    @classmethod
    def empty(cls) -> State:
        """What a session holds before its first version."""
        return cls(Phase.TURN, None, "0", None, None)


@dataclass(frozen=True)
class Change:
    """What a save changes beside the transcript; `UNCHANGED` keeps what the version before says."""

    plan: dict[str, Any] | Unchanged | None = UNCHANGED
    budget_spent_usd: float | Decimal | Unchanged = UNCHANGED
    usage: dict[str, Any] | Unchanged | None = UNCHANGED
    phase: str = Phase.TURN
    payload: dict[str, Any] | None = None

    @property
    def keeps_something(self) -> bool:
        """Whether the version before has to be known."""
        return any(isinstance(given, Unchanged) for given in (self.plan, self.budget_spent_usd, self.usage))

    def as_given(self) -> State | Change:
        """The state where nothing is kept, checked at once; else this change."""
        return self if self.keeps_something else self.applied(State.empty())

    def applied(self, before: State) -> State:
        return State(
            phase=checked_phase(self.phase),
            plan=before.plan if isinstance(self.plan, Unchanged) else _object(self.plan, "plan"),
            budget=before.budget if isinstance(self.budget_spent_usd, Unchanged) else money.dump(self.budget_spent_usd),
            usage=before.usage if isinstance(self.usage, Unchanged) else _object(self.usage, "usage"),
            payload=_object(self.payload, "payload"),
        )


def checked_phase(phase: str) -> Phase:
    try:
        return Phase(phase)
    except ValueError:
        raise InvalidInput(f"{phase!r} is not a phase. Use one of: {', '.join(Phase.values)}.") from None


def _object(value: dict[str, Any] | None, what: str) -> str | None:
    if value is not None and not isinstance(value, dict):
        raise NotRepresentable(what, f"a {type(value).__name__} is not a dict; dataclasses.asdict makes one")
    return None if value is None else canonical(value, what)


def total_tokens(usage: str | None) -> int:
    """The headline number of a stored usage object: its total, or what went in and came out."""
    counts = parse(usage) if usage else {}
    total = counts.get("total_tokens")
    if total is None:
        total = sum(counts[key] for key in ("input_tokens", "output_tokens") if isinstance(counts.get(key), int))
    return total if isinstance(total, int) and 0 <= total < 2**62 else 0
