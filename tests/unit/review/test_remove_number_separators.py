"""Numbers as people write them, with thousands separators or a decimal comma."""

import re

import pytest

from harness_site.review.argument_edit_parsing_and_originals import InvalidArgumentText
from harness_site.review.remove_number_separators import is_plain_number_text, remove_number_separators


@pytest.mark.parametrize(
    ("typed", "number"),
    [
        ("1,644.00", "1644.00"),
        ("1.644,00", "1644.00"),
        (" -1,234,567.5 ", "-1234567.5"),
        ("1,234,567", "1234567"),
        ("1.234.567", "1234567"),
        ("31 877", "31877"),
        ("31\u00a0877,500", "31877.500"),
        ("31\u202f877,50 EUR", "31877.50 EUR"),
        ("1’644.00", "1644.00"),
        ("€ 1,644.00", "€ 1644.00"),
        ("1829,50", "1829.50"),
        ("1829,500", "1829.500"),
        ("0,125", "0.125"),
        ("4.75 ", "4.75"),
        ("\u00a04.75 EUR\n", "4.75 EUR"),
        ("\uff11\uff12", "12"),
        ("\uff11\uff0c\uff16\uff14\uff14\uff0e\uff10\uff10", "1644.00"),
    ],
)
def test_number_with_separators_becomes_the_one_that_it_means(typed: str, number: str) -> None:
    assert remove_number_separators(typed) == number


@pytest.mark.parametrize(
    "typed",
    [
        "1644.00",
        "1.644",
        "12,34,567",
        "1,64.00",
        "1,644,00",
        "300\n400",
        "47 55 00 12",
        "1.2.3",
        "EUR",
        "",
        "a",
        " a ",
        "\u0661\u0662",
        "\u00bd",
    ],
)
def test_other_text_stays_as_it_is(typed: str) -> None:
    assert remove_number_separators(typed) == typed


@pytest.mark.parametrize("typed", ["1,644", "-31,877 EUR"])
def test_comma_before_three_digits_is_ambiguous(typed: str) -> None:
    with pytest.raises(InvalidArgumentText, match=r"can be read as .* or as .*\. Enter one of these\."):
        remove_number_separators(typed)


@pytest.mark.parametrize(
    ("typed", "decimal_places", "fraction"),
    [
        ("1.700", 0, "1.7"),
        ("1.700", 2, "1.70"),
        ("1.234", 2, "1.2340"),
        ("-31.870 EUR", 1, "-31.87"),
        ("2.000", 0, "2"),
        ("2.000", 2, "2.00"),
    ],
)
def test_point_before_three_digits_is_ambiguous_where_it_may_separate_thousands(
    typed: str, decimal_places: int, fraction: str
) -> None:
    with pytest.raises(InvalidArgumentText, match=rf" or as {re.escape(fraction)}\. Enter one of these\."):
        remove_number_separators(typed, decimal_places=decimal_places)
    assert remove_number_separators(fraction, decimal_places=decimal_places) == fraction


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1829.00", True),
        ("-5", True),
        ("1829.00 EUR", True),
        ("EUR -40", True),
        ("€40", True),
        ("1,829.00", False),
        ("lamp", False),
        ("BOX-40", False),
        ("\uff11\uff12", False),
    ],
)
def test_plain_number_is_recognized(text: str, expected: bool) -> None:
    assert is_plain_number_text(text) is expected
