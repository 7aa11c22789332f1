"""Message of a foreign transcript before it is stored, and the usage that the transcript states."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from checkpoints.formats.token_counts import truncate_model_name_or_empty_if_list_full

#: Predecessor of a message that starts the transcript over.
TRANSCRIPT_START: Final = ""
#: Kinds of tokens that add up to the total. Input does not include what came from or went to the cache.
COUNTED_TOKENS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
#: A request that states more tokens has no count; the sum of a session has 64 bits.
_MOST_TOKENS: Final = 10**12
#: Years that a transcript can be from. Others are no times: not every calendar and time zone can show them.
_FIRST_YEAR, _LAST_YEAR = 1970, 2200
#: Larger numbers are Unix times in milliseconds.
_LARGEST_SECONDS: Final = 10**11


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    """Message as a transcript has it.

    `key` names it within its session permanently: a key that exists already is not imported again. `after` is the
    key of the message it follows if that is not the end of the transcript (an edit, a compaction);
    `TRANSCRIPT_START` starts over. `begins_turn` marks a message of a person. `times` has the times of calls and
    results that differ from the time of the message, by the id of the call.
    """

    key: str
    role: str
    body: dict[str, Any]
    at: datetime | None = None
    after: str | None = None
    begins_turn: bool = False
    times: Mapping[str, datetime] = field(default_factory=dict)


@dataclass
class UsageTotals:
    """Usage of a session so far, by model, as far as its transcript states it. `cost` is None if it states none.

    `unfinished` has the ids of the answers whose counts the transcript states only as they were before their end.
    """

    cost: Decimal | None = None
    by_model: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    costs: defaultdict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    unfinished: set[str] = field(default_factory=set)

    def add_usage(self, model: str, tokens: Mapping[str, int], cost: Decimal | None = None) -> None:
        """Add the usage of one request, or a change of it. Of too many models, the last ones count in the sum alone."""
        model = truncate_model_name_or_empty_if_list_full(model, self.by_model)
        if any(tokens.values()):
            self.by_model[model].update(tokens)
        if cost is not None:
            self.cost = (self.cost or Decimal()) + cost
            self.costs[model] += cost

    def build_stored_usage_or_none(self) -> dict[str, Any] | None:
        """Return the usage as checkpoints store it, with the total; None if nothing is known."""
        tokens: Counter[str] = Counter()
        for counts in self.by_model.values():
            tokens.update(counts)
        if not tokens:
            return None
        usage: dict[str, Any] = {name: tokens[name] for name in sorted(tokens) if name != "total_tokens"}
        usage["total_tokens"] = sum(tokens[name] for name in COUNTED_TOKENS) or tokens["total_tokens"]
        if self.unfinished:
            usage["is_incomplete"] = True
        models = {
            model: {**counts, **self._build_cost_usd_entry_of_model_or_empty(model)}
            for model, counts in self.by_model.items()
            if model
        }
        return {**usage, "by_model": models} if models else usage

    def _build_cost_usd_entry_of_model_or_empty(self, model: str) -> dict[str, str]:
        return {"cost_usd": str(self.costs[model])} if model in self.costs else {}


def parse_token_count_or_zero(value: object) -> int:
    """Return a number of tokens; 0 for anything else."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_TOKENS
    return value if is_count and isinstance(value, int) else 0


def parse_usd_cost_or_none(value: object) -> Decimal | None:
    """Return an amount in US dollars; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 10**6:
        return None
    return Decimal(str(value))


def parse_iso_or_unix_time_or_none(value: object) -> datetime | None:
    """Parse a time from ISO text, or Unix seconds or milliseconds; None if it is neither."""
    try:
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value)
            if _FIRST_YEAR <= parsed.year <= _LAST_YEAR:
                return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            parsed = datetime.fromtimestamp(value / 1000 if value > _LARGEST_SECONDS else value, UTC)
            return parsed if parsed.year <= _LAST_YEAR else None
    except (ValueError, OverflowError, OSError):
        return None
    return None
