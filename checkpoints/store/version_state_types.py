"""State of a version beside its transcript, validated and in stored form."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from checkpoints.enums import Phase
from checkpoints.exceptions import InvalidInput, NotRepresentable
from checkpoints.formats import money_amount_codec
from checkpoints.formats.canonical_json import parse_json, to_canonical_json
from checkpoints.formats.token_counts import parse_token_counts


class Unchanged:
    """Type of `UNCHANGED`, which keeps a value of the previous version."""

    def __repr__(self) -> str:
        return "UNCHANGED"


#: Fields that a save copies from the previous version.
UNCHANGED: Final = Unchanged()


@dataclass(frozen=True)
class VersionState:
    """Columns of a checkpoint that users give: canonical JSON text, NULL if nothing was given.

    `is_cost_stated` says whether the save that made this state named the amount, even if it is 0.
    """

    phase: Phase
    plan: str | None
    budget: str
    usage: str | None
    payload: str | None
    is_cost_stated: bool = False

    @classmethod
    def create_empty(cls) -> VersionState:
        """State of a session before its first version."""
        return cls(Phase.TURN, None, "0", None, None)


@dataclass(frozen=True)
class VersionChange:
    """Changes of a save beside the transcript; `UNCHANGED` keeps the value of the previous version."""

    plan: dict[str, Any] | Unchanged | None = UNCHANGED
    budget_spent_usd: float | Decimal | Unchanged = UNCHANGED
    usage: dict[str, Any] | Unchanged | None = UNCHANGED
    phase: str = Phase.TURN
    payload: dict[str, Any] | None = None

    @property
    def has_unchanged_fields(self) -> bool:
        """Return whether the previous version has to be read."""
        return any(isinstance(value, Unchanged) for value in (self.plan, self.budget_spent_usd, self.usage))

    def to_state_or_unresolved_change(self) -> VersionState | VersionChange:
        """Return the validated state if no value is kept; else this change."""
        return self if self.has_unchanged_fields else self.apply_to(VersionState.create_empty())

    def apply_to(self, before: VersionState) -> VersionState:
        return VersionState(
            phase=parse_phase(self.phase),
            plan=before.plan if isinstance(self.plan, Unchanged) else _dump_dict_as_json(self.plan, "plan"),
            budget=before.budget
            if isinstance(self.budget_spent_usd, Unchanged)
            else money_amount_codec.encode_amount_as_json(self.budget_spent_usd),
            usage=before.usage if isinstance(self.usage, Unchanged) else _dump_dict_as_json(self.usage, "usage"),
            payload=_dump_dict_as_json(self.payload, "payload"),
            is_cost_stated=not isinstance(self.budget_spent_usd, Unchanged),
        )


def parse_phase(phase: str) -> Phase:
    try:
        return Phase(phase)
    except ValueError:
        raise InvalidInput(f"{phase!r} is not a phase. Use one of: {', '.join(Phase.values)}.") from None


def _dump_dict_as_json(value: dict[str, Any] | None, what: str) -> str | None:
    if value is not None and not isinstance(value, dict):
        raise NotRepresentable(what, f"a {type(value).__name__} is not a dict; dataclasses.asdict makes one")
    return None if value is None else to_canonical_json(value, what)


def count_total_tokens(usage: str | None) -> int:
    """Return the headline number of a stored usage object: all its tokens, those of the cache included."""
    return (parse_token_counts(parse_json(usage)).total or 0) if usage else 0
