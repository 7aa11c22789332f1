"""Who else is about a call: who says that they are on it, and who has its card open."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Exists, OuterRef, Q, QuerySet

from checkpoints import clock
from harness_site.accounts.models import Membership
from harness_site.review.models import Claim, Presence

#: So long after the last sign of life of their card, nobody is on a call any more.
CLAIMED_FOR: Final = timedelta(minutes=15)
#: An open card gives a sign of life every ten seconds.
PRESENT_FOR: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Company:
    """`mine` is the reader's own claim, `theirs` that of somebody else; `looking` are the others who have the card
    open, by name."""

    mine: Claim | None = None
    theirs: Claim | None = None
    looking: tuple[str, ...] = ()

    @property
    def beside(self) -> tuple[str, ...]:
        """Who looks without being on it."""
        holder = "" if self.theirs is None else self.theirs.member.user.get_username()
        return tuple(name for name in self.looking if name != holder)


NOBODY: Final = Company()


def of_calls(pks: Iterable[int], reader: Membership) -> dict[int, Company]:
    """The company of each call that has any, by its primary key; two queries."""
    wanted, now = sorted(pks), clock.now()
    claims = {claim.call_id: claim for claim in _living(now).filter(call__in=wanted).select_related("member__user")}
    present = Presence.objects.filter(call__in=wanted, seen_at__gt=now - PRESENT_FOR).exclude(member=reader)
    names = defaultdict(list)
    for pk, name in present.order_by("member__user__username").values_list("call_id", "member__user__username"):
        names[pk].append(name)
    return {pk: _company(claims.get(pk), names[pk], reader) for pk in claims.keys() | names.keys()}


def of_call(pk: int, reader: Membership) -> Company:
    return of_calls([pk], reader).get(pk, NOBODY)


def claimed(by: Membership | None = None) -> Q:
    """A condition on calls: somebody is on them, or that member is."""
    claims = _living(clock.now()).filter(call=OuterRef("pk"))
    return Q(Exists(claims if by is None else claims.filter(member=by)))


def _living(now: datetime) -> QuerySet[Claim]:
    return Claim.objects.filter(seen_at__gt=now - CLAIMED_FOR)


def _company(claim: Claim | None, names: list[str], reader: Membership) -> Company:
    mine = claim is not None and claim.member_id == reader.pk
    return Company(claim if mine else None, None if mine else claim, tuple(names))
