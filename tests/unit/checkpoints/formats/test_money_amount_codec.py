from decimal import Decimal
from typing import Any

import pytest

from checkpoints.exceptions import NotRepresentable
from checkpoints.formats import money_amount_codec


@pytest.mark.parametrize(
    "amount",
    [
        0,
        7,
        0.1,
        1e-9,
        123456.789012,
        999_999_999_999,
        -12.5,
        Decimal("0.10"),
        Decimal("-0.000001"),
        Decimal("999999999999.99999999"),
        Decimal("1E+3"),
        Decimal("0.000000000000000000001"),
    ],
    ids=repr,
)
def test_amount_is_restored_equal(amount: float | Decimal) -> None:
    loaded = money_amount_codec.parse_stored_amount_as_float_or_decimal(
        money_amount_codec.encode_amount_as_json(amount)
    )

    assert (loaded, type(loaded), str(loaded)) == (amount, type(amount), str(amount))


@pytest.mark.parametrize(
    "amount",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("Infinity"),
        10**12,
        -(10**12),
        10**400,
        Decimal("1e400"),
        Decimal("0." + "1" * 80),
        True,
        "12.50",
        None,
        1j,
        [1],
    ],
    ids=repr,
)
def test_invalid_amount_is_refused(amount: Any) -> None:
    with pytest.raises(NotRepresentable):
        money_amount_codec.encode_amount_as_json(amount)


@pytest.mark.parametrize("text", ["true", "null", "[]", "{", "NaN"])
def test_damaged_text_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        money_amount_codec.parse_stored_amount_as_float_or_decimal(text)


def test_as_decimal_of_a_float_is_its_shortest_representation() -> None:
    assert money_amount_codec.round_amount_to_millionth(money_amount_codec.encode_amount_as_json(0.1)) == Decimal("0.1")


@pytest.mark.parametrize(
    ("amount", "headline"),
    [
        (0.03 + 14 * 0.002, "0.058000"),  # which is 0.057999999999999996
        (Decimal("0.1000019"), "0.100002"),
        (Decimal("-0.1000019"), "-0.100002"),
        (Decimal("999999999999.9999999"), "999999999999.999999"),
        (Decimal("-999999999999.9999999"), "-999999999999.999999"),
        (1e-9, "0.000000"),
        (7, "7.000000"),
    ],
    ids=repr,
)
def test_as_decimal_is_rounded_to_a_millionth(amount: float | Decimal, headline: str) -> None:
    assert (
        str(money_amount_codec.round_amount_to_millionth(money_amount_codec.encode_amount_as_json(amount))) == headline
    )


@pytest.mark.parametrize("damaged", ["NaN", '"Infinity"', "null", "1.0.0", ""])
def test_damaged_amount_has_no_headline(damaged: str) -> None:
    with pytest.raises((ValueError, ArithmeticError)):
        money_amount_codec.round_amount_to_millionth(damaged)
