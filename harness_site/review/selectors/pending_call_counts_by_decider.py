"""Numbers of the pending calls by who may decide them now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias

from django.db.models import F, QuerySet

from checkpoints.db import clock
from checkpoints.enums import UNDECIDED_CALL_STATUSES, ActorKind, CallStatus, DecisionKind, Role
from checkpoints.models import Decision, ToolCall
from checkpoints.models.tool_calls_and_results import compute_decision_deadline
from harness_site.accounts.map_decisions_to_eligible_votes import build_eligible_vote_mapper
from harness_site.accounts.models import Membership
from harness_site.core.unreadable_rows_and_quarantine import call_or_use_fallback
from harness_site.review.load_claims_and_record_presence import HANDED_FOR
from harness_site.review.selectors import queue_order
from harness_site.review.selectors.pending_calls import (
    COUNT_LIMIT,
    TIME_LEFT_BY_FILTER,
    BoundedCount,
    DeadlineFilter,
    DueCalls,
    build_due_calls,
    count_pending_calls,
    select_undecided_calls,
)
from harness_site.sessions.selectors.multi_person_decisions import Agreement, load_incomplete_agreements_of_calls

Decider: TypeAlias = Literal["reader", "admin", "others", "receiver", "nobody"]


@dataclass(frozen=True, slots=True)
class CallsByDecider:
    """Numbers of the pending calls of a workspace, from the view of one member.

    `own` are those that the member may decide now; of a member who never decides, all. Beside them are calls past their
    deadline, which only an admin decides (`need_admin`), calls on which the member has decided and others have to agree
    (`need_others`), those that the member has handed over (`handed_over`), and calls of quarantined sessions, which
    nobody decides.
    """

    own: BoundedCount
    need_admin: int
    need_others: int
    quarantined: int
    #: Numbers by status; None if there are more calls than were counted.
    numbers_by_status: Mapping[str, int] | None = None
    #: Keys of the calls that the member has handed over, with the names of those who have them.
    handed_over: Mapping[int, str] = field(default_factory=dict)
    #: Keys of the counted calls that the member may not decide now.
    pks_of_others: frozenset[int] = frozenset()
    #: Keys of the counted calls that the member has answered: they wait for others, or people disagree.
    pks_answered: frozenset[int] = frozenset()
    #: The same numbers of the calls of each status; empty if there are more calls than were counted.
    by_status: Mapping[str, CallsByDecider] = field(default_factory=dict)
    #: All calls that wait, as `select_decider_columns` has them; None if there are more than were counted.
    all_calls: Sequence[Any] | None = None
    #: Status that all of the first calls have, if there are more than were counted; else empty.
    status_of_all_counted: str = ""

    @property
    def has_calls_member_may_not_decide(self) -> bool:
        """Whether calls wait that the member may not decide now."""
        return bool(self.need_admin or self.need_others or self.handed_over or self.quarantined)

    @property
    def total(self) -> BoundedCount:
        others = self.need_admin + self.need_others + len(self.handed_over) + self.quarantined
        return self.own + BoundedCount(others)

    @property
    def only_receiver(self) -> str:
        """Name of the person to whom the member has handed all these calls over; empty if there are several."""
        names = set(self.handed_over.values())
        return names.pop() if len(names) == 1 else ""


#: What a member sees of no calls.
_NO_CALLS: Final = CallsByDecider(BoundedCount(0), 0, 0, 0, {})


def count_calls_for_reader_and_for_others(reader: Membership) -> CallsByDecider:
    """Count the pending calls of the reader's workspace, up to `COUNT_LIMIT`: one query, or up to five if calls need
    several people. With a row that cannot be read, all count as the reader's."""
    if reader.role != Role.AUDITOR:
        counts = call_or_use_fallback("Who may decide the calls", lambda: _count_calls_by_decider(reader), None)
        if counts is not None:
            return counts
    return CallsByDecider(count_pending_calls(reader.workspace), 0, 0, 0)


def _count_calls_by_decider(reader: Membership) -> CallsByDecider:
    found = list(_select_undecided_calls_for_deciders().filter(workspace=reader.workspace_id)[: COUNT_LIMIT + 1])
    has_more, calls = len(found) > COUNT_LIMIT, found[:COUNT_LIMIT]
    answered = map_calls_answered_by_reader_to_disagreement(reader, [call.pk for call in calls if call.approvals > 1])
    now = clock.now()
    groups = {call.pk: choose_decider_group(call, reader, answered, now) for call in calls}
    receivers = _load_names_of_receivers([call for call in calls if groups[call.pk] == "receiver"])
    if has_more:
        statuses = {call.status for call in found}
        status_of_all = statuses.pop() if len(statuses) == 1 else ""
        counted = _build_call_counts_by_decider(calls, groups, answered, receivers, has_more=True)
        return replace(counted, status_of_all_counted=status_of_all)
    counted = _build_call_counts_by_decider(calls, groups, answered, receivers)
    by_status: dict[str, CallsByDecider] = {}
    for status in UNDECIDED_CALL_STATUSES:
        of_status = [call for call in calls if call.status == status]
        if len(of_status) == len(calls):
            by_status[status] = counted
        elif not of_status:
            by_status[status] = _NO_CALLS
        else:
            by_status[status] = _build_call_counts_by_decider(of_status, groups, answered, receivers)
    return replace(counted, by_status=by_status, all_calls=calls)


def _load_names_of_receivers(calls: Sequence[Any]) -> dict[int, str]:
    """Load the names of those to whom these calls were handed over, by key of the call; no query for no calls."""
    if not calls:
        return {}
    members = Membership.objects.filter(pk__in={call.claim__member for call in calls})
    names = dict(members.values_list("pk", "user__username"))
    return {call.pk: names.get(call.claim__member, "") for call in calls}


def _build_call_counts_by_decider(
    calls: Sequence[Any],
    group_by_pk: Mapping[int, Decider],
    answered: Mapping[int, bool],
    receivers: Mapping[int, str],
    *,
    has_more: bool = False,
) -> CallsByDecider:
    groups = {call.pk: group_by_pk[call.pk] for call in calls}
    numbers = Counter(groups.values())
    return CallsByDecider(
        BoundedCount(numbers["reader"], has_more),
        numbers["admin"],
        numbers["others"],
        numbers["nobody"],
        None if has_more else Counter([call.status for call in calls]),
        {pk: name for pk, name in receivers.items() if pk in groups},
        frozenset([pk for pk, group in groups.items() if group != "reader"]),
        frozenset([pk for pk in answered if pk in groups]),
    )


def choose_decider_group(call: Any, reader: Membership, answered: Mapping[int, bool], now: datetime) -> Decider:
    """Return who may decide about a call; `answered` says of those that the reader has answered if people disagree."""
    if call.session__quarantined_at is not None:
        return "nobody"
    if not answered.get(call.pk, True):
        return "others"
    if call.decide_within is not None and reader.role != Role.ADMIN:
        deadline = _compute_deadline_of_call(call)
        if deadline is not None and deadline < now:
            return "admin"
    # Most calls have no claim, or one that nobody has handed over.
    return "receiver" if call.claim__handed_by and _has_reader_handed_call_over(call, reader, now) else "reader"


def _has_reader_handed_call_over(call: Any, reader: Membership, now: datetime) -> bool:
    """Return whether the reader has handed a call over to somebody else, who still has it."""
    is_own = call.claim__handed_by == reader.user.get_username() and call.claim__member != reader.pk
    return is_own and bool(call.claim__seen_at > now - HANDED_FOR)


def map_calls_answered_by_reader_to_disagreement(reader: Membership, pks: Sequence[int]) -> dict[int, bool]:
    """Map those of these calls that the reader has answered to whether people disagree about them.

    The reader has decided and that vote still counts, or has changed the arguments. While nobody has decided otherwise,
    they can only wait for others.
    """
    if not pks:
        return {}
    name = reader.user.get_username()
    last_kinds = dict(_select_kinds_of_votes_on_current_arguments().filter(tool_call__pk__in=pks, actor=name))
    decided = sorted(pk for pk, kind in last_kinds.items() if kind != DecisionKind.WITHDRAW)
    if not decided:
        return {}
    agreements = load_incomplete_agreements_of_calls(
        list(ToolCall.objects.filter(pk__in=decided)), build_eligible_vote_mapper(reader.workspace)
    )
    return {pk: len(groups) > 1 for pk, groups in agreements.items() if _has_answered(last_kinds[pk], groups, name)}


@cache
def _select_kinds_of_votes_on_current_arguments() -> QuerySet[Decision, Any]:
    votes = Decision.objects.filter(actor_kind=ActorKind.PERSON, args_digest=F("tool_call__args_digest"))
    return votes.order_by(*Decision.IN_ORDER).values_list("tool_call", "kind")


def can_only_wait_for_others(last_kind: str | None, agreements: Sequence[Agreement], name: str) -> bool:
    """Return whether a person who has decided about a call of several people can only wait for others.

    Their vote still counts, or they have changed the arguments, and nobody has decided otherwise.

    Args:
        last_kind: The kind of their last decision about the present arguments; None without one.
        agreements: The incomplete agreements about the call.
        name: The person.
    """
    return len(agreements) <= 1 and _has_answered(last_kind, agreements, name)


def _has_answered(last_kind: str | None, agreements: Sequence[Agreement], name: str) -> bool:
    return last_kind == DecisionKind.EDIT or any(name in agreement.persons for agreement in agreements)


@cache
def _select_undecided_calls_for_deciders() -> QuerySet[Any, Any]:
    return select_decider_columns(select_undecided_calls(None))


def select_decider_columns(calls: QuerySet[Any, Any]) -> QuerySet[Any, Any]:
    columns: QuerySet[Any, Any] = calls.values_list(
        *("pk", "status", "approvals", "issued_at", "interrupted_at", "decide_within", "session__quarantined_at"),
        *("claim__handed_by", "claim__member", "claim__since", "claim__seen_at"),
        named=True,
    )
    return columns


def list_deadlines_passed_or_within_day(waiting: CallsByDecider, now: datetime) -> dict[int, datetime] | None:
    """List the deadlines of the calls that are overdue or due within a day, by key, the nearest first.

    None if there are more calls than were counted.
    """
    if waiting.all_calls is None:
        return None
    return {call.pk: deadline for deadline, call in _list_due_calls_of_counted(waiting.all_calls, now)}


def list_first_due_calls_of_counted(waiting: CallsByDecider, now: datetime, *, with_overdue: bool) -> DueCalls:
    """List what `list_first_due_calls_and_count_urgent` does without filters, of calls that are all counted."""
    due = _list_due_calls_of_counted(waiting.all_calls or (), now)
    listed = [(call.pk, call.status, deadline) for deadline, call in due if with_overdue or deadline >= now]
    return build_due_calls(listed, now)


def _list_due_calls_of_counted(calls: Sequence[Any], now: datetime) -> list[tuple[datetime, Any]]:
    end_of_day = now + TIME_LEFT_BY_FILTER[DeadlineFilter.DAY]
    due = [
        (deadline, call)
        for call in calls
        if call.decide_within is not None
        and (deadline := _compute_deadline_of_call(call)) is not None
        and deadline < end_of_day
    ]
    return sorted(due, key=lambda each: (each[0], each[1].pk))


def _compute_deadline_of_call(call: Any) -> datetime | None:
    return compute_decision_deadline(call.status, call.issued_at, call.interrupted_at, call.decide_within)


def list_statuses_of_calls_handed_to_reader(
    waiting: CallsByDecider, reader: Membership, now: datetime
) -> dict[int, CallStatus] | None:
    """List the calls that colleagues have handed over to the reader, in the order of the handovers, with their status.

    None if there are more calls than were counted.
    """
    if waiting.all_calls is None:
        return None
    handed = [
        call
        for call in waiting.all_calls
        if call.claim__handed_by and call.claim__member == reader.pk and call.claim__seen_at > now - HANDED_FOR
    ]
    in_order = sorted(handed, key=attrgetter("claim__since", "pk"))
    return {call.pk: CallStatus(call.status) for call in in_order}


def list_keys_of_longest_waiting_calls(waiting: CallsByDecider, statuses: Collection[str]) -> list[int] | None:
    """List the keys of the calls in these statuses, the longest waiting first; None if there are more than were
    counted."""
    if waiting.all_calls is None:
        return None
    calls = [call for call in waiting.all_calls if call.status in statuses]
    keys = (queue_order.build_waiting_sort_key(call.interrupted_at or call.issued_at, call.pk) for call in calls)
    return [pk for _since, pk in sorted(keys)]
