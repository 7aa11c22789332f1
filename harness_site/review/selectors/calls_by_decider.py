"""Numbers of the pending calls by who may decide them now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Literal, TypeAlias

from django.db.models import QuerySet

from checkpoints.db import clock
from checkpoints.enums import UNDECIDED_CALL_STATUSES, ActorKind, Role
from checkpoints.models import Decision, ToolCall
from harness_site.accounts.models import Membership
from harness_site.accounts.voter_eligibility import build_electorate
from harness_site.core.unreadable_rows import call_or_use_fallback
from harness_site.review.selectors.pending_calls import COUNT_LIMIT, BoundedCount, count_pending_calls
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
    """Count the pending calls of the reader's workspace, up to `COUNT_LIMIT`: one query, or up to six if calls need
    several people. With a call that cannot be read, all count as the reader's."""
    if reader.role != Role.AUDITOR:
        counts = call_or_use_fallback("Who may decide the calls", lambda: _count_calls_of_decider(reader), None)
        if counts is not None:
            return counts
    return CallsByDecider(count_pending_calls(reader.workspace), 0, 0, 0)


def may_decide_by_deadline(reader: Membership, call: ToolCall, now: datetime) -> bool:
    """Return whether the role of a member suffices at the time `now`: after the deadline, only admins decide."""
    is_overdue = call.deadline is not None and call.deadline < now
    return reader.has_role(Role.ADMIN if is_overdue else Role.APPROVER)


def _count_calls_of_decider(reader: Membership) -> CallsByDecider:
    calls = list(_select_undecided_calls().filter(workspace=reader.workspace_id)[: COUNT_LIMIT + 1])
    has_more, calls = len(calls) > COUNT_LIMIT, calls[:COUNT_LIMIT]
    voted, now = _list_calls_with_vote(reader, calls), clock.now()
    numbers = Counter(_find_decider(call, reader, voted, now) for call in calls)
    return CallsByDecider(
        BoundedCount(numbers["reader"], has_more), numbers["admin"], numbers["others"], numbers["nobody"]
    )


def _find_decider(call: ToolCall, reader: Membership, voted: frozenset[int], now: datetime) -> Decider:
    if call.session.quarantined_at is not None:
        return "nobody"
    if call.pk in voted:
        return "others"
    return "reader" if may_decide_by_deadline(reader, call, now) else "admin"


def _list_calls_with_vote(reader: Membership, calls: Iterable[ToolCall]) -> frozenset[int]:
    """List the keys of the calls of several people about which the reader has decided, and whose vote still counts."""
    several = sorted(call.pk for call in calls if call.approvals > 1)
    if not several:
        return frozenset()
    name = reader.user.get_username()
    votes = Decision.objects.filter(tool_call__in=several, actor=name, actor_kind=ActorKind.PERSON, final=False)
    voted_once = set(votes.values_list("tool_call", flat=True))
    if not voted_once:
        return frozenset()
    agreements = multi_person_approvals.load_agreements_of_calls(
        list(ToolCall.objects.filter(pk__in=sorted(voted_once))), build_electorate(reader.workspace)
    )
    return frozenset(
        pk
        for pk, groups in agreements.items()
        if any(voice.actor == name for agreement in groups for voice in agreement.voices)
    )


@cache
def _select_undecided_calls() -> QuerySet[ToolCall]:
    """Select the undecided calls with what tells who may decide them."""
    calls = ToolCall.objects.filter(status__in=sorted(UNDECIDED_CALL_STATUSES)).select_related("session")
    return calls.only("status", "issued_at", "interrupted_at", "decide_within", "approvals", "session__quarantined_at")
