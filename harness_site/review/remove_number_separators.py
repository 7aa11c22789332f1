"""Numbers as people write them, with thousands separators or a decimal comma: `1,644.00`, `1.644,00`, `31 877`."""

import re
import unicodedata
from typing import Final

from django.utils.translation import gettext as _

from harness_site.review.argument_edit_parsing_and_originals import InvalidArgumentText

#: A number as programs write it, maybe with a currency before or after it. `BOX-40` is the number of an article.
_PLAIN: Final = re.compile(
    r"(?P<before>(?:[A-Z]{3}(?![+-])|[€£$]) ?)?(?P<number>[+-]?\d+(?:\.\d+)?)(?P<after> ?(?:[A-Z]{3}|[€£$]))?",
    re.ASCII,
)
#: Groups of three digits with the same separator between all of them, and maybe decimal places after another one.
_GROUPED: Final = re.compile(
    r"(?P<whole>[+-]?[1-9]\d{0,2}(?P<separator>[.,’' \t])\d{3}(?:(?P=separator)\d{3})*)"
    r"(?:(?!(?P=separator))[.,](?P<decimals>\d+))?",
    re.ASCII,
)
_DECIMAL_COMMA: Final = re.compile(r"(?P<whole>[+-]?\d+),(?P<decimals>\d+)", re.ASCII)
#: Number of digits between two separators of thousands.
_SIZE_OF_GROUP: Final = 3
_DECIMAL_PLACES: Final = re.compile(r"\d\.(\d+)")
_CURRENCY_BEFORE: Final = re.compile(r"(?:[A-Z]{3}|[€£$])\s?")
_CURRENCY_AFTER: Final = re.compile(r"\s?(?:[A-Z]{3}|[€£$])\Z")


def is_plain_number_text(text: str) -> bool:
    """Return whether a text is a number without separators, maybe with a currency: `1829.00`, `1829.00 EUR`."""
    return _PLAIN.fullmatch(text.strip()) is not None


def has_currency(text: str) -> bool:
    """Return whether a text begins or ends with a currency: `€ 40`, `40 EUR`."""
    number = text.strip()
    return bool(_CURRENCY_BEFORE.match(number) or _CURRENCY_AFTER.search(number))


def count_decimal_places(text: str) -> int:
    """Return how many decimal places a number has, or the one of several that has most."""
    return max(map(len, _DECIMAL_PLACES.findall(text)), default=0)


def remove_number_separators(text: str, *, decimal_places: int = 3) -> str:
    """Return a number as programs write it: `1.644,00` becomes `1644.00`, and `１２` becomes `12`.

    Thousands separators and spaces around the number are removed, and its point and digits are those of ASCII. A
    currency before or after it stays. A text that is no number is returned as it is.

    Args:
        text: The text.
        decimal_places: How many decimal places such a number has. If these are fewer than three, a single point before
            three digits may separate thousands, as in `1.700`. Otherwise it starts the decimal places.

    Raises:
        InvalidArgumentText: A single comma or point may separate thousands or start the decimal places, as in `1,644`.
    """
    number = unicodedata.normalize("NFKC", text.strip())  # full-width digits, and spaces that separate thousands
    before = _CURRENCY_BEFORE.match(number)
    after = _CURRENCY_AFTER.search(number)
    start, end = before.end() if before else 0, after.start() if after else len(number)
    plain = _convert_to_plain_number(number[start:end], decimal_places)
    if plain is None:
        return number if is_plain_number_text(number) else text
    return f"{number[:start]}{plain}{number[end:]}"


def _convert_to_plain_number(number: str, decimal_places: int) -> str | None:
    grouped = _GROUPED.fullmatch(number)
    if grouped is None:
        decimal = _DECIMAL_COMMA.fullmatch(number)
        return decimal and f"{decimal['whole']}.{decimal['decimals']}"
    separator, decimals = grouped["separator"], grouped["decimals"]
    whole = grouped["whole"].replace(separator, "")
    if decimals is None and number.count(separator) == 1 and separator in ".,":
        if separator == "." and decimal_places >= _SIZE_OF_GROUP:
            return None
        fraction = number.replace(",", ".")
        if decimal_places < _SIZE_OF_GROUP:
            fraction = _write_without_three_decimal_places(fraction, decimal_places)
        raise InvalidArgumentText(
            _("“{number}” can be read as {whole} or as {fraction}. Enter one of these.").format(
                number=number, whole=whole, fraction=fraction
            )
        )
    return whole if decimals is None else f"{whole}.{decimals}"


def _write_without_three_decimal_places(number: str, decimal_places: int) -> str:
    """Write a number that has three decimal places with fewer if these are enough, else with four."""
    whole, _point, decimals = number.partition(".")
    enough = decimals.rstrip("0").ljust(decimal_places, "0")
    if len(enough) == _SIZE_OF_GROUP:
        enough += "0"
    return f"{whole}.{enough}" if enough else whole
