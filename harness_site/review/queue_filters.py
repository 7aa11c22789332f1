"""Filters and order of the review queue, parsed from the query string."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db.models import Q
from django.http import QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import CallStatus, Risk
from checkpoints.models.translated_enum_choices import build_choices, translate_label
from harness_site.accounts.models import Membership
from harness_site.core.masking.reversible_tokens_for_masked_names import decrypt_name_if_encrypted
from harness_site.core.time_range_parameters import TimeRange
from harness_site.review import claims_and_presence
from harness_site.review.selectors.decided_calls import DecisionFilters
from harness_site.review.selectors.pending_calls import CallFilters, DeadlineFilter
from harness_site.review.selectors.queue_order import QueueSort

TABS: Final = ("interrupted", "awaiting", "decided")
STATUS_OF: Final = {"interrupted": CallStatus.INTERRUPTED, "awaiting": CallStatus.AWAITING_APPROVAL}
#: Query value → minimum waiting time and its label.
AGES: Final = {
    "15m": (timedelta(minutes=15), _("longer than 15 minutes")),
    "1h": (timedelta(hours=1), _("longer than an hour")),
    "4h": (timedelta(hours=4), _("longer than 4 hours")),
    "1d": (timedelta(days=1), _("longer than a day")),
}
CLAIMED: Final = {
    "me": _("Claimed by me or handed to me"),
    "nobody": _("Not claimed"),
    "somebody": _("Claimed by anyone"),
}
#: Values of the parameter `by` with their labels: the final decisions of people, and the decisions of the reader.
DECIDED_BY: Final = {"people": _("People"), "me": _("Me")}
#: Maximum length of a text parameter in characters.
_MAX_FILTER_LENGTH: Final = 255


@dataclass(frozen=True, slots=True)
class QueueFilters:
    """Parsed filters and order of the list; unknown values are ignored. `decided` applies to decisions alone."""

    tool: str
    agent: str
    risk: Risk | None
    age: str
    limit: DeadlineFilter | None
    claimed: str
    sort: QueueSort
    decided_by: str
    decided: DecisionFilters

    @property
    def has_filters(self) -> bool:
        return any((self.tool, self.agent, self.risk, self.age, self.limit, self.claimed))

    @property
    def is_decision_list_filtered(self) -> bool:
        """Whether a filter applies to the list of decisions."""
        return any((self.tool, self.agent, self.risk, self.decided))

    @property
    def decision_times_label(self) -> str:
        """Describe the time of the decisions; empty without one."""
        times = self.decided.times
        first, last = (bound.replace("T", " ") for bound in (times.first, times.last))
        if first and first == last:
            label = gettext("on %(day)s") % {"day": first}
        elif first and last:
            label = gettext("from %(first)s to %(last)s") % {"first": first, "last": last}
        elif first:
            label = gettext("since %(first)s") % {"first": first}
        elif last:
            label = gettext("until %(last)s") % {"last": last}
        else:
            return ""
        return label if times.is_in_reader_zone else f"{label} ({times.zone_label})"

    @property
    def risk_label(self) -> str:
        return str(translate_label(self.risk)) if self.risk else ""

    @property
    def age_label(self) -> str:
        return str(AGES[self.age][1]) if self.age else ""

    @property
    def claim_label(self) -> str:
        return str(CLAIMED.get(self.claimed, ""))

    def convert_to_call_filters(self, reader: Membership) -> CallFilters:
        """Convert to the filters of the selectors."""
        age = AGES[self.age][0] if self.age else None
        return CallFilters(self.tool, self.agent, self.risk, age, self.limit, self._build_claim_condition(reader))

    def _build_claim_condition(self, reader: Membership) -> Q | None:
        if self.claimed == "me":
            return claims_and_presence.build_claimed_call_condition(reader)
        if not self.claimed:
            return None
        return (
            claims_and_presence.build_claimed_call_condition()
            if self.claimed == "somebody"
            else ~claims_and_presence.build_claimed_call_condition()
        )


def parse_queue_filters(asked: QueryDict, reader_name: str) -> QueueFilters:
    risk, limit, sort = (asked.get(name, "") for name in ("risk", "deadline", "sort"))
    age, claimed, decided_by = (asked.get(name, "") for name in ("age", "claimed", "by"))
    return QueueFilters(
        tool=_read_and_decrypt_text_parameter(asked, "tool"),
        agent=_read_and_decrypt_text_parameter(asked, "agent"),
        risk=Risk(risk) if risk in Risk.values else None,
        age=age if age in AGES else "",
        limit=DeadlineFilter(limit) if limit in DeadlineFilter.values else None,
        claimed=claimed if claimed in CLAIMED else "",
        sort=QueueSort(sort) if sort in QueueSort.values else QueueSort.OLDEST,
        decided_by=decided_by if decided_by in DECIDED_BY else "",
        decided=DecisionFilters(
            TimeRange.parse_query(asked), decided_by == "people", reader_name if decided_by == "me" else ""
        ),
    )


def _read_and_decrypt_text_parameter(query: QueryDict, name: str) -> str:
    return decrypt_name_if_encrypted(query.get(name, "").replace("\0", "").strip())[:_MAX_FILTER_LENGTH]


#: Choices of the filter form by field name: value and label.
CHOICES: Final = {
    "risks": build_choices(Risk)[::-1],
    "ages": [(value, words) for value, (_age, words) in AGES.items()],
    "limits": DeadlineFilter.choices,
    "claims": list(CLAIMED.items()),
    "sorts": [("" if value == QueueSort.OLDEST else value, words) for value, words in QueueSort.choices],
    "deciders": list(DECIDED_BY.items()),
}
