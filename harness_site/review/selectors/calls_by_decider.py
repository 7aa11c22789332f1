"""Numbers of the pending calls by who may decide them now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal, TypeAlias

from django.db.models import QuerySet

from checkpoints.db import clock
from checkpoints.enums import ActorKind, Role
from checkpoints.models import Decision, ToolCall
from harness_site.accounts.models import Membership
from harness_site.accounts.voter_eligibility import build_electorate
from harness_site.core.unreadable_rows import call_or_use_fallback
from harness_site.review.selectors import queue_order
from harness_site.review.selectors.pending_calls import (
    COUNT_LIMIT,
    UNDECIDED_STATUS_LITERALS,
    BoundedCount,
    count_pending_calls,
)
from harness_site.sessions.selectors import multi_person_approvals

Decider: TypeAlias = Literal["reader", "admin", "others", "nobody"]


@dataclass(frozen=True, slots=True)
class CallsByDecider:
    """Numbers of the pending calls of a workspace, from the view of one member.

    `own` are those that the member may decide now; of a member who never decides, all. Beside them are calls past their
    deadline, which only an admin decides (`need_admin`), calls on which the member has decided and others have to agree
    (`need_others`), and calls of quarantined sessions, which nobody decides.
    """

    own: BoundedCount
    need_admin: int
    need_others: int
    quarantined: int

    @property
    def has_others(self) -> bool:
        """Whether calls wait that the member may not decide now."""
        return bool(self.need_admin or self.need_others or self.quarantined)

    @property
    def total(self) -> BoundedCount:
        others = BoundedCount(self.need_admin) + BoundedCount(self.need_others) + BoundedCount(self.quarantined)
        return self.own + others


def count_calls_by_decider(reader: Membership) -> CallsByDecider:
    """Count the pending calls of the reader's workspace, up to `COUNT_LIMIT`: one query, or up to five if calls need
    several people. With a row that cannot be read, all count as the reader's."""
    if reader.role != Role.AUDITOR:
        counts = call_or_use_fallback("Who may decide the calls", lambda: _count_calls_by_decider(reader), None)
        if counts is not None:
            return counts
    return CallsByDecider(count_pending_calls(reader.workspace), 0, 0, 0)


def has_role_to_decide_at(reader: Membership, call: ToolCall, now: datetime) -> bool:
    """Return whether the role of a member suffices at the time `now`: after the deadline, only admins decide."""
    is_overdue = call.deadline is not None and call.deadline < now
    return reader.has_role(Role.ADMIN if is_overdue else Role.APPROVER)


def _count_calls_by_decider(reader: Membership) -> CallsByDecider:
    found = list(_query_undecided_calls_with_decider_columns().filter(workspace=reader.workspace_id)[: COUNT_LIMIT + 1])
    has_more, calls = len(found) > COUNT_LIMIT, found[:COUNT_LIMIT]
    voted = _list_pks_of_calls_voted_by_reader(reader, [call.pk for call in calls if call.approvals > 1])
    now = clock.now()
    numbers = Counter(_choose_decider_group(call, reader, voted, now) for call in calls)
    return CallsByDecider(
        BoundedCount(numbers["reader"], has_more), numbers["admin"], numbers["others"], numbers["nobody"]
    )


def _choose_decider_group(call: Any, reader: Membership, voted: frozenset[int], now: datetime) -> Decider:
    if call.session__quarantined_at is not None:
        return "nobody"
    if call.pk in voted:
        return "others"
    is_overdue = call.due is not None and call.due < now
    return "admin" if is_overdue and reader.role != Role.ADMIN else "reader"


def _list_pks_of_calls_voted_by_reader(reader: Membership, pks: Sequence[int]) -> frozenset[int]:
    """List the keys of those of these calls about which the reader has decided, whose vote still counts, and about
    which nobody has decided otherwise: then the reader can only wait for others."""
    if not pks:
        return frozenset()
    name = reader.user.get_username()
    votes = Decision.objects.filter(tool_call__in=pks, actor=name, actor_kind=ActorKind.PERSON, final=False)
    voted_once = set(votes.values_list("tool_call", flat=True))
    if not voted_once:
        return frozenset()
    agreements = multi_person_approvals.load_agreements_of_calls(
        list(ToolCall.objects.filter(pk__in=sorted(voted_once))), build_electorate(reader.workspace)
    )
    return frozenset(
        pk
        for pk, groups in agreements.items()
        if len(groups) == 1 and any(voice.actor == name for voice in groups[0].voices)
    )


@cache
def _query_undecided_calls_with_decider_columns() -> QuerySet[Any, Any]:
    calls: QuerySet[Any, Any] = ToolCall.objects.filter(status__in=UNDECIDED_STATUS_LITERALS)
    calls = calls.annotate(due=queue_order.build_deadline_expression(None))
    return calls.values_list("pk", "approvals", "due", "session__quarantined_at", named=True)
