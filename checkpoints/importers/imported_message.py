"""Message of a foreign transcript before it is stored."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

#: Predecessor of a message that starts the transcript over.
TRANSCRIPT_START: Final = ""


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    """Message as a transcript has it.

    `key` names it within its session permanently: a key that exists already is not imported again. `after` is the
    key of the message it follows if that is not the end of the transcript (an edit, a compaction);
    `START` starts over. `begins_turn` marks a message of a person.
    """

    key: str
    role: str
    body: dict[str, Any]
    at: datetime | None = None
    after: str | None = None
    begins_turn: bool = False


@dataclass
class UsageTotals:
    """Usage of a session so far, as far as its transcript states it."""

    cost: Decimal = Decimal()
    tokens: Counter[str] = field(default_factory=Counter)

    def usage(self) -> dict[str, Any] | None:
        """Usage as checkpoints store it, with the sum of input and output tokens."""
        if not self.tokens:
            return None
        counts = {name: count for name, count in sorted(self.tokens.items()) if name != "total_tokens"}
        return {**counts, "total_tokens": self.tokens.get("total_tokens") or sum(counts.values())}


def parse_time(value: object) -> datetime | None:
    """Parse a time from ISO text or Unix seconds; None if it is neither."""
    try:
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value)
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None
