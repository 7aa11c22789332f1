"""The calls to decide first: those that the reader may decide now, in the order of the review queue."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import ngettext

from checkpoints.db import clock
from checkpoints.enums import UNDECIDED_CALL_STATUSES, CallStatus, Risk, Role
from checkpoints.models import ToolCall
from harness_site.accounts.models import Membership
from harness_site.core.call_sentences import format_call_sentence
from harness_site.core.masked_formatting import parse_json_or_text
from harness_site.core.money_amounts_in_call_arguments import find_visible_amount
from harness_site.core.risk_effect_and_idempotency_texts import find_unusual_risk
from harness_site.review.differing_arguments import (
    describe_differing_arguments,
    find_names_of_visibly_differing_arguments,
)
from harness_site.review.load_claims_and_record_presence import load_statuses_of_undecided_calls_handed_to
from harness_site.review.outage_group_rows import format_outage_title
from harness_site.review.outage_page_url import build_outage_page_url
from harness_site.review.selectors import outage_groups, queue_order
from harness_site.review.selectors.outage_groups import Outage
from harness_site.review.selectors.pending_call_counts_by_decider import (
    CallsByDecider,
    list_deadlines_passed_or_within_day,
    list_keys_of_longest_waiting_calls,
    list_statuses_of_calls_handed_to_reader,
)
from harness_site.review.selectors.pending_calls import (
    COUNT_LIMIT,
    TIME_LEFT_BY_FILTER,
    BoundedCount,
    DeadlineFilter,
    get_waiting_since,
    select_deadlines_of_undecided_calls,
)
from harness_site.review.selectors.usual_amounts import UnusualAmount, UsualAmounts, load_usual_amounts


@dataclass(frozen=True, slots=True)
class CallToDecideRow:
    """Row of the list: a call, or the calls of an outage, of which `call` is None. `title` is masked.

    `agents` names the agent of these calls, or says how many agents there are. `deadline` is None unless it is over or
    within the next day, and `is_urgent` says whether it is over or within the next hour. `is_own` says whether the
    reader may decide now, `needs_admin` whether the deadline has passed for this reader, and `is_handed` whether a
    colleague has handed the call, or one of the calls, over to them.
    """

    call: ToolCall | None
    tool: str
    call_pks: tuple[int, ...]
    since: datetime
    is_interrupted: bool
    deadline: datetime | None
    is_urgent: bool
    is_own: bool
    needs_admin: bool
    is_handed: bool
    title: str = ""
    address: str = ""
    agents: str = ""
    #: Arguments, masked, in which the call differs from others of the list that have the same sentence.
    details: str = ""
    #: Its amount if that is far above the usual ones of its tool.
    unusual_amount: UnusualAmount | None = None
    #: Its risk if that is another than its side effects mean, as the review queue shows it.
    risk: Risk | None = None

    @property
    def call_count(self) -> int:
        return len(self.call_pks)

    @property
    def queue_sort_key(self) -> tuple[bool, bool, bool, tuple[datetime, int]]:
        """Sort key of the queue: what was handed over, what is due within a day, outages, what has waited longest."""
        is_due = self.deadline is not None
        waiting = queue_order.build_waiting_sort_key(self.deadline or self.since, min(self.call_pks, default=0))
        return not self.is_handed, not is_due, not is_due and self.call is not None, waiting

    @property
    def deadline_more_than_day_ahead(self) -> datetime | None:
        """Deadline of a call that is not due within a day; None without one."""
        return None if self.call is None or self.deadline is not None else self.call.deadline


@dataclass(frozen=True, slots=True)
class CallsToDecideFirst:
    """The rows, and the number of all calls past their deadline."""

    rows: Sequence[CallToDecideRow]
    overdue: BoundedCount


def load_calls_to_decide_first(
    reader: Membership, waiting: CallsByDecider, agent: str = "", *, limit: int
) -> CallsToDecideFirst:
    """List the calls to decide first with up to eight queries. Calls that were interrupted together are one row.

    The order is that of the review queue: what was handed to the reader, what is due within a day, what was interrupted
    together, and then what has waited longest. What the reader may not decide comes last.

    With `agent`, only the calls of this agent count, and each is a row, as in the queue.

    Args:
        reader: The member who reads the list.
        waiting: The pending calls by who may decide them, from `count_calls_for_reader_and_for_others`.
        agent: The agent whose calls count; empty for all.
        limit: Largest number of rows.
    """
    now = clock.now()
    calls = ToolCall.objects.filter(workspace=reader.workspace_id)
    calls = calls.filter(session__agent=agent) if agent else calls
    deadlines = None if agent else list_deadlines_passed_or_within_day(waiting, now)
    if deadlines is None:
        deadlines = _load_deadlines_over_or_within_day(reader.workspace_id, agent, now)
    overdue = [pk for pk, deadline in deadlines.items() if deadline < now]
    overdue_for_admins = frozenset([] if reader.role == Role.ADMIN else overdue)
    others = waiting.pks_of_others | overdue_for_admins
    can_decide = reader.has_role(Role.APPROVER)
    handed_calls = list_statuses_of_calls_handed_to_reader(waiting, reader, now)
    handed = frozenset(load_statuses_of_undecided_calls_handed_to(reader) if handed_calls is None else handed_calls)
    outages = [] if agent else outage_groups.list_open_outages(reader.workspace)[: outage_groups.MOST_GROUPS]
    grouped = frozenset(chain.from_iterable(outage.call_pks for outage in outages))
    due = [pk for pk in deadlines if pk not in grouped]
    own_due = [pk for pk in due if pk not in others][:limit]
    # Beside these, only calls that the reader cannot decide may be due within a day.
    candidates = {*own_due, *[pk for pk in due if pk in others][:limit], *sorted(others - grouped)[:limit]}
    candidates.update(handed - grouped)
    candidates.update(_list_keys_of_longest_waiting_calls(waiting, calls, grouped | others, agent, limit))
    found = _load_calls_with_agents(calls, candidates)
    rows = [
        CallToDecideRow(
            call,
            call.tool,
            (call.pk,),
            get_waiting_since(call),
            call.interrupted_at is not None,
            deadlines.get(call.pk),
            _is_urgent(deadlines.get(call.pk), now),
            can_decide and call.pk not in others,
            call.pk in overdue_for_admins,
            call.pk in handed,
        )
        for call in found
    ]
    rows += [_build_outage_row(outage, deadlines, others, handed, now, can_decide=can_decide) for outage in outages]
    number = len(overdue)
    own, of_others = [row for row in rows if row.is_own], [row for row in rows if not row.is_own]
    ordered = [*_order_rows_as_in_queue(own), *_order_rows_as_in_queue(of_others)]
    return CallsToDecideFirst(
        _add_risks_and_unusual_amounts(
            reader.workspace_id, _add_titles_and_differing_arguments(_add_agents(ordered[:limit]))
        ),
        BoundedCount(min(number, COUNT_LIMIT), number > COUNT_LIMIT),
    )


def _order_rows_as_in_queue(rows: Sequence[CallToDecideRow]) -> list[CallToDecideRow]:
    """Order the rows as the first tab of the queue does."""
    return sorted(rows, key=lambda row: row.queue_sort_key)


def _add_titles_and_differing_arguments(rows: Sequence[CallToDecideRow]) -> list[CallToDecideRow]:
    """Add the sentences of calls, and the arguments in which calls with the same sentence differ."""
    sentences = [row.title if row.call is None else format_call_sentence(row.call) for row in rows]
    args = [None if row.call is None else parse_json_or_text(row.call.args_json_in_caller_order) for row in rows]
    calls = [(row.call is not None and sentence, own) for row, own, sentence in zip(rows, args, sentences, strict=True)]
    return [
        row
        if row.call is None
        else replace(
            row,
            title=sentence,
            details=_describe_arguments_unlike_alike_calls(
                own, sentence, [each for said, each in calls if said == sentence]
            ),
        )
        for row, own, sentence in zip(rows, args, sentences, strict=True)
    ]


def _add_risks_and_unusual_amounts(workspace: int, rows: Sequence[CallToDecideRow]) -> list[CallToDecideRow]:
    """Add them as the review queue has them: a low risk is not said of an unusual amount, which it seems to deny."""
    usual_amounts = load_usual_amounts(workspace, [row.call for row in rows if row.call is not None])
    return [row if row.call is None else _add_risk_and_unusual_amount(row, row.call, usual_amounts) for row in rows]


def _add_risk_and_unusual_amount(row: CallToDecideRow, call: ToolCall, usual_amounts: UsualAmounts) -> CallToDecideRow:
    amount = find_visible_amount(parse_json_or_text(call.args_json_in_caller_order))
    unusual_amount = usual_amounts.find_unusual_amount(call.tool, amount)
    risk = find_unusual_risk(call)
    return replace(row, unusual_amount=unusual_amount, risk=None if unusual_amount and risk == Risk.LOW else risk)


def _describe_arguments_unlike_alike_calls(own: Any, sentence: str, alike: Sequence[Any]) -> str:
    if not sentence or len(alike) < 2:
        return ""
    return describe_differing_arguments(
        own, find_names_of_visibly_differing_arguments(alike), sentence, is_amount_shown=False
    )


def _add_agents(rows: Sequence[CallToDecideRow]) -> list[CallToDecideRow]:
    """Add the agents of all rows; those of the calls of outages are loaded with one query."""
    pks = sorted(chain.from_iterable(row.call_pks for row in rows if row.call is None))
    agent_of_call = dict(ToolCall.objects.filter(pk__in=pks).values_list("pk", "session__agent")) if pks else {}
    agent_of_call |= {row.call.pk: row.call.session.agent for row in rows if row.call is not None}
    return [
        replace(row, agents=_name_or_count_agents({agent_of_call.get(pk, "") for pk in row.call_pks} - {""}))
        for row in rows
    ]


def _name_or_count_agents(agents: Set[str]) -> str:
    if len(agents) <= 1:
        return "".join(agents)
    return ngettext("%(number)s agent", "%(number)s agents", len(agents)) % {"number": len(agents)}


def _load_deadlines_over_or_within_day(workspace: int, agent: str, now: datetime) -> dict[int, datetime]:
    """Load the deadlines of the calls that are overdue or due within a day, by key, the nearest first."""
    calls = select_deadlines_of_undecided_calls().filter(
        workspace=workspace, due__lt=now + TIME_LEFT_BY_FILTER[DeadlineFilter.DAY]
    )
    calls = calls.filter(session__agent=agent) if agent else calls
    return {pk: deadline for pk, _status, deadline in calls[: COUNT_LIMIT + 1]}


def _list_keys_of_longest_waiting_calls(
    waiting: CallsByDecider, calls: QuerySet[ToolCall], elsewhere: Collection[int], agent: str, limit: int
) -> list[int]:
    """List the keys of the calls that have waited longest, except those that are `elsewhere`: `limit` or a few more."""
    in_order = None if agent else list_keys_of_longest_waiting_calls(waiting, UNDECIDED_CALL_STATUSES)
    if in_order is not None:
        return [pk for pk in in_order if pk not in elsewhere][:limit]
    left = calls.exclude(pk__in=sorted(elsewhere)).order_by(queue_order.WAITING_SINCE, "pk")
    # SQLite limits no part of a union, but what its parts select from.
    interrupted, awaiting = (
        ToolCall.objects.filter(pk__in=left.filter(status=status).values("pk")[:limit]).values_list("pk", flat=True)
        for status in (CallStatus.INTERRUPTED, CallStatus.AWAITING_APPROVAL)
    )
    return list(interrupted.union(awaiting, all=True))


def _load_calls_with_agents(calls: QuerySet[ToolCall], pks: Collection[int]) -> list[ToolCall]:
    """Load those of the calls with these keys, with their agents; no query for no keys."""
    if not pks:
        return []
    columns = ("tool", "args", "args_order", "sentence", "status", "issued_at", "interrupted_at", "decide_within")
    risk_columns = ("risk", "side_effects", "idempotency_key", "call_id")
    found = calls.filter(pk__in=sorted(pks)).select_related("session")
    return list(found.only("session", "session__agent", *columns, *risk_columns))


def _build_outage_row(
    outage: Outage,
    deadlines: Mapping[int, datetime],
    others: frozenset[int],
    handed: frozenset[int],
    now: datetime,
    *,
    can_decide: bool,
) -> CallToDecideRow:
    deadline = min((deadlines[pk] for pk in outage.call_pks if pk in deadlines), default=None)
    return CallToDecideRow(
        None,
        outage.tool,
        outage.call_pks,
        outage.first,
        True,
        deadline,
        _is_urgent(deadline, now),
        can_decide and any(pk not in others for pk in outage.call_pks),
        False,
        not handed.isdisjoint(outage.call_pks),
        format_outage_title(outage),
        build_outage_page_url(outage),
    )


def _is_urgent(deadline: datetime | None, now: datetime) -> bool:
    return deadline is not None and deadline < now + TIME_LEFT_BY_FILTER[DeadlineFilter.HOUR]
