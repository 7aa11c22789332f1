"""Amounts of money in the arguments of calls, for lists in which calls are compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from harness_site.core import formatting
from harness_site.core.masking.masker import MASK, mask_secret_fields_only, mask_text

#: Names of arguments that hold the amount of a call, the most telling first.
_NAMES: Final = ("amount", "total_amount", "total_price", "price")
#: Last words of the names of arguments that hold any amount of money: `unit_price`, `approvedBudget`.
_AMOUNT_WORDS: Final = frozenset(
    {"amount", "balance", "budget", "cost", "deposit", "fee", "price", "subtotal", "total"}
)
#: Last words of the names of arguments that hold how many there are of something: `estimated_rows`, `maxTokens`.
#: Other whole numbers may be those of an order or an invoice, which have no separators.
_COUNT_WORDS: Final = frozenset(
    {"count", "customers", "emails", "files", "lines", "messages", "recipients", "records", "rows", "tokens", "users"}
)
_END_OF_WORD_IN_NAME: Final = re.compile(r"[_\W]+|(?<=[a-z])(?=[A-Z])")
#: Number of arguments among which a sentence may say an amount.
_MAX_SEARCHED_ARGUMENTS: Final = 50
#: A number, maybe with a currency before or after it: `40.00`, `40.00 EUR`, `€40`, `12,480.00`. Commas count only
#: before a decimal point, because `12,480` is another number in other countries.
_AMOUNT: Final = re.compile(
    r"(?P<before>[A-Z]{3}|[€£$])? ?(?P<number>-?(?:\d{1,15}(?:\.\d{1,6})?|\d{1,3}(?:,\d{3}){1,4}\.\d{1,6})) ?"
    r"(?P<after>[A-Z]{3}|€)?",
    re.ASCII,
)
#: A number in a sentence, with separators of any language.
GROUPED_NUMBER: Final = re.compile(r"\d+(?:[.,\u00a0\u202f]\d+)*")
_CURRENCY_AT_END: Final = re.compile(r"(?:\b[A-Z]{3} ?|[€£$] ?)\Z")
_CURRENCY_AT_START: Final = re.compile(r" ?(?:[A-Z]{3}\b|[€£$])")
_CURRENCY: Final = re.compile(r"[A-Za-z]{3}")
_CURRENCY_OF_SYMBOL: Final = {"€": "EUR", "£": "GBP"}


@dataclass(frozen=True, slots=True)
class Amount:
    """Number of units of `currency`, which is empty if the arguments do not name it."""

    number: Decimal
    currency: str

    def __str__(self) -> str:
        return f"{_format_number(self.number)} {self.currency}".rstrip()


def is_amount_in_sentence(amount: Amount | None, sentence: str) -> bool:
    """Return whether a sentence has this amount with its currency, in whatever way its thousands are separated."""
    if amount is None or amount.currency not in sentence:
        return False
    digits = re.sub(r"\D", "", str(amount))
    return any(re.sub(r"\D", "", number) == digits for number in GROUPED_NUMBER.findall(sentence))


def list_readings_of_number(text: str) -> set[str]:
    """Return the numbers that `text` may be, without separators of thousands and zeros at the end of a fraction.

    `12.480` is one with a fraction, or one with thousands. What is no such number, such as `1.5.2`, is itself.
    """
    readings = {text}
    *thousands, last = re.split(r"\D", text)
    if _are_groups_of_thousands([*thousands, last]):
        readings.add("".join([*thousands, last]))
    if thousands and _are_groups_of_thousands(thousands):
        fraction = last.rstrip("0")
        readings.add("".join(thousands) + (f".{fraction}" if fraction else ""))
    return readings


def _are_groups_of_thousands(groups: Sequence[str]) -> bool:
    return all(len(group) == 3 for group in groups[1:])


def _format_number(number: Decimal) -> str:
    """Format a number with the separators of the reader's language, and with cents unless it is whole."""
    exponent = number.as_tuple().exponent
    places = max(2, -exponent) if isinstance(exponent, int) and exponent < 0 else 0
    return formatting.format_number(number, places)


def format_amount_argument(name: str, value: Any) -> Any:
    """Return the value of an argument with separators and cents if it is an amount: 26523.0 becomes 26,523.00.

    A whole number of things, by the name of the argument, has separators: 1901877 rows become 1,901,877.

    Args:
        name: Name of the argument.
        value: Value of the argument. It is returned as it is if it is neither.
    """
    if type(value) is int and value >= 1000 and _get_last_word(name) in _COUNT_WORDS:
        return formatting.format_number(value)
    match = _match_amount(value) if _is_amount_name(name) else None
    if match is None:
        return value
    text, number = match.string, _parse_number(match)
    return f"{text[: match.start('number')]}{_format_number(number)}{text[match.end('number') :]}"


def is_amount_argument(name: str, value: Any) -> bool:
    """Return whether an argument is an amount, by its name and its value."""
    return _is_amount_name(name) and _match_amount(value) is not None


def parse_amount_argument(name: str, value: Any) -> Decimal | None:
    """Return the number of an argument without its currency; None if the argument is no amount."""
    match = _match_amount(value) if _is_amount_name(name) else None
    return None if match is None else _parse_number(match)


def format_two_amounts(name: str, before: Any, after: Any) -> tuple[str, str] | None:
    """Return two values of an argument in the form in which amounts are displayed.

    Returns:
        None if neither is an amount, if one is a number and the other a text, if only one of them is stored with
        separators, or if both have the same form. Of two texts, one may be no amount: it is returned as it is.
    """
    if (
        not _is_amount_name(name)
        or type(before) is not type(after)
        or not (_match_amount(before) or _match_amount(after))
        or ("," in str(before)) != ("," in str(after))
    ):
        return None
    shown = str(format_amount_argument(name, before)), str(format_amount_argument(name, after))
    return None if shown[0] == shown[1] else shown


def format_amounts_in_sentence(sentence: str, args: Any) -> str:
    """Return the sentence of a call with separators and cents where it says amounts among its arguments.

    A whole number may also be that of something else, such as an order. It is formatted beside a currency only.
    """
    arguments = islice(args.items(), _MAX_SEARCHED_ARGUMENTS) if isinstance(args, dict) else ()
    for name, value in arguments:
        formatted = format_amount_argument(name, value)
        if formatted is not value:
            sentence = _replace_amount_in_sentence(sentence, str(value).strip(), formatted)
    return sentence


def _replace_amount_in_sentence(sentence: str, stored: str, formatted: str) -> str:
    return re.sub(
        rf"(?<![\w.,]){re.escape(stored)}(?!\w|[.,]\d)",
        lambda said: formatted if not stored.isdecimal() or _is_beside_currency(said) else said[0],
        sentence,
    )


def _is_beside_currency(number: re.Match[str]) -> bool:
    before, after = number.string[: number.start()], number.string[number.end() :]
    return bool(_CURRENCY_AT_END.search(before) or _CURRENCY_AT_START.match(after))


def find_visible_amount(args: Any) -> Amount | None:
    """Find the amount of a call in its arguments; None if there is none, or if it is secret to the current reader."""
    name = find_amount_argument_name(args)
    if name is None:
        return None
    found = _parse_amount(args[name], args.get("currency"))
    if found is None or _is_masked_for_reader(name, args[name]):
        return None
    return found


def may_have_amount(args: str) -> bool:
    """Return whether the JSON of arguments may hold the amount of a call, without parsing it."""
    return "amount" in args or "price" in args or "\\" in args


def find_amount_argument_name(args: Any) -> str | None:
    """Return the name of the argument that holds the amount of a call; None if there is none."""
    return next((name for name in _NAMES if name in args), None) if isinstance(args, dict) else None


def _is_masked_for_reader(name: str, value: Any) -> bool:
    return mask_secret_fields_only({name: value})[name] == MASK or mask_text(str(value)) != str(value)


def _is_amount_name(name: str) -> bool:
    return _get_last_word(name) in _AMOUNT_WORDS


def _get_last_word(name: str) -> str:
    return _END_OF_WORD_IN_NAME.split(name)[-1].lower()


def _match_amount(value: Any) -> re.Match[str] | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return _AMOUNT.fullmatch(str(value).strip())


def _parse_number(match: re.Match[str]) -> Decimal:
    return Decimal(match["number"].replace(",", ""))


def _parse_amount(value: Any, currency: Any) -> Amount | None:
    match = _match_amount(value)
    if match is None:
        return None
    unit = match["before"] or match["after"] or ""
    if not unit and isinstance(currency, str) and _CURRENCY.fullmatch(currency):
        unit = currency.upper()
    return Amount(_parse_number(match), _CURRENCY_OF_SYMBOL.get(unit, unit))


def sum_amounts_in_one_currency(amounts: Iterable[Amount | None]) -> Amount | None:
    """Add the amounts of several calls; None if one has none, or if their currencies differ."""
    found = list(amounts)
    first = found[0] if found else None
    if first is None:
        return None
    total = Decimal()
    for amount in found:
        if amount is None or amount.currency != first.currency:
            return None
        total += amount.number
    return Amount(total, first.currency)
