"""Prices of models from a table that the operator supplies, and the costs that they make of stored token counts."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from checkpoints.enums import CostBasis
from checkpoints.importers.import_errors import InvalidPriceTable

#: Kinds of tokens, and the field of a table that has their price.
PRICED_TOKENS: Final = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_write",
}
_PER_TOKENS: Final = Decimal(1_000_000)
_STORED_PRECISION: Final = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a session or version.

    `by_model` has the parts of an estimate, by model and field of the table, rounded to a millionth of a dollar; the
    amount is their sum. `rates` has the prices for a million tokens that it used, of the table with the name `table`.
    """

    amount: Decimal | None
    basis: CostBasis
    by_model: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rates: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    table: str = ""

    def build_import_mark(self) -> dict[str, Any]:
        """Return what the metadata of an imported session say about an estimate; empty if the cost is none."""
        if not self.by_model:
            return {}
        return {
            "estimate": {model: dict(parts) for model, parts in self.by_model.items()},
            "prices": {"table": self.table, "models": {model: dict(rates) for model, rates in self.rates.items()}},
        }


#: Names in the metadata of an imported session that `Cost.build_import_mark` writes.
ESTIMATE_MARKS: Final = ("estimate", "prices")


@dataclass(frozen=True)
class PriceTable:
    """Prices in US dollars for a million tokens: pattern of a model's name, then field, then price."""

    name: str
    prices: Mapping[str, Mapping[str, Decimal]]

    def find_prices(self, model: str) -> Mapping[str, Decimal] | None:
        """Find the prices of a model: those of its name, else those of the longest pattern that fits."""
        if model in self.prices:
            return self.prices[model]
        patterns = [pattern for pattern in self.prices if fnmatchcase(model, pattern)]
        return self.prices[max(patterns, key=len)] if patterns else None

    def estimate_cost(self, by_model: Mapping[str, Mapping[str, int]]) -> Cost:
        """Estimate a cost. It is unknown if a price is missing for any of the tokens: nothing is guessed."""
        total, parts, rates = Decimal(), dict[str, dict[str, str]](), dict[str, dict[str, str]]()
        for model, tokens in by_model.items():
            prices = self.find_prices(model) or {}
            for kind, name in PRICED_TOKENS.items():
                count = tokens.get(kind, 0)
                if not count:
                    continue
                if name not in prices:
                    return Cost(None, CostBasis.UNKNOWN)
                amount = (prices[name] * count / _PER_TOKENS).quantize(_STORED_PRECISION)
                total += amount
                parts.setdefault(model, {})[name] = str(amount)
                rates.setdefault(model, {})[name] = str(prices[name])
        return Cost(total, CostBasis.ESTIMATED, parts, rates, self.name) if parts else _UNKNOWN


_UNKNOWN: Final = Cost(None, CostBasis.UNKNOWN)


def choose_stated_or_estimated_cost(
    stated: Decimal | None, by_model: Mapping[str, Mapping[str, int]], prices: PriceTable | None
) -> Cost:
    """Return the cost that the transcript states, else an estimate, else that it is unknown."""
    if stated is not None:
        return Cost(stated, CostBasis.STATED)
    return _UNKNOWN if prices is None else prices.estimate_cost(by_model)


def load_price_table(path: str | Path) -> PriceTable:
    """Load a price table from a file of TOML or JSON.

    Args:
        path: Path of the file. Its `models` map the name of a model, or a pattern with `*`, to prices in US dollars
            for a million tokens: `input`, `output`, `cache_read`, `cache_write`.

    Returns:
        The table.

    Raises:
        InvalidPriceTable: The file is not such a table.
    """
    path = Path(path).expanduser()
    try:
        text = path.read_text("utf-8")
        table = (
            json.loads(text, parse_float=Decimal)
            if path.suffix == ".json"
            else tomllib.loads(text, parse_float=Decimal)
        )
    except OSError as error:
        raise InvalidPriceTable(path, error.strerror or "it cannot be read") from error
    except ValueError as error:
        raise InvalidPriceTable(path, str(error)) from error
    models = table.get("models") if isinstance(table, dict) else None
    if not isinstance(models, dict) or not models:
        raise InvalidPriceTable(path, "it has no table of models")
    return PriceTable(path.name, {model: _parse_prices(path, model, prices) for model, prices in models.items()})


def _parse_prices(path: Path, model: str, prices: Any) -> dict[str, Decimal]:
    known = set(PRICED_TOKENS.values())
    if not isinstance(prices, dict) or not prices or not prices.keys() <= known:
        raise InvalidPriceTable(path, f"the prices of {model!r} are not among {', '.join(sorted(known))}")
    try:
        amounts = {name: Decimal(price) for name, price in prices.items() if not isinstance(price, bool)}
    except (InvalidOperation, TypeError, ValueError):
        amounts = {}
    if len(amounts) != len(prices) or any(not amount.is_finite() or amount < 0 for amount in amounts.values()):
        raise InvalidPriceTable(path, f"a price of {model!r} is not a number of dollars")
    return amounts
