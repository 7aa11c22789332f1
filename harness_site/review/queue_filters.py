"""Filters and order of the review queue, parsed from the query string."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, Final

from django.db.models import Q
from django.http import QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import CallStatus, DecisionKind, Risk
from checkpoints.models.translated_enum_choices import build_choices, translate_label
from harness_site.accounts.models import Membership
from harness_site.core.call_sentences import mask_and_format_tool_name
from harness_site.core.masking.encrypted_names_in_urls import decrypt_name_if_encrypted
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.status_and_decision_labels import QUESTION_ANSWERS, STATES, get_decision_shape_and_label
from harness_site.core.time_range_parameters import TimeRange
from harness_site.review import find_waiting_calls_by_words, load_claims_and_record_presence
from harness_site.review.find_rows_with_visible_words import FoundRows
from harness_site.review.selectors import mentions_in_comments
from harness_site.review.selectors.decided_calls import DecisionFilters
from harness_site.review.selectors.pending_calls import CallFilters, DeadlineFilter
from harness_site.review.selectors.queue_order import QueueSort
from harness_site.templatetags.harness_tags import (
    build_filter_url,
    lowercase_label_in_sentence,
    put_in_quotation_marks,
)

TABS: Final = ("all", "interrupted", "awaiting", "decided")
#: Tab of waiting calls → the statuses of its calls.
STATUSES_OF: Final = {
    "all": (CallStatus.INTERRUPTED, CallStatus.AWAITING_APPROVAL),
    "interrupted": (CallStatus.INTERRUPTED,),
    "awaiting": (CallStatus.AWAITING_APPROVAL,),
}
#: Status of waiting calls → the tab of these calls alone.
TAB_OF: Final = {statuses[0]: tab for tab, statuses in STATUSES_OF.items() if len(statuses) == 1}
#: Query value → minimum waiting time and its label.
AGES: Final = {
    "15m": (timedelta(minutes=15), _("longer than 15 minutes")),
    "1h": (timedelta(hours=1), _("longer than an hour")),
    "4h": (timedelta(hours=4), _("longer than 4 hours")),
    "1d": (timedelta(days=1), _("longer than a day")),
}
CLAIMED: Final = {
    "me": _("Claimed by me or handed to me"),
    "for-me": _("For me: claimed, handed over, or I am mentioned"),
    "nobody": _("Not claimed"),
    "somebody": _("Claimed by anyone"),
}
#: Values of the parameter `by` with their labels: the final decisions of people, and the decisions of the reader.
DECIDED_BY: Final = {"people": _("People"), "me": _("Me")}
#: What the parameter `by` begins with if the name of a person follows.
PERSON_PREFIX: Final = "person:"
#: Decisions by which the list of decided calls is filtered, in the order of the form.
ANSWERS: Final = (
    DecisionKind.CONFIRM_LANDED,
    DecisionKind.MARK_FAILED,
    DecisionKind.APPROVE_RERUN,
    DecisionKind.APPROVE,
    DecisionKind.EDIT,
    DecisionKind.REJECT,
    DecisionKind.RESPOND,
    DecisionKind.PROBE_LANDED,
    DecisionKind.PROBE_NOT_LANDED,
    DecisionKind.WITHDRAW,
)
#: Values of the parameter `answer` for answers to questions, whose rows have labels of their own → the decision.
ANSWERS_TO_QUESTIONS: Final = {f"question_{kind}": DecisionKind(kind) for kind in QUESTION_ANSWERS}
#: Maximum length of a text parameter in characters.
_MAX_FILTER_LENGTH: Final = 255


@dataclass(frozen=True, slots=True)
class ActiveFilter:
    """Filter of the list in words, masked for the reader, and the URL of the list without it."""

    text: str
    address_without: str


@dataclass(frozen=True, slots=True)
class QueueFilters:
    """Parsed filters and order of the list; unknown values are ignored. `decided` applies to decisions alone.

    `words` are searched for in the calls that wait, and in the decisions.
    """

    words: str
    tool: str
    agent: str
    risk: Risk | None
    age: str
    limit: DeadlineFilter | None
    claimed: str
    sort: QueueSort
    decided_by: str
    decided: DecisionFilters
    reader_name: str

    @property
    def has_filters(self) -> bool:
        return any((self.words, self.tool, self.agent, self.risk, self.age, self.limit, self.claimed))

    @property
    def is_search_alone(self) -> bool:
        """Whether words are searched for in the waiting calls, without another filter."""
        others = (self.tool, self.agent, self.risk, self.has_filters_of_waiting_calls_alone)
        return bool(self.words) and not any(others)

    @property
    def has_filters_of_waiting_calls_alone(self) -> bool:
        """Whether a filter is set that the list of decisions ignores."""
        return any((self.age, self.limit, self.claimed))

    @property
    def is_decision_list_filtered(self) -> bool:
        """Whether a filter applies to the list of decisions."""
        return any((self.words, self.tool, self.agent, self.risk, self.decided))

    @property
    def answer(self) -> str:
        """Value of the parameter `answer`; empty without one."""
        if self.decided.kind is None:
            return ""
        return f"question_{self.decided.kind}" if self.decided.about_question else self.decided.kind

    @property
    def answer_label(self) -> str:
        """Label of the answer, as the rows of the decisions have it; empty without one."""
        if self.decided.kind is None:
            return ""
        about_question = self.decided.about_question
        return get_decision_shape_and_label(
            self.decided.kind, about_question=about_question, about_changed_value=False
        )[1]

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

    def list_active_filters(self, tab: str, query: QueryDict) -> list[ActiveFilter]:
        """List the filters that apply to the list of this tab, whose query string is `query`."""
        of_tab = self._describe_decision_filters() if tab == "decided" else self._describe_filters_of_waiting_calls()
        described = {**self._describe_call_filters(), **of_tab}
        return [
            ActiveFilter(text, build_filter_url(query, **dict.fromkeys(parameters, "")))
            for parameters, text in described.items()
            if text
        ]

    def _describe_call_filters(self) -> dict[tuple[str, ...], str]:
        """Describe what is filtered in all tabs, by the parameters of each filter; empty where it is not."""
        tool = mask_and_format_tool_name(self.tool) if self.tool else ""
        agent = mask_and_reveal_hidden(self.agent)
        words = put_in_quotation_marks(mask_and_reveal_hidden(self.words))
        return {
            ("q",): gettext("text %(words)s") % {"words": words} if self.words else "",
            ("risk",): lowercase_label_in_sentence(str(translate_label(self.risk))) if self.risk else "",
            ("tool",): gettext("tool %(name)s") % {"name": tool} if tool else "",
            ("agent",): gettext("agent %(name)s") % {"name": agent} if agent else "",
        }

    def _describe_decision_filters(self) -> dict[tuple[str, ...], str]:
        person = mask_and_reveal_hidden(self.decided.person)
        by = {
            "people": gettext("decisions of people"),
            "me": gettext("my decisions"),
            "": gettext("decisions of %(name)s") % {"name": person} if person else "",
        }
        return {
            ("answer",): self.answer_label,
            ("by",): by[self.decided_by if self.decided_by in DECIDED_BY else ""],
            ("first", "last", "zone"): self.decision_times_label,
        }

    def _describe_filters_of_waiting_calls(self) -> dict[tuple[str, ...], str]:
        deadline = lowercase_label_in_sentence(str(self.limit.label)) if self.limit else ""
        return {
            ("age",): gettext("waiting %(duration)s") % {"duration": AGES[self.age][1]} if self.age else "",
            ("deadline",): gettext("deadline %(limit)s") % {"limit": deadline}
            if deadline and self.limit != DeadlineFilter.NONE
            else deadline,
            ("claimed",): str(CLAIMED.get(self.claimed, "")),
        }

    def list_decider_choices(self, names: Iterable[str]) -> list[tuple[str, str]]:
        """List the values of the parameter `by` with their labels: one for each of these people, beside the reader."""
        people = sorted({*names, self.decided.person} - {self.reader_name, ""})
        return [
            *((value, str(label)) for value, label in DECIDED_BY.items()),
            *((f"{PERSON_PREFIX}{name}", name) for name in people),
        ]

    def convert_to_call_filters(self, reader: Membership, found: FoundRows | None) -> CallFilters:
        """Convert to the filters of the selectors; `found` are the calls in which the words were found."""
        age = AGES[self.age][0] if self.age else None
        condition = self._build_claim_or_mention_condition(reader)
        if found is not None:
            condition = Q(pk__in=sorted(found.pks)) if condition is None else condition & Q(pk__in=sorted(found.pks))
        return CallFilters(self.tool, self.agent, self.risk, age, self.limit, condition)

    def _build_claim_or_mention_condition(self, reader: Membership) -> Q | None:
        if self.claimed == "me":
            return load_claims_and_record_presence.build_claimed_call_condition(reader)
        if self.claimed == "for-me":
            is_mentioned = mentions_in_comments.build_mentioned_call_condition(reader.user.get_username())
            return load_claims_and_record_presence.build_claimed_call_condition(reader) | is_mentioned
        if not self.claimed:
            return None
        return (
            load_claims_and_record_presence.build_claimed_call_condition()
            if self.claimed == "somebody"
            else ~load_claims_and_record_presence.build_claimed_call_condition()
        )


def parse_queue_filters(asked: QueryDict, reader_name: str) -> QueueFilters:
    risk, limit, sort = (asked.get(name, "") for name in ("risk", "deadline", "sort"))
    age, claimed, answer = (asked.get(name, "") for name in ("age", "claimed", "answer"))
    decided_by = asked.get("by", "").replace("\0", "")[:_MAX_FILTER_LENGTH]
    person = reader_name if decided_by == "me" else _parse_person_or_empty(decided_by)
    return QueueFilters(
        words=_read_and_decrypt_text_parameter(asked, "q"),
        tool=_read_and_decrypt_text_parameter(asked, "tool"),
        agent=_read_and_decrypt_text_parameter(asked, "agent"),
        risk=Risk(risk) if risk in Risk.values else None,
        age=age if age in AGES else "",
        limit=DeadlineFilter(limit) if limit in DeadlineFilter.values else None,
        claimed=claimed if claimed in CLAIMED else "",
        sort=QueueSort(sort) if sort in QueueSort.values else QueueSort.OLDEST,
        decided_by=decided_by if decided_by in DECIDED_BY or person else "",
        decided=DecisionFilters(
            TimeRange.parse_query(asked),
            decided_by == "people",
            person,
            DecisionKind(answer) if answer in ANSWERS else ANSWERS_TO_QUESTIONS.get(answer),
            about_question=answer in ANSWERS_TO_QUESTIONS,
        ),
        reader_name=reader_name,
    )


def load_call_filters_of_list(query: str, reader: Membership) -> CallFilters:
    """Load the filters of the list of waiting calls that has this query string, with the calls that its words find."""
    filters = parse_queue_filters(QueryDict(query), reader.user.get_username())
    found = (
        find_waiting_calls_by_words.find_waiting_calls_with_words(reader.workspace, filters.words)
        if filters.words
        else None
    )
    return filters.convert_to_call_filters(reader, found)


def parse_order_of_list(query: str) -> tuple[QueueSort, tuple[CallStatus, ...]]:
    """Parse the order of the list of waiting calls that has this query string, and the statuses of its calls."""
    asked = QueryDict(query)
    return parse_queue_filters(asked, "").sort, STATUSES_OF.get(asked.get("tab", ""), STATUSES_OF["all"])


def _parse_person_or_empty(decided_by: str) -> str:
    return decided_by.removeprefix(PERSON_PREFIX) if decided_by.startswith(PERSON_PREFIX) else ""


def _read_and_decrypt_text_parameter(query: QueryDict, name: str) -> str:
    return decrypt_name_if_encrypted(query.get(name, "").replace("\0", "").strip())[:_MAX_FILTER_LENGTH]


@cache
def translate_choices(_language: str | None) -> dict[str, list[tuple[str, str]]]:
    """Translate the choices of the filter form to the current language, which is the key of the cache."""
    return {name: [(value, str(label)) for value, label in choices] for name, choices in _CHOICES.items()}


#: Choices of the filter form by field name: value and label.
_CHOICES: Final[dict[str, list[tuple[str, Any]]]] = {
    "risks": build_choices(Risk)[::-1],
    "ages": [(value, words) for value, (_age, words) in AGES.items()],
    "limits": DeadlineFilter.choices,
    "claims": list(CLAIMED.items()),
    "sorts": [("" if value == QueueSort.OLDEST else value, words) for value, words in QueueSort.choices],
    "answers": [
        *((kind, STATES[kind][1]) for kind in ANSWERS),
        *((value, QUESTION_ANSWERS[kind][1]) for value, kind in ANSWERS_TO_QUESTIONS.items()),
    ],
}
