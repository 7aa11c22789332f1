"""Numbers as people write them, with thousands separators or a decimal comma: `1,644.00`, `1.644,00`, `31 877`."""

import re
from typing import Final

from django.utils.translation import gettext as _

from harness_site.review.argument_edit_parsing_and_originals import InvalidArgumentText

#: A number as programs write it, maybe with a currency before or after it. `BOX-40` is the number of an article.
_PLAIN: Final = re.compile(
    r"(?P<before>(?:[A-Z]{3}(?![+-])|[€£$]) ?)?(?P<number>[+-]?\d+(?:\.\d+)?)(?P<after> ?(?:[A-Z]{3}|[€£$]))?"
)
#: Groups of three digits with the same separator between all of them, and maybe decimal places after another one.
_GROUPED: Final = re.compile(
    r"(?P<whole>[+-]?[1-9]\d{0,2}(?P<separator>[.,’' \t\u00a0\u2009\u202f])\d{3}(?:(?P=separator)\d{3})*)"
    r"(?:(?!(?P=separator))[.,](?P<decimals>\d+))?"
)
_DECIMAL_COMMA: Final = re.compile(r"(?P<whole>[+-]?\d+),(?P<decimals>\d+)")
_THREE_DECIMAL_PLACES: Final = re.compile(r"\d\.\d{3}")
_CURRENCY_BEFORE: Final = re.compile(r"(?:[A-Z]{3}|[€£$])\s?")
_CURRENCY_AFTER: Final = re.compile(r"\s?(?:[A-Z]{3}|[€£$])\Z")


def is_plain_number_text(text: str) -> bool:
    """Return whether a text is a number without separators, maybe with a currency: `1829.00`, `1829.00 EUR`."""
    return _PLAIN.fullmatch(text.strip()) is not None


def has_currency(text: str) -> bool:
    """Return whether a text begins or ends with a currency: `€ 40`, `40 EUR`."""
    number = text.strip()
    return bool(_CURRENCY_BEFORE.match(number) or _CURRENCY_AFTER.search(number))


def has_three_decimal_places(text: str) -> bool:
    """Return whether a number, or one of several, has three or more decimal places."""
    return _THREE_DECIMAL_PLACES.search(text) is not None


def remove_number_separators(text: str, *, is_point_ambiguous: bool = False) -> str:
    """Return a number without thousands separators and with a decimal point: `1.644,00` becomes `1644.00`.

    A currency before or after it stays. A text that is no number with separators is returned as it is.

    Args:
        text: The text.
        is_point_ambiguous: Whether a single point before three digits may separate thousands, as in `1.700`. Otherwise
            it starts the decimal places.

    Raises:
        InvalidArgumentText: A single comma or point may separate thousands or start the decimal places, as in `1,644`.
    """
    number = text.strip()
    before = _CURRENCY_BEFORE.match(number)
    after = _CURRENCY_AFTER.search(number)
    start, end = before.end() if before else 0, after.start() if after else len(number)
    plain = _convert_to_plain_number(number[start:end], is_point_ambiguous)
    return text if plain is None else f"{number[:start]}{plain}{number[end:]}"


def _convert_to_plain_number(number: str, is_point_ambiguous: bool) -> str | None:
    grouped = _GROUPED.fullmatch(number)
    if grouped is None:
        decimal = _DECIMAL_COMMA.fullmatch(number)
        return decimal and f"{decimal['whole']}.{decimal['decimals']}"
    separator, decimals = grouped["separator"], grouped["decimals"]
    whole = grouped["whole"].replace(separator, "")
    if decimals is None and number.count(separator) == 1 and separator in ".,":
        if separator == "." and not is_point_ambiguous:
            return None
        fraction = number.replace(",", ".")
        if is_point_ambiguous:
            fraction = _write_without_three_decimal_places(fraction)
        raise InvalidArgumentText(
            _("“{number}” can be read as {whole} or as {fraction}. Enter one of these.").format(
                number=number, whole=whole, fraction=fraction
            )
        )
    return whole if decimals is None else f"{whole}.{decimals}"


def _write_without_three_decimal_places(number: str) -> str:
    """Write a number with three decimal places so that its point cannot be read as one that separates thousands."""
    shortened = number.rstrip("0").removesuffix(".")
    return f"{number}0" if shortened == number else shortened
