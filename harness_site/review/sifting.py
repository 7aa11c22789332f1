"""What the address of the queue asks for: which calls, in which order."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db.models import Q
from django.http import QueryDict

from checkpoints.enums import CallStatus, Risk
from checkpoints.queries.inbox import Filters, Limit
from checkpoints.queries.order import Sort
from harness_site.accounts.models import Membership
from harness_site.rendering.references import resolve
from harness_site.review import company

TABS: Final = ("interrupted", "awaiting", "decided")
STATUS_OF: Final = {"interrupted": CallStatus.INTERRUPTED, "awaiting": CallStatus.AWAITING_APPROVAL}
#: Address → how long a call has waited at least, and the words for it.
AGES: Final = {
    "15m": (timedelta(minutes=15), "15 minutes"),
    "1h": (timedelta(hours=1), "an hour"),
    "4h": (timedelta(hours=4), "four hours"),
    "1d": (timedelta(days=1), "a day"),
}
CLAIMED: Final = {"me": "I am on it", "nobody": "Nobody is on it", "somebody": "Somebody is on it"}
#: Nobody types more; longer ones only cost time.
_LONGEST: Final = 255


@dataclass(frozen=True, slots=True)
class Sieve:
    """The parts of the address that narrow and order the list; what it does not know stands for nothing."""

    tool: str
    agent: str
    risk: Risk | None
    age: str
    limit: Limit | None
    claimed: str
    sort: Sort

    @property
    def narrows(self) -> bool:
        return any((self.tool, self.agent, self.risk, self.age, self.limit, self.claimed))

    @property
    def age_words(self) -> str:
        return AGES[self.age][1] if self.age else ""

    @property
    def claimed_words(self) -> str:
        return CLAIMED.get(self.claimed, "")

    def filters(self, reader: Membership) -> Filters:
        """As the library takes them."""
        age = AGES[self.age][0] if self.age else None
        return Filters(self.tool, self.agent, self.risk, age, self.limit, self._condition(reader))

    def _condition(self, reader: Membership) -> Q | None:
        if self.claimed == "me":
            return company.claimed(reader)
        if not self.claimed:
            return None
        return company.claimed() if self.claimed == "somebody" else ~company.claimed()


def sieve(asked: QueryDict) -> Sieve:
    risk, limit, sort = (asked.get(name, "") for name in ("risk", "deadline", "sort"))
    age, claimed = asked.get("age", ""), asked.get("claimed", "")
    return Sieve(
        tool=_typed(asked, "tool"),
        agent=_typed(asked, "agent"),
        risk=Risk(risk) if risk in Risk.values else None,
        age=age if age in AGES else "",
        limit=Limit(limit) if limit in Limit.values else None,
        claimed=claimed if claimed in CLAIMED else "",
        sort=Sort(sort) if sort in Sort.values else Sort.OLDEST,
    )


def _typed(asked: QueryDict, name: str) -> str:
    return resolve(asked.get(name, "").replace("\0", "").strip())[:_LONGEST]


#: What the form offers, by the name of the field: value and words.
CHOICES: Final = {
    "risks": [(risk.value, risk.label) for risk in reversed(Risk)],
    "ages": [(value, f"Longer than {words}") for value, (_, words) in AGES.items()],
    "limits": Limit.choices,
    "claims": list(CLAIMED.items()),
    "sorts": Sort.choices,
}
