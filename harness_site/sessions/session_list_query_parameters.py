"""Query parameters of the session list."""

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.http import QueryDict
from django.utils.translation import gettext, gettext_lazy

from checkpoints.enums import DecisionKind, InterruptReason, RunStatus
from checkpoints.models import Decision, Run, ToolCall
from checkpoints.sessions.display_status import DisplayStatus
from checkpoints.sessions.session_list_filters_and_sorting import SessionFilter, Sort
from harness_site.core.masking.encrypted_names_in_urls import decrypt_name_if_encrypted
from harness_site.core.time_range_parameters import TimeRange
from harness_site.search import passage_search, sessions_by_active_hour
from harness_site.search.hourly_call_and_decision_sums import DECIDING_PEOPLE
from harness_site.search.models import Fact, Kind, Trait
from harness_site.search.query_terms import SearchQuery
from harness_site.sessions.selectors import session_list_pages

#: Longest text parameter in characters; longer ones are cut.
LONGEST: Final = 200
#: Parameters of the range of costs.
COST_PARAMETERS: Final = ("least", "most")
#: Upper bound of an amount: the column holds twelve digits before the point.
_MAX_AMOUNT: Final = Decimal(10**12)
#: An amount with a decimal point, or with a decimal comma: three digits after a comma may also be thousands.
_AMOUNT: Final = re.compile(r"\$?([0-9]+(?:\.[0-9]*)?|\.[0-9]+|[0-9]*,[0-9]{1,2})")
_TRAITS: Final = {
    "label": Trait.LABEL,
    "tool": Trait.TOOL,
    "by": Trait.DECIDED_BY,
    "project": Trait.PROJECT,
    "branch": Trait.BRANCH,
    "model": Trait.MODEL,
    "program": Trait.PROGRAM,
}
#: Traits whose values are suggested from those of the newest sessions. Labels are read from the sessions themselves.
SUGGESTED_TRAITS: Final = frozenset(_TRAITS.values()) - {Trait.LABEL}
#: Values of the parameter `models`: how many models of a session are known.
KNOWN_MODELS: Final = {
    "unknown": gettext_lazy("Unknown"),
    "several": gettext_lazy("Several"),
    "undivided": gettext_lazy("Several, not divided"),
}
#: Order of search results by how well the sessions match.
BEST_MATCH: Final = "match"
#: Order of search results; the newest matches come first if it is empty.
SearchOrder: TypeAlias = Sort | Literal["match", ""]
#: The kind of indexed text that each trait is derived from.
_TOLD_BY: Final = {
    Trait.LABEL: Kind.SESSION,
    Trait.TOOL: Kind.CALL,
    Trait.INTERRUPTED: Kind.CALL,
    Trait.DECIDED_BY: Kind.DECISION,
    **dict.fromkeys((Trait.PROJECT, Trait.BRANCH, Trait.MODEL, Trait.PROGRAM), Kind.MESSAGE),
}


def parse_session_filter(workspace: int, query: QueryDict) -> SessionFilter:
    """Parse all filters of the session list except the search words.

    Invalid values are ignored, and `describe_invalid_filters_by_parameter` says so. The time range filters by start if
    the list is sorted by start, else by activity. With `interrupted`, `lost` or `decided`, the activity is an
    interrupted call, a lost run, or a decision of a person.
    """
    status, sort = query.get("status", ""), parse_sort(query)
    times, by_start = TimeRange.parse_query(query), sort.is_by_start
    activity_times = TimeRange() if by_start else times
    traits = _parse_trait_parameters(query)
    if query.get("interrupted") and not activity_times:
        traits.append((Trait.INTERRUPTED, ""))
    conditions = [_build_trait_condition(workspace, *trait_value) for trait_value in traits]
    if (known := query.get("models", "")) == "undivided":
        conditions.append(_build_trait_condition(workspace, Trait.UNDIVIDED, ""))
    elif known in KNOWN_MODELS:
        conditions.append(_build_unknown_or_several_models_condition(workspace, known))
    conditions += _build_decision_lost_run_and_activity_conditions(workspace, query, activity_times)
    if by_start and times:
        # The start of a session from a transcript without times is unknown.
        conditions.append(Q(**session_list_pages.HAS_TIMES))
    return SessionFilter(
        display_status=DisplayStatus(status) if status in DisplayStatus.values else None,
        agent=read_and_decrypt_text_parameter(query, "agent"),
        since=times.since if by_start else None,
        until=times.until if by_start else None,
        least=_parse_amount(query.get("least", "")),
        most=_parse_amount(query.get("most", "")),
        among=tuple(conditions),
        keys=_query_sessions_with_trait(workspace, *traits[0]) if len(traits) == len(conditions) == 1 else None,
        sort=sort,
    )


def parse_sort(query: QueryDict) -> Sort:
    """Parse the order of the session list; by the newest activity if it is absent or invalid."""
    sort = query.get("sort", "")
    return Sort(sort) if sort in Sort.values else Sort.UPDATED


def parse_search_order(query: QueryDict) -> SearchOrder:
    """Parse the order of search results; by the newest match if it is absent or invalid."""
    sort = query.get("sort", "")
    if sort == BEST_MATCH:
        return BEST_MATCH
    return Sort(sort) if sort in Sort.values else ""


def list_search_order_choices() -> list[tuple[str, str]]:
    """List the orders of search results with their labels."""
    by_match = [("", gettext("Newest match")), (BEST_MATCH, gettext("Best match"))]
    return by_match + [(sort.value, str(sort.label)) for sort in Sort]


def count_given_filters(query: QueryDict) -> int:
    """Count the filters of the session list that have a value; a range counts once."""
    single = ("status", "agent", *_TRAITS, "models", "interrupted", "lost", "decided")
    ranges = (("first", "last"), ("least", "most"))
    return sum(any(query.get(name, "").strip() for name in names) for names in (*((name,) for name in single), *ranges))


def describe_invalid_filters_by_parameter(query: QueryDict) -> dict[str, str]:
    """Describe for each parameter with an invalid value what is wrong with it. Such a parameter filters nothing."""
    no_amount = gettext("“%(value)s” is not an amount, so it does not filter. Enter dollars such as 1.50.")
    checks: dict[str, tuple[Callable[[str], bool], str]] = {
        "status": (
            lambda text: text in DisplayStatus.values,
            gettext("“%(value)s” is not a status, so it does not filter."),
        ),
        "sort": (
            lambda text: text == BEST_MATCH or text in Sort.values,
            gettext("“%(value)s” is not an order, so it does not sort."),
        ),
        "models": (
            lambda text: text in KNOWN_MODELS,
            gettext("“%(value)s” is not a number of models, so it does not filter."),
        ),
        "least": (lambda text: _parse_amount(text) is not None, no_amount),
        "most": (lambda text: _parse_amount(text) is not None, no_amount),
    }
    texts = {name: query.get(name, "").replace("\0", "").strip() for name in checks}
    bounds = TimeRange.parse_query(query).describe_invalid_bounds_by_parameter(query)
    return bounds | {
        name: sentence % {"value": texts[name][:LONGEST]}
        for name, (is_valid, sentence) in checks.items()
        if texts[name] and not is_valid(texts[name])
    }


def read_name_filters(query: QueryDict) -> dict[str, str]:
    """Read the filters of the session list by whole names, by parameter."""
    return {name: read_and_decrypt_text_parameter(query, name) for name in ("agent", *_TRAITS)}


def map_suggestions_to_parameters(suggested: Mapping[str, Iterable[str]]) -> dict[str, Iterable[str]]:
    """Map the suggested values of traits to the parameters that filter by them."""
    return {name: suggested.get(trait, ()) for name, trait in _TRAITS.items()}


def get_required_index_kinds(query: QueryDict) -> set[Kind]:
    """Return the kinds of text that must be indexed completely for the list to be complete."""
    has_activity_time = not parse_sort(query).is_by_start and bool(TimeRange.parse_query(query))
    if has_activity_time and not (query.get("interrupted") or query.get("lost")):
        return set(Kind)
    traits = {trait for trait, _value in _parse_trait_parameters(query)}
    traits |= {Trait.INTERRUPTED} if query.get("interrupted") and not has_activity_time else set()
    traits |= {Trait.DECIDED_BY} if query.get("decided") else set()
    told_by_messages = {Kind.MESSAGE} if query.get("models") in KNOWN_MODELS else set()
    return told_by_messages | {_TOLD_BY[trait] for trait in traits}


def find_session_pks_matching_words(workspace: int, query: QueryDict) -> frozenset[int] | None:
    """Return the keys of all sessions that match the search words; None if there are none.

    For exports of all matches: the number of keys may exceed the parameter limit of one statement.
    """
    words = SearchQuery.parse(read_and_decrypt_text_parameter(query, "q"))
    return frozenset(passage_search.list_session_pks_matching_every_term(workspace, words)) if words else None


def read_and_decrypt_text_parameter(query: QueryDict, name: str) -> str:
    return decrypt_name_if_encrypted(query.get(name, "").replace("\0", "").strip())[:LONGEST]


def _parse_trait_parameters(query: QueryDict) -> list[tuple[Trait, str]]:
    return [
        (trait, read_and_decrypt_text_parameter(query, name))
        for name, trait in _TRAITS.items()
        if read_and_decrypt_text_parameter(query, name)
    ]


def _build_decision_lost_run_and_activity_conditions(workspace: int, query: QueryDict, times: TimeRange) -> list[Q]:
    """Build the conditions for decisions of people, lost runs, and interrupted calls or activity in a bounded time."""
    conditions: list[Q] = []
    if query.get("interrupted") and times:
        conditions.append(Q(pk__in=_query_session_keys_with_call_ever_interrupted(workspace, times)))
    elif times and not query.get("lost"):
        conditions.append(
            # When a session from a transcript without times was active is unknown; that of its import is no activity.
            Q(
                pk__in=sessions_by_active_hour.query_sessions_active_between(workspace, times.since, times.until),
                **session_list_pages.HAS_TIMES,
            )
        )
    if query.get("lost"):
        lost_runs = Run.objects.filter(status=RunStatus.LOST)
        conditions.append(Q(pk__in=_filter_by_time(lost_runs, "ended_at", times).values("session")))
    if query.get("decided"):
        conditions.append(_build_decided_by_person_condition(workspace, times))
    return conditions


def _query_session_keys_with_call_ever_interrupted(workspace: int, times: TimeRange) -> QuerySet[Any, Any]:
    """Query the keys of the sessions with an interrupted call that was issued in a time."""
    calls = ToolCall.objects.filter(workspace=workspace, interrupted_at__isnull=False)
    return _filter_by_time(calls.exclude(reason=InterruptReason.NO_RESULT), "issued_at", times).values("session")


def _build_decided_by_person_condition(workspace: int, times: TimeRange) -> Q:
    """Build the condition for sessions with a decision of a person, in a time if it is bounded."""
    decided = Q(pk__in=Fact.objects.filter(workspace=workspace, trait=Trait.DECIDED_BY).values("session"))
    if not times:
        return decided
    decisions = Decision.objects.filter(session=OuterRef("pk"), final=True, actor_kind__in=DECIDING_PEOPLE)
    return decided & Q(Exists(_filter_by_time(decisions.exclude(kind=DecisionKind.WITHDRAW), "created_at", times)))


def _filter_by_time(rows: QuerySet[Any, Any], field: str, times: TimeRange) -> QuerySet[Any, Any]:
    bounds = {f"{field}__gte": times.since, f"{field}__lt": times.until}
    return rows.filter(**{lookup: bound for lookup, bound in bounds.items() if bound is not None})


def _build_trait_condition(workspace: int, trait: str, value: str) -> Q:
    """Build the condition for sessions with a trait.

    The additional lower bound lets a plan that walks the primary key start at the first match.
    """
    keys = _query_sessions_with_trait(workspace, trait, value)
    return Q(pk__in=keys, pk__gte=Subquery(keys.order_by("session")[:1]))


def _query_sessions_with_trait(workspace: int, trait: str, value: str) -> QuerySet[Any, Any]:
    """Query the keys of the sessions with a trait, each once."""
    return Fact.objects.filter(workspace=workspace, trait=trait, value=value).values("session")


def _build_unknown_or_several_models_condition(workspace: int, known: str) -> Q:
    """Build the condition for sessions of which no model is known, or several are."""
    facts: QuerySet[Any, Any] = Fact.objects.filter(workspace=workspace, trait=Trait.MODEL)
    if known == "unknown":
        return Q(~Exists(facts.filter(session=OuterRef("pk"))))
    return Q(
        pk__in=facts.order_by().values("session").annotate(number=Count("pk")).filter(number__gt=1).values("session")
    )


def _parse_amount(text: str) -> Decimal | None:
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        return None
    number = match[1].replace(",", ".")
    amount = Decimal(number).quantize(Decimal("0.000001")) if len(number) <= 24 else _MAX_AMOUNT
    return amount if amount < _MAX_AMOUNT else None
