"""Query for the list of decided calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from checkpoints.enums import DECIDING_KINDS, ActorKind, DecisionKind
from checkpoints.models import Decision, ToolCall, Workspace
from checkpoints.models.tool_calls_and_results import IS_QUESTION
from harness_site.core.status_and_decision_labels import QUESTION_ANSWERS
from harness_site.core.time_range_parameters import TimeRange
from harness_site.review.selectors.pending_calls import PAGE, BoundedCount, CallFilters
from harness_site.search.hourly_call_and_decision_sums import COUNTED_DECISIONS

#: Upper bound of the numbers of calls and decisions that a filtered list states.
COUNT_LIMIT = 1000
#: Decisions to list: discards of read-only calls are automatic and left out.
SHOWN_DECISIONS = sorted(DECIDING_KINDS - {DecisionKind.DISCARD})


@dataclass(frozen=True, slots=True)
class DecisionFilters:
    """Filters of the decisions themselves, beside those of their calls.

    `times` are those of the decisions. `only_people` selects the final decisions of people, whose waiting times the
    overview shows. `person` selects the decisions of one person by name, and `kind` those of one kind: with
    `about_question` the answers to questions that have a label of their own, otherwise all others. `found` are the keys
    of the decisions that a search has found; None without a search.
    """

    times: TimeRange = field(default_factory=TimeRange)
    only_people: bool = False
    person: str = ""
    kind: DecisionKind | None = None
    found: frozenset[int] | None = None
    about_question: bool = False

    def __bool__(self) -> bool:
        return bool(self.times or self.only_people or self.person or self.kind or self.found is not None)


@dataclass(frozen=True, slots=True)
class DecisionsAboutCall:
    """All decisions of people and hooks about a call, in their order, and the position of the latest that matches."""

    decisions: tuple[Decision, ...]
    position: int

    @property
    def matching_decision(self) -> Decision:
        return self.decisions[self.position]

    @property
    def earlier(self) -> tuple[Decision, ...]:
        return self.decisions[: self.position]

    @property
    def later(self) -> tuple[Decision, ...]:
        return self.decisions[self.position + 1 :]


def load_page_of_decisions_by_call(
    workspace: Workspace,
    filters: CallFilters,
    wanted: DecisionFilters = DecisionFilters(),
    *,
    before: int | None = None,
    limit: int = PAGE,
) -> tuple[list[DecisionsAboutCall], int | None, int]:
    """Load the calls with a matching decision, the latest of these first.

    Calls that wait are among them: for the other people who have to agree, or again, because their arguments were
    changed or a decision was withdrawn.

    Returns the decisions about each call, the key to continue before (None at the end), and the number of calls on the
    next page.
    """
    latest = _query_latest_decisions_of_calls(workspace, filters, wanted)
    if before is not None:
        latest = latest.filter(pk__lt=before)
    found = list(latest.order_by("-pk").values_list("pk", "tool_call")[: 2 * limit])
    page, following = found[:limit], len(found[limit:])
    decisions_of_calls: defaultdict[int, list[Decision]] = defaultdict(list)
    if page:
        decisions = Decision.objects.filter(tool_call__in=[call for _pk, call in page], kind__in=SHOWN_DECISIONS)
        for decision in decisions.select_related("tool_call", "session").order_by("pk"):
            decisions_of_calls[decision.tool_call_id].append(decision)
    rows = [_build_decisions_about_call(pk, decisions_of_calls[call]) for pk, call in page]
    return rows, page[-1][0] if following else None, following


def _build_decisions_about_call(pk: int, decisions: Sequence[Decision]) -> DecisionsAboutCall:
    return DecisionsAboutCall(tuple(decisions), next(at for at, each in enumerate(decisions) if each.pk == pk))


def count_decided_calls(
    workspace: Workspace, filters: CallFilters, wanted: DecisionFilters, *, limit: int = COUNT_LIMIT
) -> BoundedCount:
    """Count the calls with a matching decision, up to `limit`."""
    return _count_decisions_up_to_limit(_query_latest_decisions_of_calls(workspace, filters, wanted), limit)


def count_decisions(workspace: Workspace, filters: CallFilters, wanted: DecisionFilters) -> BoundedCount:
    """Count the decisions that match, up to `COUNT_LIMIT`; a call may have several."""
    return _count_decisions_up_to_limit(query_decisions(workspace, filters, wanted), COUNT_LIMIT)


def query_decisions(workspace: Workspace, filters: CallFilters, wanted: DecisionFilters) -> QuerySet[Decision]:
    """Select the decisions that match, unordered."""
    return _query_decisions(workspace, filters, _build_decision_condition(wanted))


def _count_decisions_up_to_limit(decisions: QuerySet[Decision], limit: int) -> BoundedCount:
    # Newest first: a plan without an order may begin with all calls of the workspace.
    number = len(decisions.order_by("-pk").values_list("pk")[: limit + 1])
    return BoundedCount(min(number, limit), number > limit)


def _query_latest_decisions_of_calls(
    workspace: Workspace, filters: CallFilters, wanted: DecisionFilters
) -> QuerySet[Decision]:
    """Select the latest matching decision about each call."""
    if not filters and not wanted:
        return _select_latest_decisions_of_calls().filter(_build_workspace_condition(workspace))
    condition = _build_decision_condition(wanted)
    return _query_decisions(workspace, filters, condition & _build_no_later_match_condition(condition))


@cache
def _select_latest_decisions_of_calls() -> QuerySet[Decision]:
    condition = _build_decision_condition(DecisionFilters())
    return Decision.objects.filter(condition, _build_no_later_match_condition(condition))


def _build_no_later_match_condition(condition: Q) -> Q:
    """Build the condition that no later decision about the same call matches this condition."""
    later = Decision.objects.filter(condition, tool_call=OuterRef("tool_call"), pk__gt=OuterRef("pk"))
    return Q(~Exists(later))


def _build_workspace_condition(workspace: Workspace) -> Exists:
    # As a join, this condition may make a plan read all sessions of the workspace instead of the newest decisions.
    return Exists(_select_calls_of_decisions().filter(workspace=workspace.pk))


@cache
def _select_calls_of_decisions() -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(pk=OuterRef("tool_call"))


def _query_decisions(workspace: Workspace, filters: CallFilters, condition: Q) -> QuerySet[Decision]:
    decisions = Decision.objects.filter(_build_workspace_condition(workspace), condition)
    if filters.tool:
        decisions = decisions.filter(tool_call__tool=filters.tool)
    if filters.agent:
        decisions = decisions.filter(session__agent=filters.agent)
    if filters.risk is None:
        return decisions
    question = ToolCall.objects.filter(IS_QUESTION, pk=OuterRef("tool_call"))  # which has no risk
    return decisions.filter(~Exists(question), tool_call__risk=filters.risk)


def _build_decision_condition(wanted: DecisionFilters) -> Q:
    condition = Q(kind__in=SHOWN_DECISIONS)
    if wanted.only_people:
        condition &= COUNTED_DECISIONS
    if wanted.person:
        condition &= Q(actor=wanted.person, actor_kind=ActorKind.PERSON)
    if wanted.kind is not None:
        condition &= _build_kind_condition(wanted.kind, about_question=wanted.about_question)
    if wanted.found is not None:
        condition &= Q(pk__in=sorted(wanted.found))
    if wanted.times.since is not None:
        condition &= Q(created_at__gte=wanted.times.since)
    if wanted.times.until is not None:
        condition &= Q(created_at__lt=wanted.times.until)
    return condition


def _build_kind_condition(kind: DecisionKind, *, about_question: bool) -> Q:
    """Build the condition of the decisions that have the label of this kind, about a question or about other calls."""
    if kind not in QUESTION_ANSWERS:
        return Q(kind=kind)
    questions = ToolCall.objects.filter(IS_QUESTION, pk=OuterRef("tool_call"))
    if kind == DecisionKind.APPROVE:  # with a changed value it is approved as a call is
        questions = questions.filter(Q(asked_args_digest="") | Q(asked_args_digest=F("args_digest")))
    is_answer = Exists(questions)
    return Q(is_answer if about_question else ~is_answer, kind=kind)
