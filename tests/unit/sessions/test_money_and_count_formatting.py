from decimal import Decimal

import pytest

from harness_site.sessions import money_and_count_formatting


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        ("0", "$0.00"),
        ("0.031", "$0.031"),
        ("0.10", "$0.10"),
        ("12", "$12.00"),
        ("1234.5", "$1,234.50"),
        ("1000000", "$1,000,000.00"),
        ("0.0000004", "$0.00"),
        ("0.0000005", "$0.000001"),
        ("1E+3", "$1,000.00"),
    ],
)
def test_amounts_are_formatted(amount: str, words: str) -> None:
    assert money_and_count_formatting.format_money(Decimal(amount)) == words


def test_unknown_amount_is_a_dash() -> None:
    assert money_and_count_formatting.format_money(None) == "–"
    assert money_and_count_formatting.format_money_delta(None) == "–"


def test_amount_differences_have_a_sign() -> None:
    assert [money_and_count_formatting.format_money_delta(Decimal(amount)) for amount in ("0.012", "-0.5", "0")] == [
        "+$0.012",
        "−$0.50",
        "$0.00",
    ]


def test_signed_numbers() -> None:
    assert [money_and_count_formatting.format_signed_number(number) for number in (3108, -2, 0)] == [
        "+3,108",
        "−2",
        "0",
    ]
