"""Warnings about changed arguments that probably do not suit the tool."""

from typing import Any

import pytest

from harness_site.review.edited_argument_warnings import list_argument_warnings


def list_sentences(before: Any, after: Any) -> list[str]:
    return [warning.sentence for warning in list_argument_warnings(before, after)]


@pytest.mark.parametrize(
    ("name", "before", "after", "kind"),
    [
        ("amount", "40.00", "twenty", "an amount"),
        ("price", 40, None, "an amount"),
        ("price", "4.50", "€ 5.00", "an amount without a currency"),
        ("price", "4.50", "\uff15", "an amount"),
        ("days", 90, "ninety", "a number"),
        ("order", "50012", "A-50012", "a number"),
        ("to", "emma@example.org", "emma-at-example", "an e-mail address"),
        ("due", "2026-12-14", "2026-14-12", "a date"),
        ("at", "2026-12-14T10:00:00+01:00", "tomorrow", "a date"),
        ("currency", "EUR", "1e999", "the code of a currency"),
    ],
)
def test_value_that_lost_its_kind_is_named(name: str, before: Any, after: Any, kind: str) -> None:
    shown = "null" if after is None else after
    expected = f"{name} was {kind}; the new value “{shown}” is not one."
    assert list_sentences({name: before}, {name: after}) == [expected]


@pytest.mark.parametrize(("before", "after"), [(31877, 31.877), (30, 1000.0), ("30", "31.877"), (0, 0.5), (-3, -3.5)])
def test_whole_number_that_became_another_is_named(before: Any, after: Any) -> None:
    expected = f"days was a whole number; the new value “{after}” is not one. A point starts the decimal places."
    assert list_sentences({"days": before}, {"days": after}) == [expected]


@pytest.mark.parametrize(("before", "after"), [("1249.00", "1.249"), (1249.0, 1.249), ("1249.00 EUR", "1.249 EUR")])
def test_amount_with_three_decimal_places_is_named(before: Any, after: Any) -> None:
    expected = "amount now has three or more decimal places. A point starts the decimal places."
    assert list_sentences({"amount": before}, {"amount": after}) == [expected]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("1249.00", "-12490", "amount was positive; the new value is negative."),
        (-40, 40, "amount was negative; the new value is positive."),
        ("1249.00", "12490", "amount is now ten times as much or more."),
        ("1,249.00 EUR", "124900.00 EUR", "amount is now ten times as much or more."),
        (1249.0, 124.9, "amount is now a tenth of what it was or less."),
        ("1249.00", "0", "amount is now a tenth of what it was or less."),
    ],
)
def test_amount_with_another_sign_or_decimal_place_is_named(before: Any, after: Any, expected: str) -> None:
    assert list_sentences({"amount": before}, {"amount": after}) == [expected]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("amount", "40.00", 4.5),
        ("amount", "40.00", "399.99"),
        ("amount", "0.00", "40.00"),
        ("days", 9, 90),
        ("days", 90, "30"),
        ("rate", 0.5, 0.125),
        ("rate", 0.5, 1),
        ("to", "emma@example.org", "ben@example.org"),
        ("due", "2026-12-14", "2026-12-15"),
        ("currency", "EUR", "USD"),
        ("text", "a", "b"),
        ("urgent", True, "yes"),
        ("api_key", "12345678", "other"),
    ],
)
def test_value_of_the_same_kind_or_of_none_is_not_named(name: str, before: Any, after: Any) -> None:
    assert list_argument_warnings({name: before}, {name: after}) == ()


def test_added_argument_is_named_with_its_path() -> None:
    warnings = list_argument_warnings({"options": {"lock": 1}}, {"options": {"lock": 1, "wait": 2}, "note": 1})
    told = "If the tool has no such argument, it may refuse the call."
    assert [(warning.path, warning.sentence) for warning in warnings] == [
        (("options", "wait"), f"The agent did not send options.wait. {told}"),
        (("note",), f"The agent did not send note. {told}"),
    ]


@pytest.mark.parametrize(("before", "after"), [(["a"], {"a": 1}), ({"a": 1}, "a")])
def test_arguments_that_are_no_object_have_no_warnings(before: Any, after: Any) -> None:
    assert list_argument_warnings(before, after) == ()


ITEMS = [{"sku": "LED", "quantity": 300, "price": "1.85"}, {"sku": "CBL", "quantity": 12, "price": "33.50"}]
FEWER = [{**ITEMS[0], "quantity": 250}, ITEMS[1]]


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ({"items": ITEMS, "total_amount": 1829.0}, {"items": FEWER}, "total_amount"),
        ({"items": ITEMS, "orderTotal": "1829.00 EUR"}, {"items": ITEMS[:1]}, "orderTotal"),
        ({"sum": 3, "parts": [1, 2]}, {"parts": [1, 2, 3]}, "sum"),
        ({"total": 3}, {"items": ITEMS}, "total"),
        (
            {"order": {"items": ITEMS, "subtotal": 5}, "total": 5},
            {"order": {"items": FEWER, "subtotal": 5}},
            "order.subtotal",
        ),
    ],
)
def test_sum_that_was_left_although_the_numbers_of_a_list_beside_it_changed_is_named(
    before: Any, after: Any, name: str
) -> None:
    [warning] = [
        each for each in list_argument_warnings(before, {**before, **after}) if "did not send" not in each.sentence
    ]
    assert warning.sentence == f"{name} was not changed. Check whether it still adds up."
    assert not warning.is_shown_at_field


@pytest.mark.parametrize(
    "after",
    [
        {"items": FEWER, "total_amount": 1736.5},
        {"total_amount": 1892.0},
        {"items": [{**ITEMS[0], "sku": "LED-2"}, ITEMS[1]]},
        {"items": ITEMS[::-1]},
        {"to": ["ana@example.org"]},
        {"summary": "12 lamps"},
    ],
)
def test_sum_is_not_named_if_it_was_changed_or_nothing_changed_that_it_may_sum_up(after: Any) -> None:
    before = {"items": ITEMS, "to": ["ben@example.org"], "summary": "9 lamps", "total_amount": 1829.0}
    assert list_sentences(before, {**before, **after}) == []
    assert list_sentences({**before, "total_amount": True}, {**before, "items": FEWER, "total_amount": True}) == []


ROWS = [{"sku": "LED", "quantity": 300, "unit_price": "4.50"}, {"sku": "BOX", "quantity": 20, "unit_price": "23.95"}]

SUM_UNKNOWN = (
    "The rows of items added up to total_amount. Now a value in them is not a number, so the sum cannot be checked."
)


def change_order(total: Any, **changed: Any) -> list[str]:
    """List the warnings for an order of 1829.00 with a changed first row and another total."""
    order = {"items": ROWS, "total_amount": "1829.00"}
    return list_sentences(order, {"items": [{**ROWS[0], **changed}, ROWS[1]], "total_amount": total})


@pytest.mark.parametrize("total", ["1829.00", "1380.00", "1379.10", "9999.00"])
def test_total_that_the_changed_rows_do_not_add_up_to_is_named_with_their_sum(total: str) -> None:
    shown = f"{total[0]},{total[1:]}"
    assert change_order(total, quantity=200) == [f"The rows of items add up to 1,379.00; total_amount is {shown}."]


def test_total_that_the_changed_rows_add_up_to_is_not_doubted() -> None:
    assert change_order("1379.00", quantity=200) == []


def test_changed_total_that_the_same_rows_do_not_add_up_to_is_named() -> None:
    expected = ["The rows of items add up to 1,829.00; total_amount is 1,892.00."]
    assert change_order("1892.00") == expected
    assert change_order("1829.0") == []


@pytest.mark.parametrize("total", ["1829.00", "1000.00"])
@pytest.mark.parametrize("changed", [{"quantity": "many"}, {"unit_price": None}, {"unit_price": "\uff14.50"}])
def test_sum_of_rows_that_cannot_be_checked_any_more_is_said(changed: dict[str, Any], total: str) -> None:
    doubt = (
        "The rows of items added up to total_amount. Now a value in them is not a number, so the sum cannot be checked."
    )
    assert doubt in change_order(total, **changed)


def add_row(**values: Any) -> list[str]:
    order = {"items": ROWS, "total_amount": "1829.00"}
    return list_sentences(order, {"items": [*ROWS, values], "total_amount": "1834.00"})


def test_value_of_an_added_row_of_another_kind_than_in_all_other_rows_is_named() -> None:
    assert add_row(sku="X-1", quantity=2, unit_price="2.50") == []
    assert add_row(sku="X-1", quantity=2, unit_price="2,50") == [
        "items, row 3: unit_price is an amount in the other rows; the value “2,50” is not one.",
        SUM_UNKNOWN,
    ]
    assert add_row(sku="X-1", quantity=2.5, unit_price="2.00") == [
        "items, row 3: quantity is a whole number in the other rows; the value “2.5” is not one. A point starts the"
        " decimal places."
    ]


def test_secret_value_of_an_added_row_is_not_told() -> None:
    before = {"users": [{"name": "Emma", "password": "12"}]}
    assert list_sentences(before, {"users": [*before["users"], {"name": "Ben", "password": "hunter"}]}) == []


def test_total_is_right_if_one_of_its_explanations_holds() -> None:
    """Of one piece, the price and its product with the quantity are the same total."""
    order = {"lines": [{"quantity": 1, "price": 12.5}], "total": 12.5}
    assert list_sentences(order, {"lines": [{"quantity": 2, "price": 12.5}], "total": 25.0}) == []
    expected = ["The rows of lines add up to 25.00; total is 30.00."]
    assert list_sentences(order, {"lines": [{"quantity": 2, "price": 12.5}], "total": 30.0}) == expected


def test_sum_of_secret_values_is_not_told() -> None:
    order = {"items": [{"password": 12, "count": 1}], "total": 12}
    changed = {"items": [{"password": 13, "count": 1}], "total": 12}
    assert list_sentences(order, changed) == ["total was not changed. Check whether it still adds up."]
