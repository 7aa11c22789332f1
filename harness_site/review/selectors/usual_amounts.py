"""Amounts that the completed calls of a tool usually have, beside which that of a waiting call may stand out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from statistics import median_low
from typing import Final

from django.db.models.functions import Length

from checkpoints.enums import CallStatus
from checkpoints.models import ToolCall
from harness_site.core import formatting
from harness_site.core.money_amounts_in_call_arguments import Amount, find_visible_amount

#: Number of the newest calls of a workspace, of all tools, among which completed calls are searched.
_MAX_SEARCHED_CALLS: Final = 500
#: Number of characters of arguments that are read.
_MAX_ARGUMENTS_LENGTH: Final = 4_000
#: Number of completed calls without which nothing is usual.
_MIN_COMPLETED_CALLS: Final = 5
#: How many times the median of the completed calls an amount has to be, beside being higher than each of them.
_TIMES_MEDIAN: Final = 5


@dataclass(frozen=True, slots=True)
class UnusualAmount:
    """Amount far above those of `call_count` other calls of its tool, of which `highest` is the highest."""

    highest: Amount
    call_count: int


class UsualAmounts:
    """Amounts of the newest completed calls of tools, in each currency."""

    def __init__(self, amounts: Iterable[tuple[str, Amount]]) -> None:
        self._numbers: dict[tuple[str, str], list[Decimal]] = defaultdict(list)
        for tool, amount in amounts:
            self._numbers[tool, amount.currency].append(amount.number)

    def find_unusual_amount(self, tool: str, amount: Amount | None) -> UnusualAmount | None:
        """Compare the amount of a call of a tool; None if it is usual, or if too few other calls are known."""
        numbers = [] if amount is None else self._numbers.get((tool, amount.currency), [])
        if amount is None or len(numbers) < _MIN_COMPLETED_CALLS:
            return None
        highest = max(numbers)
        if amount.number <= max(highest, _TIMES_MEDIAN * median_low(numbers)):
            return None
        return UnusualAmount(Amount(highest, amount.currency), len(numbers))


def load_usual_amounts(workspace: int, calls: Iterable[ToolCall]) -> UsualAmounts:
    """Load what is usual for the tools of those of these calls that wait and have an amount."""
    tools = {
        call.tool
        for call in calls
        if call.undecided
        and not call.is_question
        and len(call.args) <= _MAX_ARGUMENTS_LENGTH
        and find_visible_amount(formatting.parse_json_or_text(call.args)) is not None
    }
    if not tools:
        return UsualAmounts(())
    newest = ToolCall.objects.filter(workspace=workspace).order_by("-issued_at", "-pk")[:_MAX_SEARCHED_CALLS]
    others = (
        ToolCall.objects.filter(pk__in=newest.values("pk"))
        .filter(status=CallStatus.COMPLETED, tool__in=tools)
        .annotate(arguments_length=Length("args"))
        .filter(arguments_length__lte=_MAX_ARGUMENTS_LENGTH)
    )
    found = (
        (tool, find_visible_amount(formatting.parse_json_or_text(args)))
        for tool, args in others.values_list("tool", "args")
    )
    return UsualAmounts((tool, amount) for tool, amount in found if amount is not None)
