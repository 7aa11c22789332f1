"""Amounts in the arguments of calls."""

from decimal import Decimal

import pytest
from django.utils import translation

from harness_site.core.masking.masker import build_masking_rules_from_names_and_words, use_masking_rules
from harness_site.core.money_amounts_in_call_arguments import (
    Amount,
    find_visible_amount,
    format_amount_argument,
    format_amounts_in_sentence,
    is_amount_in_sentence,
    sum_amounts_in_one_currency,
)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"order": 17, "amount": "12900.5", "currency": "eur"}, "12,900.50 EUR"),
        ({"price": 40}, "40"),
        ({"amount": "12,480.00", "currency": "EUR"}, "12,480.00 EUR"),
        ({"amount": "12,480"}, "None"),
        ({"amount": "1,24.80"}, "None"),
        ({"amount": "€40.00"}, "40.00 EUR"),
        ({"amount": 0.125, "currency": "too long"}, "0.125"),
        ({"amount": "many"}, "None"),
        ({"amount": True}, "None"),
        ({"amount": [1]}, "None"),
        ("amount", "None"),
    ],
)
def test_amount_of_a_call(args: object, text: str) -> None:
    assert str(find_visible_amount(args)) == text


def test_amount_that_the_reader_may_not_see_is_no_amount() -> None:
    with use_masking_rules(build_masking_rules_from_names_and_words(("amount",))):
        assert find_visible_amount({"amount": "40.00"}) is None


def test_amounts_are_added_if_all_have_the_same_currency() -> None:
    euros, dollars = Amount(Decimal("1.5"), "EUR"), Amount(Decimal(1), "USD")
    assert sum_amounts_in_one_currency([euros, euros]) == Amount(Decimal("3.0"), "EUR")
    assert (
        sum_amounts_in_one_currency([euros, dollars])
        is sum_amounts_in_one_currency([euros, None])
        is sum_amounts_in_one_currency([])
        is None
    )


def test_amount_is_found_in_a_sentence_however_it_separates_thousands() -> None:
    amount = Amount(Decimal("26523.00"), "EUR")
    for number in ("26523.00", "26,523.00", "26.523,00"):
        assert is_amount_in_sentence(amount, f"Pay invoice 8841: {number} EUR to Contoso, today.")
    for sentence in ("Pay 26523.00", "Pay 126523.00 EUR", "Pay 26523 EUR", "Pay 26, 523.00 EUR"):
        assert not is_amount_in_sentence(amount, sentence)
    assert not is_amount_in_sentence(None, "Pay 1 EUR")


def test_amounts_of_any_usual_name_are_formatted_in_arguments_and_sentence() -> None:
    args = {"total": "93840.00", "approved_budget": "100000.00", "unitPrice": 1649.0, "totality": "1000.00", "n": 9384}
    shown = ["93,840.00", "100,000.00", "1,649.00", "1000.00", 9384]
    assert [format_amount_argument(name, value) for name, value in args.items()] == shown
    assert format_amounts_in_sentence("Order for 93840.00 EUR of 100000.00, number 1000.00", args) == (
        "Order for 93,840.00 EUR of 100,000.00, number 1000.00"
    )


def test_numbers_of_things_have_separators_and_other_whole_numbers_have_none() -> None:
    args = {"estimated_rows": 1901877, "maxTokens": 4096, "rows": 999, "order": 4410, "invoice": 20981, "users": "1200"}
    assert [format_amount_argument(name, value) for name, value in args.items()] == [
        "1,901,877",
        "4,096",
        999,
        4410,
        20981,
        "1200",
    ]
    with translation.override("de"):
        assert format_amount_argument("estimated_rows", 1901877) == "1.901.877"
