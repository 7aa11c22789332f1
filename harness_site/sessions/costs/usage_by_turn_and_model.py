"""Tokens and cost of a session by turn and by model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any, Final

from django.utils.translation import gettext

from checkpoints.formats import parse_json
from checkpoints.formats.token_counts import MAX_MODELS, TokenCounts, parse_token_counts
from checkpoints.importers.price_table import PRICED_TOKENS
from checkpoints.models import Checkpoint
from harness_site.search.record_models_and_divide_cost import (
    count_rounding_for_most_expensive_model,
    get_stated_or_estimated_model_cost,
)
from harness_site.sessions.money_and_count_formatting import count_common_decimal_places
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.selectors.version_lookup import parse_cost

PAGE: Final = 25
#: Largest number of versions among which the most expensive turn is looked for.
_MAX_COMPARED: Final = 20_000


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """Usage that one version added, in US dollars, and what the session had `spent` then; None if unknown.

    `model` is the one that the version names; empty if it names none or several. `have_totals_fallen` tells that the
    totals of the version are lower than those before it, so that what it used is unknown.
    """

    version: int
    at: datetime
    tokens: TokenCounts
    cost: Decimal | None
    spent: Decimal | None
    model: str
    have_totals_fallen: bool
    #: Whether it is the first version of a fork, which its original has paid for.
    is_copied: bool = False

    @property
    def has_known_zero_usage(self) -> bool:
        """Whether the version is known to have used nothing, as one that only adds the results of tools."""
        return self.tokens.total == 0 and not self.cost

    @property
    def is_before_any_usage(self) -> bool:
        """Whether the session had spent nothing when this version, which states no tokens, was saved."""
        return self.tokens.total is None and self.spent == 0 and not self.have_totals_fallen


@dataclass(frozen=True, slots=True)
class MostExpensiveTurn:
    """Turn that cost more than any other, in US dollars, and its `share` of the session's cost, from 0 to 1."""

    version: int
    cost: Decimal
    share: float


@dataclass(frozen=True, slots=True)
class CostsOfVersions:
    """What the versions of a session cost together, in US dollars.

    `most_expensive` is None if several cost the same. `sum_of_known` is None unless the total that the agent states has
    gone down: it is then higher than the last total, and without what was used where the total went down, as that is
    unknown.
    """

    most_expensive: MostExpensiveTurn | None = None
    sum_of_known: Decimal | None = None


@dataclass(frozen=True, slots=True)
class OwnOrCopiedAmounts:
    """Part of what a fork has used; `cost` is in US dollars, None if unknown."""

    label: str
    tokens: TokenCounts
    cost: Decimal | None


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Tokens of one model; `cost` is in US dollars, as the usage states it or estimated, None if unknown."""

    model: str
    tokens: TokenCounts
    cost: Decimal | None


@dataclass(frozen=True, slots=True)
class ModelPrices:
    """Prices of one model with which its cost was estimated, in US dollars for a million tokens; None if unused."""

    model: str
    input: Decimal | None
    output: Decimal | None
    cache_read: Decimal | None
    cache_write: Decimal | None


@dataclass(frozen=True, slots=True)
class UsagePage:
    """Turns that used something, newest first; `free_turns` is the number of the others on this page.

    `before` is the cursor of the next page. `totals` and `models` are of the whole session, whose usage `is_incomplete`
    if its source has no final counts for some of the answers.
    """

    turns: tuple[TurnUsage, ...]
    free_turns: int
    before: int | None
    totals: TokenCounts
    models: tuple[ModelUsage, ...]
    is_incomplete: bool = False

    @property
    def has_usage_by_turn(self) -> bool:
        """Whether a turn on this page states its tokens or its cost, or is known to have used nothing."""
        stated = any(turn.tokens.total is not None or turn.cost is not None for turn in self.turns)
        return stated or self.free_turns > 0

    @property
    def have_totals_fallen(self) -> bool:
        """Whether the totals of a turn on this page are lower than those before it."""
        return any(turn.have_totals_fallen for turn in self.turns)

    @property
    def has_token_counts(self) -> bool:
        """Whether any count of tokens is known on this page."""
        counts = [self.totals, *(turn.tokens for turn in self.turns), *(model.tokens for model in self.models)]
        return any(count != TokenCounts() for count in counts)

    @property
    def has_costs(self) -> bool:
        """Whether the cost of a turn or of a model is known on this page."""
        costs = [*(turn.cost for turn in self.turns), *(model.cost for model in self.models)]
        return any(cost is not None for cost in costs)

    @property
    def only_model(self) -> str:
        """Model of all turns of this page; empty if they name several, or one of them names none."""
        models = {turn.model for turn in self.turns}
        return models.pop() if len(models) == 1 else ""

    @property
    def has_differing_turn_models(self) -> bool:
        """Whether the turns of this page name models that differ."""
        return not self.only_model and any(turn.model for turn in self.turns)

    @property
    def highest_cost_of_a_turn(self) -> Decimal:
        """Highest cost of a turn on this page; 0 if none is known."""
        return max((turn.cost or Decimal() for turn in self.turns if not turn.is_copied), default=Decimal())

    @property
    def most_tokens_of_a_turn(self) -> int:
        """Largest number of tokens of a turn on this page; 0 if none is known."""
        return max((turn.tokens.total or 0 for turn in self.turns if not turn.is_copied), default=0)

    @property
    def most_tokens_of_a_model(self) -> int:
        """Largest number of tokens of a model; 0 if none is known."""
        return max((model.tokens.total or 0 for model in self.models), default=0)

    @property
    def has_cache_counts(self) -> bool:
        """Whether a count of tokens from or for a cache is known anywhere on this page."""
        counts = [self.totals, *(turn.tokens for turn in self.turns), *(model.tokens for model in self.models)]
        return any(count.cache_read is not None or count.cache_write is not None for count in counts)

    @property
    def has_cache_write_counts(self) -> bool:
        """Whether a count of tokens for a cache is known anywhere on this page."""
        counts = [self.totals, *(turn.tokens for turn in self.turns), *(model.tokens for model in self.models)]
        return any(count.cache_write is not None for count in counts)

    @property
    def has_tokens_of_unstated_kind(self) -> bool:
        """Whether a total on this page has tokens of a kind that nothing states."""
        counts = [self.totals, *(turn.tokens for turn in self.turns), *(model.tokens for model in self.models)]
        return any(count.other > 0 for count in counts)

    @property
    def cost_decimal_places(self) -> int:
        """Number of decimal places with which each cost of this page can be written exactly, so that they align."""
        turns = [cost for turn in self.turns for cost in (turn.cost, turn.spent)]
        costs = [*turns, *(model.cost for model in self.models)]
        return count_common_decimal_places(costs)


def load_usage_page(
    session_pk: int,
    *,
    knows_cost: bool,
    estimate: Mapping[str, Any] | None = None,
    before: int | None = None,
    is_fork: bool = False,
) -> UsagePage:
    """Load a page of turns, in two queries. Costs are unknown unless `knows_cost`."""
    versions = Checkpoint.objects.filter(session=session_pk).order_by("-version")
    columns = ("version", "created_at", "usage", "budget_spent_usd")
    newest, spent = versions.values_list("usage", "budget_spent_usd").first() or (None, "")
    page = versions if before is None else versions.filter(version__lt=before)
    rows = list(page.values_list(*columns)[: PAGE + 1])
    turns = tuple(
        _compute_turn_usage_since_previous_version(row, rows[index + 1 :], knows_cost)
        for index, row in enumerate(rows[:PAGE])
    )
    if is_fork:
        turns = tuple(replace(turn, is_copied=turn.version == 1) for turn in turns)
    usage = _parse_usage_or_empty(newest)
    totals = parse_token_counts(usage)
    listed = tuple(
        turn
        for turn in turns
        if not (turn.has_known_zero_usage or (totals.total is not None and turn.is_before_any_usage))
    )
    return UsagePage(
        listed,
        len(turns) - len(listed),
        turns[-1].version if len(rows) > PAGE else None,
        totals,
        tuple(_list_model_usages(usage, estimate or {}, parse_cost(spent) if knows_cost else None)),
        usage.get("is_incomplete") is True,
    )


def compute_own_and_copied_amounts(
    head: SessionHead, totals: TokenCounts, copied_usage: str | None
) -> list[OwnOrCopiedAmounts]:
    """Return what a fork used in its own runs, what it has copied from its original, and both together.

    Args:
        head: Head of the fork.
        totals: Tokens of its newest version, which contain the copied ones.
        copied_usage: Stored usage of the version that it continues from.
    """
    row = head.row
    # A fork whose totals began again has copied no tokens.
    copied = parse_token_counts(_parse_usage_or_empty(copied_usage)) if row.copied_tokens else TokenCounts()
    own = replace(totals.subtract(copied), total=row.tokens)
    both = None if row.cost is None else row.cost + row.copied_cost
    return [
        OwnOrCopiedAmounts(gettext("Own runs"), own, row.cost),
        OwnOrCopiedAmounts(
            gettext("Copied from the original"),
            replace(copied, total=row.copied_tokens),
            None if row.cost is None else row.copied_cost,
        ),
        OwnOrCopiedAmounts(gettext("In all"), replace(totals, total=row.tokens + row.copied_tokens), both),
    ]


def list_prices_of_estimate(prices: Mapping[str, Any] | None) -> list[ModelPrices]:
    """List the prices that the metadata of an imported session say that its cost was estimated with."""
    models = prices.get("models") if prices else None
    if not isinstance(models, dict):
        return []
    return [
        ModelPrices(model, *(_parse_price_or_none(rates.get(name)) for name in PRICED_TOKENS.values()))
        for model, rates in list(models.items())[:MAX_MODELS]
        if isinstance(rates, dict)
    ]


def _parse_price_or_none(stored: Any) -> Decimal | None:
    try:
        price = Decimal(stored) if isinstance(stored, str) else None
    except InvalidOperation:
        return None
    return price if price is not None and price.is_finite() else None


def find_most_expensive_turn_and_total(session_pk: int, *, is_fork: bool) -> CostsOfVersions:
    """Compare what all versions of a session cost, in one query; nothing is known of a session with too many.

    The first version of a fork has the cost of its original, which is not in the sum, and is no turn, nor is one whose
    earlier ones are gone.
    """
    rows = Checkpoint.objects.filter(session=session_pk).order_by("version").values_list("version", "budget_spent_usd")
    spent = [(version, parse_cost(stored) or Decimal()) for version, stored in rows[: _MAX_COMPARED + 1]]
    if not 1 < len(spent) <= _MAX_COMPARED:
        return CostsOfVersions()
    first = spent[0]
    copied = first[1] if is_fork and first[0] == 1 else Decimal()
    total = first[1] - copied
    turns = [(first[1], first[0])] if not is_fork and first[0] == 1 else []
    for (previous, before), (version, after) in pairwise(spent):
        total += max(after - before, Decimal())
        if version == previous + 1:
            turns.append((after - before, version))
    (cost, version), (second, _version) = [*sorted(turns, reverse=True)[:2], (Decimal(), 0), (Decimal(), 0)][:2]
    return CostsOfVersions(
        MostExpensiveTurn(version, cost, float(cost / total)) if cost > max(second, Decimal()) else None,
        total if total > spent[-1][1] - copied else None,
    )


def _compute_turn_usage_since_previous_version(
    row: tuple[Any, ...], earlier: list[tuple[Any, ...]], knows_cost: bool
) -> TurnUsage:
    version, at, usage, spent = row
    parsed_usage, total = _parse_usage_or_empty(usage), parse_cost(spent) if knows_cost else None
    tokens, cost, model = parse_token_counts(parsed_usage), total, parsed_usage.get("model")
    have_totals_fallen = False
    if earlier:
        _version, _at, previous_usage, previous_spent = earlier[0]
        previous_tokens = parse_token_counts(_parse_usage_or_empty(previous_usage))
        previous = parse_cost(previous_spent) or Decimal()
        has_cost_fallen = cost is not None and cost < previous
        have_totals_fallen = has_cost_fallen or tokens.has_fallen_since(previous_tokens)
        tokens = tokens.subtract(previous_tokens)
        cost = None if cost is None or has_cost_fallen else cost - previous
    return TurnUsage(version, at, tokens, cost, total, model if isinstance(model, str) else "", have_totals_fallen)


def _parse_usage_or_empty(stored: str | None) -> dict[str, Any]:
    try:
        value = parse_json(stored) if stored else None
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _list_model_usages(
    usage: Mapping[str, Any], estimate: Mapping[str, Any], spent: Decimal | None
) -> list[ModelUsage]:
    """List the models, those with most tokens first; their rounded costs add up to what was `spent` in US dollars."""
    by_model = usage.get("by_model")
    if not isinstance(by_model, dict):
        return []
    models = [
        ModelUsage(model, parse_token_counts(counts), get_stated_or_estimated_model_cost(counts, estimate.get(model)))
        for model, counts in list(by_model.items())[:MAX_MODELS]
        if isinstance(counts, dict)
    ]
    costs = {row.model: row.cost for row in models if row.cost is not None}
    if spent is not None and len(costs) == len(by_model):
        costs = count_rounding_for_most_expensive_model(costs, spent)
    models = [replace(row, cost=costs.get(row.model)) for row in models]
    return sorted(models, key=lambda row: -(row.tokens.total or 0))
