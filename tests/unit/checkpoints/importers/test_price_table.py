"""Estimates of costs from a price table."""

from decimal import Decimal

from checkpoints.importers.price_table import PriceTable


def test_estimate_is_the_sum_of_the_rounded_amounts_of_its_models() -> None:
    prices = {"input": Decimal("0.4"), "output": Decimal("0.4")}
    table = PriceTable("prices.toml", {"a": prices, "b": prices})
    cost = table.estimate_cost({model: {"input_tokens": 1, "output_tokens": 6} for model in ("a", "b")})
    assert cost.by_model == {model: {"input": "0.000000", "output": "0.000002"} for model in ("a", "b")}
    assert cost.amount == sum(Decimal(part) for parts in cost.by_model.values() for part in parts.values())
    assert cost.rates == {model: {"input": "0.4", "output": "0.4"} for model in ("a", "b")}
