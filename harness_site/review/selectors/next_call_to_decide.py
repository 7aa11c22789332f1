"""Search for the call that a reader should decide next, or that comes next in their list."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from itertools import count, islice
from typing import Any, Final

from django.db.models import Q, QuerySet

from checkpoints.db import clock
from checkpoints.enums import UNDECIDED_CALL_STATUSES, CallStatus
from checkpoints.models import ToolCall
from harness_site.accounts.models import Membership
from harness_site.review.load_claims_and_record_presence import build_claimed_call_condition
from harness_site.review.selectors import queue_order
from harness_site.review.selectors.pending_call_counts_by_decider import (
    choose_decider_group,
    map_calls_answered_by_reader_to_disagreement,
    select_decider_columns,
)
from harness_site.review.selectors.pending_calls import (
    TIME_LEFT_BY_FILTER,
    CallFilters,
    DeadlineFilter,
    get_waiting_since,
    query_pending_calls,
    select_undecided_calls,
)
from harness_site.review.selectors.queue_order import QueueSort

#: Number of calls that are searched with one query for the next one of the reader.
_SEARCHED_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class CallOfList:
    """Call of a list that comes after another one; `is_list_begun_again` says that it stands above that one."""

    call: ToolCall
    is_list_begun_again: bool


def find_next_call_to_decide(
    reader: Membership,
    *,
    after: ToolCall | None = None,
    except_calls: Collection[int] = (),
) -> ToolCall | None:
    """Find the call that the reader should decide next among those that count as the reader's own.

    Urgent calls come first, then those that are due within a day, then the longest waiting ones. Calls that somebody
    else has claimed come last.

    Args:
        reader: The member who decides.
        after: The call that the reader has before them: calls of the same tab of the queue, which asks the same
            question, come before the others.
        except_calls: Keys of calls that are left out.
    """
    excluded = {*except_calls, *([] if after is None else [after.pk])}
    unclaimed = ~build_claimed_call_condition() | build_claimed_call_condition(by=reader)
    found = _find_reader_most_urgent_or_oldest_calls(reader, unclaimed, excluded)
    found = found or _find_reader_most_urgent_or_oldest_calls(reader, Q(), excluded)
    is_approval = after is not None and after.interrupted_at is None
    return min(
        found,
        key=lambda call: (after is not None and (call.interrupted_at is None) != is_approval, get_waiting_since(call)),
        default=None,
    )


def find_call_below_in_list(
    reader: Membership, call: ToolCall, filters: CallFilters, sort: QueueSort, statuses: Collection[CallStatus]
) -> CallOfList | None:
    """Find the call that comes after `call` in the list of waiting calls that the reader has filtered or sorted.

    It counts as the reader's own, and nobody else has claimed it, unless somebody has claimed each. After the last
    call, the list begins again.
    """
    now = clock.now()
    is_due_first = sort == QueueSort.OLDEST and filters.limit is None
    calls = query_pending_calls(reader.workspace, None, filters).filter(status__in=sorted(statuses))
    ordered = queue_order.order_queue_calls_from_row_below(
        calls.exclude(pk=call.pk),
        sort,
        call,
        due_first_before=now + TIME_LEFT_BY_FILTER[DeadlineFilter.DAY] if is_due_first else None,
    )
    unclaimed = ~build_claimed_call_condition() | build_claimed_call_condition(by=reader)
    pks = _list_first_pk_reader_may_decide(ordered.filter(unclaimed), reader, now)
    pks = pks or _list_first_pk_reader_may_decide(ordered, reader, now)
    found: Any = ordered.filter(pk__in=pks).first()
    return None if found is None else CallOfList(found, is_list_begun_again=found.place_above == 1)


def _find_reader_most_urgent_or_oldest_calls(
    reader: Membership, condition: Q, excluded: Collection[int]
) -> list[ToolCall]:
    """Return the most urgent call; if no call is urgent, of each status the one that is due first within a day.

    Without one that is due, it is the longest waiting one.
    """
    now = clock.now()
    pks: list[int] = []
    for status in sorted(UNDECIDED_CALL_STATUSES):
        calls = select_undecided_calls(status).filter(condition, workspace=reader.workspace_id)
        calls = calls.exclude(pk__in=excluded)
        calls = calls.alias(due=queue_order.build_deadline_expression())
        soon = calls.filter(due__lt=now + TIME_LEFT_BY_FILTER[DeadlineFilter.DAY]).order_by("due", "pk")
        pks += _list_first_pk_reader_may_decide(soon, reader, now) or _list_first_pk_reader_may_decide(
            calls.order_by(queue_order.WAITING_SINCE, "pk"), reader, now
        )
    found = ToolCall.objects.in_bulk(pks).values()
    end_of_hour = now + TIME_LEFT_BY_FILTER[DeadlineFilter.HOUR]
    urgent = [call for call in found if call.deadline is not None and call.deadline < end_of_hour]
    return sorted(urgent, key=lambda call: (call.deadline or now, call.pk))[:1] or list(found)


def _list_first_pk_reader_may_decide(calls: QuerySet[ToolCall], reader: Membership, now: datetime) -> list[int]:
    """List the key of the first of these calls that counts as the reader's own; empty if none does."""
    columns = select_decider_columns(calls)
    for start in count(step=_SEARCHED_AT_ONCE):
        found = list(columns[start : start + _SEARCHED_AT_ONCE])
        answered = map_calls_answered_by_reader_to_disagreement(
            reader, [call.pk for call in found if call.approvals > 1]
        )
        own = (call.pk for call in found if choose_decider_group(call, reader, answered, now) == "reader")
        if first := list(islice(own, 1)):
            return first
        if len(found) < _SEARCHED_AT_ONCE:
            break
    return []
