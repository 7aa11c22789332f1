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
    """Load the claim on each call and the people who look at it, by primary key; one query."""
    call_pks, now = sorted(pks), clock.now()
    claims: dict[int, tuple[int, Claimed]] = {}
    names: defaultdict[int, list[str]] = defaultdict(list)
    for call in _select_claim_and_presence_of_calls().filter(pk__in=call_pks) if call_pks else ():
        if call.claim__member is not None and _is_claim_live(call.claim__seen_at, call.claim__handed_by, now):
            claimed = Claimed(
                call.claim__member__user__username, call.claim__since, call.claim__handed_by, call.claim__note
            )
            claims[call.pk] = call.claim__member, claimed
        member = call.presence__member
        if member is not None and member != reader.pk and call.presence__seen_at > now - PRESENT_FOR:
            names[call.pk].append(call.presence__member__user__username)
    return {
        pk: _build_claims_and_presence(claims.get(pk), tuple(sorted(names[pk])), reader)
        for pk in claims.keys() | names.keys()
    }


@cache
def _select_claim_and_presence_of_calls() -> QuerySet[ToolCall, Any]:
    """Select the claim on each call, which may have expired, and all who had it open, each in a row of its own."""
    return ToolCall.objects.values_list(
        *("pk", "claim__member", "claim__member__user__username", "claim__since", "claim__handed_by", "claim__note"),
        *("claim__seen_at", "presence__member", "presence__member__user__username", "presence__seen_at"),
        named=True,
    )


def _is_claim_live(seen_at: datetime, handed_by: str, now: datetime) -> bool:
    """Return whether a claim has not expired, as `build_live_claim_condition` does."""
    return seen_at > now - (HANDED_FOR if handed_by else CLAIMED_FOR)


def build_live_claim_condition(now: datetime) -> Q:
    """Build the condition on claims that have not expired."""
    return Q(seen_at__gt=now - CLAIMED_FOR) | Q(handed_by__gt="", seen_at__gt=now - HANDED_FOR)


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
    rows = _select_handed_calls().filter(member=reader.pk, seen_at__gt=clock.now() - HANDED_FOR)
    return {pk: CallStatus(status) for pk, status in rows if status in UNDECIDED_CALL_STATUSES}


@cache
def _select_handed_calls() -> QuerySet[Claim, Any]:
    return Claim.objects.filter(handed_by__gt="").order_by("since", "call").values_list("call__pk", "call__status")


def _build_claims_and_presence(
    claim: tuple[int, Claimed] | None, names: tuple[str, ...], reader: Membership
) -> CallClaimsAndPresence:
    if claim is None:
        return CallClaimsAndPresence(looking=names)
    member, claimed = claim
    return (
        CallClaimsAndPresence(mine=claimed, looking=names)
        if member == reader.pk
        else CallClaimsAndPresence(theirs=claimed, looking=names)
    )


#: Retention of claims and presence rows that have expired; the audit trail records who has read a session.
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
    expired_since = clock.now() - _RETENTION
    Presence.objects.filter(seen_at__lt=expired_since).delete()
    Claim.objects.filter(seen_at__lt=expired_since - HANDED_FOR).delete()
    Comment.objects.filter(~Exists(ToolCall.objects.filter(pk=OuterRef("call")))).delete()
