"""Amounts of money, counts and tokens as the pages show them."""

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache

from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext, ngettext

from harness_site.core import formatting
from harness_site.core.rendering.fast_format_html import build_html

_CENT = Decimal("0.01")
_MICRO = Decimal("0.000001")
_MILLION = 1_000_000


def format_count(number: int) -> str:
    """Format a whole number with the separators of the reader's language."""
    return formatting.format_number(number)


def format_count_with_share(part: int, whole: int) -> str:
    """Format a part with its share of the whole: 12 (0.4 %)."""
    if not part or not whole:
        return format_count(part)
    percent = 100 * part / whole
    share = formatting.format_number(percent, 0) if percent >= 9.95 else formatting.format_number(max(percent, 0.1), 1)
    return f"{format_count(part)} ({share} %)"


def format_signed_number(number: int) -> str:
    """Format a number with its sign: +3, −2, 0."""
    return f"{'+' if number > 0 else '−' if number < 0 else ''}{format_count(abs(number))}"


def format_money(amount: Decimal | None, digits: int | None = None) -> str:
    """Format an amount in US dollars in the reader's language: $0.031 or 0,031 $.

    Args:
        amount: The amount; None if it is unknown.
        digits: Number of decimal places; by default as many as the amount needs.
    """
    if amount is None:
        return "–"
    return _format_money_in_language(amount, digits, get_language())


@lru_cache(maxsize=4_096)
def _format_money_in_language(amount: Decimal, digits: int | None, _language: str | None) -> str:
    """Format an amount in the current language, which is a part of the key of the cache."""
    rounded = amount.quantize(_MICRO, rounding=ROUND_HALF_UP)
    digits = count_decimal_places_of_amount(amount) if digits is None else digits
    # Translators: an amount in US dollars; German puts the sign after the number: 0,06 $
    return gettext("$%(amount)s") % {"amount": formatting.format_number(rounded, digits)}


def count_decimal_places_of_amount(amount: Decimal) -> int:
    """Count the decimal places that an amount in US dollars needs: two to six."""
    exact = amount.quantize(_MICRO, rounding=ROUND_HALF_UP).normalize()
    return 2 if exact == exact.quantize(_CENT, rounding=ROUND_HALF_UP) else -int(exact.as_tuple().exponent)


def count_common_decimal_places(amounts: Iterable[Decimal | None]) -> int:
    """Count the decimal places with which each of the known amounts can be written exactly, so that they align."""
    return max((count_decimal_places_of_amount(amount) for amount in amounts if amount is not None), default=2)


def render_rounded_money(amount: Decimal | None) -> SafeString | str:
    """Format an amount in US dollars with cents; the exact amount is shown on hover if it differs."""
    if amount is None:
        return format_money(None)
    cents = amount.quantize(_CENT, rounding=ROUND_HALF_UP)
    rounded = format_money(cents)
    if amount == cents:
        return rounded
    exact = format_money(amount)
    shown = f"< {format_money(_CENT)}" if 0 < amount < _CENT / 2 else rounded
    return rounded if shown == exact else build_html('<span title="{}">{}</span>', exact, shown)


def render_cost_or_tokens(amount: Decimal | None, tokens: int) -> SafeString | str:
    """Format an amount in US dollars with cents; where it is unknown, the number of tokens says how much was used.

    Millions are rounded, and the exact number is shown on hover.
    """
    if amount is not None or not tokens:
        return render_rounded_money(amount)
    exact = ngettext("%(number)s token", "%(number)s tokens", tokens) % {"number": format_count(tokens)}
    shown = exact
    if tokens >= _MILLION:
        # Translators: a rounded number of tokens: 18.6 M tokens
        shown = gettext("%(number)s M tokens") % {"number": formatting.format_number(Decimal(tokens) / _MILLION, 1)}
    title = gettext("%(tokens)s, the cost is unknown") % {"tokens": exact}
    return build_html('<span class="muted" title="{}">{}</span>', title, shown)


def format_copied_cost(amount: Decimal) -> str:
    """Say how much of a cost in US dollars a fork has from its original; empty if it has nothing."""
    # Translators: an amount beside the cost of a fork: + $0.005 copied from the original
    return gettext("+ %(amount)s copied from the original") % {"amount": format_money(amount)} if amount else ""


def format_copied_cost_briefly(amount: Decimal) -> str:
    """Say the same in a narrow column."""
    # Translators: an amount under the cost of a fork, in a narrow column: + $0.005 copied
    return gettext("+ %(amount)s copied") % {"amount": format_money(amount)} if amount else ""


def format_copied_tokens(tokens: int) -> str:
    """Say how many tokens a fork has from its original; empty if it has none."""
    if not tokens:
        return ""
    # Translators: a number of tokens beside those of a fork: + 1,200 copied from the original
    return gettext("+ %(number)s copied from the original") % {"number": format_count(tokens)}


def format_money_delta(amount: Decimal | None, digits: int | None = None) -> str:
    """Format a difference of amounts in US dollars with its sign; `digits` as in `format_money`."""
    if amount is None:
        return "–"
    sign = "+" if amount > 0 else "−" if amount < 0 else ""
    return f"{sign}{format_money(abs(amount), digits)}"
