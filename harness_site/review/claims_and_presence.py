"""People at a call: who has claimed it, and who has its card open."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from django.db.models import Exists, OuterRef, Q, QuerySet

from checkpoints.db import clock
from checkpoints.enums import UNDECIDED_CALL_STATUSES, CallStatus
from checkpoints.models import ToolCall
from harness_site.accounts.models import Membership
from harness_site.review.models import Claim, Comment, Presence

#: A claim expires this long after the last heartbeat of its card.
CLAIMED_FOR: Final = timedelta(minutes=15)
#: A claim that a colleague handed over expires this long after that, or after the last heartbeat.
HANDED_FOR: Final = timedelta(days=1)
#: Presence expires after this time; an open card sends a heartbeat every ten seconds.
PRESENT_FOR: Final = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class Claimed:
    """Claim of a member, by name; `handed_by` is the colleague who handed it over, with a note."""

    name: str
    since: datetime
    handed_by: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class CallClaimsAndPresence:
    """People at a call: the reader's own claim `mine`, somebody else's claim `theirs`, and the names of others
    `looking`."""

    mine: Claimed | None = None
    theirs: Claimed | None = None
    looking: tuple[str, ...] = ()

    @property
    def names_without_claim(self) -> tuple[str, ...]:
        """Names of the people who look without a claim."""
        holder = "" if self.theirs is None else self.theirs.name
        return tuple(name for name in self.looking if name != holder)


NOBODY: Final = CallClaimsAndPresence()


def load_claims_and_presence_of_calls(pks: Iterable[int], reader: Membership) -> dict[int, CallClaimsAndPresence]:
    """Load the claim on each call and the people who look at it, by primary key; two queries."""
    call_pks, now = sorted(pks), clock.now()
    claims = {call: claim for call, *claim in _query_live_claims(call_pks, now)} if call_pks else {}
    names: defaultdict[int, list[str]] = defaultdict(list)
    for pk, member, name in _query_recent_presence(call_pks, now - PRESENT_FOR) if call_pks else ():
        if member != reader.pk:
            names[pk].append(name)
    return {
        pk: _build_claims_and_presence(claims.get(pk), tuple(sorted(names[pk])), reader)
        for pk in claims.keys() | names.keys()
    }


def _query_live_claims(calls: list[int], now: datetime) -> QuerySet[Claim, tuple[Any, ...]]:
    """Select call, member, username, start, and the colleague and the note of a hand-over, of each live claim."""
    return _select_claim_columns().filter(build_live_claim_condition(now), call__pk__in=calls)


@cache
def _select_claim_columns() -> QuerySet[Claim, tuple[Any, ...]]:
    return Claim.objects.values_list("call", "member", "member__user__username", "since", "handed_by", "note")


def build_live_claim_condition(now: datetime) -> Q:
    """Build the condition on claims that have not expired."""
    return Q(seen_at__gt=now - CLAIMED_FOR) | Q(handed_by__gt="", seen_at__gt=now - HANDED_FOR)


def _query_recent_presence(calls: list[int], since: datetime) -> QuerySet[Presence, tuple[Any, ...]]:
    """Select call, member and username of each member who has a card open."""
    return _select_presence_columns().filter(call__pk__in=calls, seen_at__gt=since)


@cache
def _select_presence_columns() -> QuerySet[Presence, tuple[Any, ...]]:
    return Presence.objects.values_list("call", "member", "member__user__username")


def load_claims_and_presence_of_call(pk: int, reader: Membership) -> CallClaimsAndPresence:
    return load_claims_and_presence_of_calls([pk], reader).get(pk, NOBODY)


def build_claimed_call_condition(by: Membership | None = None) -> Q:
    """Build a condition on calls: claimed by anybody, or by the given member."""
    claims = Claim.objects.filter(build_live_claim_condition(clock.now()), call=OuterRef("pk"))
    return Q(Exists(claims if by is None else claims.filter(member=by)))


def load_statuses_of_undecided_calls_handed_to(reader: Membership) -> dict[int, CallStatus]:
    """List the calls that colleagues have handed over to a member and that still wait for a decision.

    They are in the order of the handovers, each primary key with its status.
    """
    handed = Claim.objects.filter(member=reader, handed_by__gt="", seen_at__gt=clock.now() - HANDED_FOR)
    rows = handed.order_by("since", "call").values_list("call__pk", "call__status")
    return {pk: CallStatus(status) for pk, status in rows if status in UNDECIDED_CALL_STATUSES}


def _build_claims_and_presence(
    claim: list[Any] | None, names: tuple[str, ...], reader: Membership
) -> CallClaimsAndPresence:
    if claim is None:
        return CallClaimsAndPresence(looking=names)
    member, *facts = claim
    claimed = Claimed(*facts)
    return (
        CallClaimsAndPresence(mine=claimed, looking=names)
        if member == reader.pk
        else CallClaimsAndPresence(theirs=claimed, looking=names)
    )


#: Retention of claims and presence rows; the audit trail records who has read a session.
_RETENTION: Final = timedelta(days=1)


def record_presence_and_extend_claim(call: ToolCall, *, by: Membership, mine: bool) -> None:
    """Record that a member has the card of a call open; `mine` also extends their claim."""
    now = clock.now()
    # Updated first: an open card comes again and again, and an insertion takes a transaction of three statements.
    if not Presence.objects.filter(call=call, member=by).update(seen_at=now):
        presence = [Presence(call=call, member=by, seen_at=now)]
        Presence.objects.bulk_create(
            presence, update_conflicts=True, unique_fields=["call", "member"], update_fields=["seen_at"]
        )
    if mine:
        Claim.objects.filter(build_live_claim_condition(now), call=call, member=by).update(seen_at=now)


def delete_presence(call: int, member: Membership) -> None:
    """Delete the record that a member has the card of a call open; another open page of theirs records it again."""
    Presence.objects.filter(call=call, member=member).delete()


def delete_stale_claims_presence_and_comments() -> None:
    """Delete claims and presence rows past their retention, and comments on calls that were deleted."""
    for model in (Presence, Claim):
        model.objects.filter(seen_at__lt=clock.now() - _RETENTION).delete()
    Comment.objects.filter(~Exists(ToolCall.objects.filter(pk=OuterRef("call")))).delete()
