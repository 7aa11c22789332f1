"""Amounts that the calls of a tool usually have, beside which that of a waiting call may stand out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal
from statistics import median_low
from typing import Final

from django.db.models.functions import Left, Length
from django.utils.translation import gettext

from checkpoints.enums import CallStatus
from checkpoints.models import ToolCall
from harness_site.core import formatting, masked_formatting
from harness_site.core.money_amounts_in_call_arguments import Amount, find_visible_amount, may_have_amount
from harness_site.review.selectors.pending_calls import COUNT_LIMIT, CallFilters, query_pending_calls

#: Number of the newest calls of a workspace, of all tools, among which completed calls are searched.
_MAX_SEARCHED_CALLS: Final = 500
#: Number of characters of arguments that are read.
_MAX_ARGUMENTS_LENGTH: Final = 4_000
#: Number of other calls without which nothing is usual.
_MIN_OTHER_CALLS: Final = 5
#: How many times the median of the other calls an amount has to be, beside being higher than each of them.
_TIMES_MEDIAN: Final = 5
#: At most one in this many calls that are not completed has an unusual amount; if more have, none is unusual.
_CALLS_FOR_EACH_UNUSUAL_ONE: Final = 5


@dataclass(frozen=True, slots=True)
class UnusualAmount:
    """Amount far above those of `call_count` other calls of its tool, of which `highest` is the highest.

    `are_completed` is whether the others are completed; otherwise they wait or are approved.
    """

    highest: Amount
    call_count: int
    are_completed: bool = True

    @property
    def explanation(self) -> str:
        values = {"number": formatting.format_number(self.call_count), "amount": self.highest}
        if self.are_completed:
            return (
                gettext("The %(number)s newest completed calls of this tool with an amount have at most %(amount)s.")
                % values
            )
        sentence = gettext("%(number)s other calls of this tool that wait or are approved have at most %(amount)s.")
        return sentence % values


class UsualAmounts:
    """Amounts of the newest completed calls of tools, and of those that wait or are approved, in each currency."""

    def __init__(self, completed: Iterable[tuple[str, Amount]], unsettled: Iterable[tuple[str, Amount]] = ()) -> None:
        self._completed, self._unsettled = (
            _group_amounts_by_tool_and_currency(completed),
            _group_amounts_by_tool_and_currency(unsettled),
        )

    def has_too_few_completed_calls(self, tool: str, currency: str) -> bool:
        return len(self._completed.get((tool, currency), ())) < _MIN_OTHER_CALLS

    def find_unusual_amount(self, tool: str, amount: Amount | None) -> UnusualAmount | None:
        """Compare the amount of a call of a tool; None if it is usual, or if too few other calls are known.

        If few calls of the tool are completed, it is compared with those that wait or are approved. They may include
        the call itself and others with an unusual amount.
        """
        if amount is None:
            return None
        if self.has_too_few_completed_calls(tool, amount.currency):
            return self._find_unusual_among_unsettled_calls(tool, amount)
        numbers = self._completed[tool, amount.currency]
        highest = max(numbers)
        if amount.number <= max(highest, _TIMES_MEDIAN * median_low(numbers)):
            return None
        return UnusualAmount(Amount(highest, amount.currency), len(numbers))

    def _find_unusual_among_unsettled_calls(self, tool: str, amount: Amount) -> UnusualAmount | None:
        numbers = self._unsettled.get((tool, amount.currency), [])
        limit = _TIMES_MEDIAN * median_low(numbers) if numbers else 0
        usual = [number for number in numbers if number <= limit]
        has_many_unusual = (len(numbers) - len(usual)) * _CALLS_FOR_EACH_UNUSUAL_ONE > len(numbers)
        if amount.number <= limit or len(usual) < _MIN_OTHER_CALLS or has_many_unusual:
            return None
        return UnusualAmount(Amount(max(usual), amount.currency), len(usual), are_completed=False)


def _group_amounts_by_tool_and_currency(amounts: Iterable[tuple[str, Amount]]) -> dict[tuple[str, str], list[Decimal]]:
    numbers: dict[tuple[str, str], list[Decimal]] = defaultdict(list)
    for tool, amount in amounts:
        numbers[tool, amount.currency].append(amount.number)
    return numbers


def load_usual_amounts(workspace: int, calls: Iterable[ToolCall]) -> UsualAmounts:
    """Load what is usual for the tools of those of these calls that wait and have an amount."""
    waiting = {
        call.pk: (call.tool, amount)
        for call in calls
        if call.undecided and not call.is_question and (amount := _find_amount(call.args)) is not None
    }
    tools = {tool for tool, _amount in waiting.values()}
    if not tools:
        return UsualAmounts(())
    newest = ToolCall.objects.filter(workspace=workspace).order_by("-issued_at", "-pk")[:_MAX_SEARCHED_CALLS]
    others = (
        ToolCall.objects.filter(pk__in=newest.values("pk"))
        .filter(status__in=(CallStatus.COMPLETED, CallStatus.APPROVED), tool__in=tools)
        .annotate(arguments_length=Length("args"))
        .filter(arguments_length__lte=_MAX_ARGUMENTS_LENGTH)
    )
    completed, unsettled = [], dict(waiting)
    for pk, tool, args, status in others.values_list("pk", "tool", "args", "status"):
        if (amount := _find_amount(args)) is None:
            continue
        if status == CallStatus.COMPLETED:
            completed.append((tool, amount))
        else:
            unsettled[pk] = (tool, amount)
    usual_amounts = UsualAmounts(completed)
    few = {
        tool for tool, amount in waiting.values() if usual_amounts.has_too_few_completed_calls(tool, amount.currency)
    }
    if not few:
        return usual_amounts
    return UsualAmounts(completed, {**unsettled, **_load_amounts_of_waiting_approvals(workspace, few)}.values())


def _load_amounts_of_waiting_approvals(workspace: int, tools: Collection[str]) -> dict[int, tuple[str, Amount]]:
    """Load the amounts of calls of these tools among the `COUNT_LIMIT` ones that await approval longest, by key."""
    calls = query_pending_calls(workspace, CallStatus.AWAITING_APPROVAL, CallFilters()).order_by("issued_at", "pk")
    others = calls.annotate(first_arguments=Left("args", _MAX_ARGUMENTS_LENGTH + 1))[:COUNT_LIMIT]
    return {
        pk: (tool, amount)
        for pk, tool, args in others.values_list("pk", "tool", "first_arguments")
        if tool in tools and (amount := _find_amount(args)) is not None
    }


def _find_amount(args: str) -> Amount | None:
    """Find the amount in the JSON of arguments, unless it is long."""
    if len(args) > _MAX_ARGUMENTS_LENGTH or not may_have_amount(args):
        return None
    return find_visible_amount(masked_formatting.parse_json_or_text(args))
