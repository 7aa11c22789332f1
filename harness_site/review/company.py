"""Who else is about a call: who says that they are on it, and who has its card open."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Exists, OuterRef, Q, QuerySet

from checkpoints import clock
from harness_site.accounts.models import Membership
from harness_site.review.models import Claim, Presence

#: So long after the last sign of life of their card, nobody is on a call any more.
CLAIMED_FOR: Final = timedelta(minutes=15)
#: An open card gives a sign of life every ten seconds.
PRESENT_FOR: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Claimed:
    """Somebody's claim, by their name."""

    name: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Company:
    """`mine` is the reader's own claim, `theirs` that of somebody else; `looking` are the others who have the card
    open, by name."""

    mine: Claimed | None = None
    theirs: Claimed | None = None
    looking: tuple[str, ...] = ()

    @property
    def beside(self) -> tuple[str, ...]:
        """Who looks without being on it."""
        holder = "" if self.theirs is None else self.theirs.name
        return tuple(name for name in self.looking if name != holder)


NOBODY: Final = Company()


def of_calls(pks: Iterable[int], reader: Membership) -> dict[int, Company]:
    """The company of each call that has any, by its primary key; two queries."""
    wanted, now = sorted(pks), clock.now()
    claims = {call: claim for call, *claim in _claims(wanted, now - CLAIMED_FOR)} if wanted else {}
    names: defaultdict[int, list[str]] = defaultdict(list)
    for pk, name in _present(wanted, now - PRESENT_FOR, reader.pk) if wanted else ():
        names[pk].append(name)
    return {pk: _company(claims.get(pk), tuple(names[pk]), reader) for pk in claims.keys() | names.keys()}


def _claims(calls: list[int], since: datetime) -> QuerySet[Claim, tuple[Any, ...]]:
    """Call, member, their name, since when."""
    claims = Claim.objects.filter(call__in=calls, seen_at__gt=since)
    return claims.values_list("call", "member", "member__user__username", "since")


def _present(calls: list[int], since: datetime, but: int) -> QuerySet[Presence, tuple[Any, str]]:
    present = Presence.objects.filter(call__in=calls, seen_at__gt=since).exclude(member=but)
    return present.order_by("member__user__username").values_list("call", "member__user__username")


def of_call(pk: int, reader: Membership) -> Company:
    return of_calls([pk], reader).get(pk, NOBODY)


def claimed(by: Membership | None = None) -> Q:
    """A condition on calls: somebody is on them, or that member is."""
    claims = _living(clock.now()).filter(call=OuterRef("pk"))
    return Q(Exists(claims if by is None else claims.filter(member=by)))


def _living(now: datetime) -> QuerySet[Claim]:
    return Claim.objects.filter(seen_at__gt=now - CLAIMED_FOR)


def _company(claim: list[Any] | None, names: tuple[str, ...], reader: Membership) -> Company:
    if claim is None:
        return Company(looking=names)
    member, name, since = claim
    claimed = Claimed(name, since)
    return Company(mine=claimed, looking=names) if member == reader.pk else Company(theirs=claimed, looking=names)
