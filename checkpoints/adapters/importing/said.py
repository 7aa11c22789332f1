"""One message on its way into the store."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

#: What a message stands behind where it begins the transcript anew.
START: Final = ""


@dataclass(frozen=True, slots=True)
class Said:
    """A message as a transcript has it.

    `key` names it within its session for good: a key that is there already is not imported again. `after` is the
    key of the message it goes on from where that is not the end of the transcript (an edit, a compaction);
    `START` begins anew. `begins_turn` says that a person speaks.
    """

    key: str
    role: str
    body: dict[str, Any]
    at: datetime | None = None
    after: str | None = None
    begins_turn: bool = False


@dataclass
class Totals:
    """What a session has cost so far, as far as its transcript says so."""

    cost: Decimal = Decimal()
    tokens: Counter[str] = field(default_factory=Counter)

    def usage(self) -> dict[str, Any] | None:
        """As checkpoints keep it, with the sum of everything that went in and came out."""
        if not self.tokens:
            return None
        counted = {name: count for name, count in sorted(self.tokens.items()) if name != "total_tokens"}
        return {**counted, "total_tokens": self.tokens.get("total_tokens") or sum(counted.values())}


def moment(value: object) -> datetime | None:
    """A time from ISO text or Unix seconds; None where it is neither."""
    try:
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value)
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None
