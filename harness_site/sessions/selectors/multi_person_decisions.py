"""Agreements of calls that need the decisions of several people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from checkpoints.decisions.decide import RESULT_GIVING_KINDS, list_open_votes
from checkpoints.decisions.vote_and_electorate_types import Electorate, Vote, map_decisions_to_votes_of_actors
from checkpoints.enums import DECIDING_KINDS, DecisionKind
from checkpoints.models import Decision, ToolCall


@dataclass(frozen=True, slots=True)
class Agreement:
    """`voices` of `needed` equal decisions made so far, oldest first.

    Decisions that give the agent a result are equal if their texts are.
    """

    kind: DecisionKind
    needed: int
    voices: tuple[Decision, ...]
    #: Names of the people, in the order of their decisions: a token decides for its owner.
    persons: tuple[str, ...]

    @property
    def person_count(self) -> int:
        """Number of people who have decided so."""
        return len(self.persons)

    def find_decision_of_person(self, name: str) -> Decision | None:
        """Return what a person, or a token of that person, has decided; None without a decision."""
        return next((voice for voice, person in zip(self.voices, self.persons, strict=True) if person == name), None)


def list_incomplete_agreements(
    call: ToolCall, decisions: Sequence[Decision], electorate: Electorate = map_decisions_to_votes_of_actors
) -> tuple[Agreement, ...]:
    """List the incomplete agreements of a call, one for each answer; `decisions` are all of the call, in order.

    People disagree if there are several.

    Decisions before the last final one, about other arguments, taken back, or by people who may no longer decide do not
    count.
    """
    votes = electorate(decisions) if call.approvals > 1 else {}
    return build_incomplete_agreements_from_votes(call, decisions, votes)


def _get_decision_kind_and_result(decision: Decision) -> tuple[str, str | None]:
    """Return what has to be equal in the decisions of several people: the kind, and the result that the agent gets."""
    return decision.kind, decision.result if decision.kind in RESULT_GIVING_KINDS else None


def is_same_answer(one: Decision, other: Decision) -> bool:
    """Return whether two decisions about a call agree."""
    return _get_decision_kind_and_result(one) == _get_decision_kind_and_result(other)


def build_incomplete_agreements_from_votes(
    call: ToolCall, decisions: Iterable[Decision], votes: Mapping[int, Vote]
) -> tuple[Agreement, ...]:
    """List the incomplete agreements of a call, as `list_incomplete_agreements` does, from votes of an electorate."""
    decisions_by_answer: defaultdict[tuple[str, str | None], list[Decision]] = defaultdict(list)
    for vote in list_open_votes(call.args_digest, [each for each in decisions if each.kind in DECIDING_KINDS], votes):
        if votes[vote.pk].counts:
            decisions_by_answer[_get_decision_kind_and_result(vote)].append(vote)
    return tuple(
        Agreement(
            DecisionKind(kind),
            call.approvals,
            tuple(group),
            tuple(votes[vote.pk].person for vote in group),
        )
        for (kind, _result), group in decisions_by_answer.items()
    )


def load_incomplete_agreements_of_calls(
    calls: Sequence[ToolCall], electorate: Electorate = map_decisions_to_votes_of_actors
) -> dict[int, tuple[Agreement, ...]]:
    """Load the agreements of all calls that need several people, by primary key: one query and those of the
    electorate."""
    calls_by_pk = {call.pk: call for call in calls if call.approvals > 1}
    decisions: defaultdict[int, list[Decision]] = defaultdict(list)
    for decision in _query_decisions_of_calls(sorted(calls_by_pk)) if calls_by_pk else ():
        decisions[decision.tool_call_id].append(decision)
    votes = electorate([decision for group in decisions.values() for decision in group]) if decisions else {}
    return {pk: build_incomplete_agreements_from_votes(call, decisions[pk], votes) for pk, call in calls_by_pk.items()}


def _query_decisions_of_calls(calls: list[int]) -> QuerySet[Decision]:
    return Decision.objects.filter(tool_call__in=calls).order_by(*Decision.IN_ORDER)


def list_overruled_votes(
    decision: Decision, decisions: Sequence[Decision], votes: Mapping[int, Vote]
) -> list[tuple[Decision, str]]:
    """List the votes that another answer has overruled, each with the name of its person.

    Args:
        decision: The decision that moved the call.
        decisions: All decisions about the call, in their order.
        votes: Person of each decision by its primary key, as an electorate function gives it.
    """
    earlier = [each for each in decisions if each.pk < decision.pk and each.kind in DECIDING_KINDS]
    decider = votes[decision.pk].person if decision.pk in votes else ""
    return [
        (vote, votes[vote.pk].person)
        for vote in list_open_votes(decision.args_digest, earlier, votes)
        if not is_same_answer(vote, decision) and votes[vote.pk].person != decider
    ]


def list_earlier_agreeing_votes_of_others(
    decision: Decision, decisions: Sequence[Decision], votes: Mapping[int, Vote]
) -> list[Decision]:
    """List the decisions of other people that waited for others and agree with a later decision about the same call.

    Args:
        decision: The later decision, which is not counted.
        decisions: All decisions about the call, in their order.
        votes: Person of each decision by its primary key, as an electorate function gives it.
    """
    earlier = [each for each in decisions if each.pk < decision.pk and each.kind in DECIDING_KINDS]
    return [
        vote
        for vote in list_open_votes(decision.args_digest, earlier, votes)
        if is_same_answer(vote, decision) and votes[vote.pk].person != votes[decision.pk].person
    ]


def has_votes_of_others(decision: Decision, decisions: Sequence[Decision], votes: Mapping[int, Vote]) -> bool:
    """Return whether other people had voted before a final decision, for the same answer or another one.

    A withdrawal of the decision cancels their votes. The arguments are those of `list_overruled_votes`.
    """
    about = decision, decisions, votes
    return decision.pk in votes and bool(list_earlier_agreeing_votes_of_others(*about) or list_overruled_votes(*about))
