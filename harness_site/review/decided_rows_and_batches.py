"""Row of the list of decided calls, with all displayed values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from types import MappingProxyType
from typing import ClassVar, Final

from checkpoints.enums import ActorKind, DecisionKind
from checkpoints.models import Decision
from harness_site.core import formatting, status_and_decision_labels
from harness_site.core.time_range_parameters import format_time_parameter
from harness_site.review.selectors.decided_calls import DecisionsAboutCall
from harness_site.review.verification_requests_and_hook_answers import are_requested_together
from harness_site.sessions.timeline.selectors.takeover_approval_verification_and_handover_events import ProbeRequest

#: Equal decisions of a person are one row if there are so many, each recorded soon after the other.
_LEAST_CALLS_OF_BATCH: Final = 3
_TIME_BETWEEN_CALLS_OF_BATCH: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class OtherDecision:
    """Decision about the same call before or after the one of a row: a vote, a change of the arguments, or one that was
    `withdrawn` since."""

    kind: str
    actor: str
    withdrawn: bool
    is_by_hook: bool
    #: Reason of a vote that counts for the decision of several people; else empty. It does not tell batches apart.
    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class DecidedRow:
    """Call `call_pk`, described by `tool`, `sentence` and `args`, with a decision and those `earlier` and `later`."""

    is_batch: ClassVar[bool] = False
    pk: int
    kind: str
    final: bool
    actor: str
    reason: str
    created_at: datetime
    earlier: tuple[OtherDecision, ...]
    later: tuple[OtherDecision, ...]
    call_pk: int
    tool: str
    sentence: str
    #: Left out of the representation; `args_digest` identifies the arguments.
    args: str = field(repr=False)
    args_json_in_caller_order: str = field(repr=False)
    args_digest: str
    has_changed_args: bool
    is_question: bool
    approvals: int
    #: Whether the decision gives the call back the arguments that the agent asked for.
    restores_original_args: bool
    has_evidence: bool
    #: Chip shape and label of whether the call has run or waits again since; None if the decision lets it do neither,
    #: or others followed.
    chip_of_run_since_decision: tuple[str, str] | None
    session_pk: int
    session_id: str
    is_by_person: bool
    is_by_hook: bool
    #: Key of the bulk decision to which the decision belongs, or the one that it withdraws.
    bulk_pk: int | None
    #: Request for the verification that has decided, if somebody asked for it.
    verification_request: ProbeRequest | None


@dataclass(frozen=True, slots=True)
class DecidedBatch:
    """Rows of calls of one tool about which one person has decided the same, the latest first; shown as one row.

    They belong to one bulk decision, or were recorded by themselves soon after each other; or a verification for which
    one person has asked found what happened to them.
    """

    is_batch: ClassVar[bool] = True
    rows: tuple[DecidedRow, ...]

    @property
    def created_at(self) -> datetime:
        return self.latest.created_at

    @property
    def latest(self) -> DecidedRow:
        return self.rows[0]

    @property
    def reason(self) -> str:
        """Reason of all these decisions; empty if they have several."""
        return self.latest.reason if len({row.reason for row in self.rows}) == 1 else ""

    @property
    def chip_of_run_since_decision(self) -> tuple[str, str] | None:
        """What `DecidedRow.chip_of_run_since_decision` is for all these calls; None if they differ."""
        return (
            self.latest.chip_of_run_since_decision
            if len({row.chip_of_run_since_decision for row in self.rows}) == 1
            else None
        )

    @property
    def earlier(self) -> tuple[OtherDecision, ...]:
        """Decisions before the last one, if they are the same for all these calls."""
        if len({row.earlier for row in self.rows}) > 1:
            return ()
        earlier = self.latest.earlier
        has_one_reason = len({tuple(other.reason for other in row.earlier) for row in self.rows}) == 1
        return earlier if has_one_reason else tuple(replace(other, reason="") for other in earlier)

    @property
    def has_evidence_for_all_calls(self) -> bool:
        return all(row.has_evidence for row in self.rows)

    @property
    def happened_count(self) -> int:
        """Number of the calls that a verification found to have happened."""
        return sum(row.kind == DecisionKind.PROBE_LANDED for row in self.rows)

    @property
    def did_not_happen_count(self) -> int:
        """Number of the calls that a verification found not to have happened."""
        return sum(row.kind == DecisionKind.PROBE_NOT_LANDED for row in self.rows)

    @property
    def is_withdrawal(self) -> bool:
        return self.latest.kind == DecisionKind.WITHDRAW

    @property
    def duration(self) -> str:
        """Time from the first to the last of these decisions."""
        seconds = (self.latest.created_at - self.rows[-1].created_at).total_seconds()
        return formatting.format_duration_rounded_up(max(seconds, 1))

    @property
    def first_time_parameter(self) -> str:
        """Value of the parameter `first` of the list of these decisions, in UTC."""
        return format_time_parameter(self.rows[-1].created_at.replace(microsecond=0))

    @property
    def last_time_parameter(self) -> str:
        """Value of the parameter `last` of the list of these decisions, in UTC."""
        return format_time_parameter(self.latest.created_at.replace(microsecond=0) + timedelta(seconds=1))


def group_equal_decisions(rows: Sequence[DecidedRow]) -> list[DecidedRow | DecidedBatch]:
    """Replace neighbouring rows of equal decisions by batches, where there are enough of them."""
    groups: list[list[DecidedRow]] = []
    for row in rows:
        if groups and _is_of_same_batch(groups[-1][-1], row):
            groups[-1].append(row)
        else:
            groups.append([row])
    grouped: list[DecidedRow | DecidedBatch] = []
    for group in groups:
        is_made_together = group[0].bulk_pk is not None or group[0].verification_request is not None
        if len(group) < (2 if is_made_together else _LEAST_CALLS_OF_BATCH):
            grouped += group
        else:
            grouped.append(DecidedBatch(tuple(group)))
    return grouped


def find_end_of_page_of_joined_rows(rows: Sequence[DecidedRow], size: int) -> int | None:
    """Return how many rows, which `group_equal_decisions` makes at least `size` rows of, a page has.

    The page ends with a whole batch.

    Returns:
        None if rows that follow may belong to the page.
    """
    joined = group_equal_decisions(rows)
    if len(joined) <= size:
        return None
    end = sum(len(row.rows) if isinstance(row, DecidedBatch) else 1 for row in joined[:size])
    while end < len(rows) and _is_of_same_batch(rows[end - 1], rows[end]):
        end += 1
    return end if end < len(rows) else None


def are_neighbours_in_one_minute(rows: Sequence[DecidedRow | DecidedBatch]) -> bool:
    """Return whether only seconds tell some row apart from the next one. Then all times of the list have them."""
    minutes = [row.created_at.replace(second=0, microsecond=0) for row in rows]
    return any(later == earlier for later, earlier in pairwise(minutes))


def count_equal_decisions(decisions: Sequence[OtherDecision]) -> list[tuple[OtherDecision, int]]:
    """Count how often each of some decisions was made, in the order of the first ones, so that none is named twice."""
    numbers = Counter((decision, decision.reason) for decision in decisions)
    return [(decision, number) for (decision, _reason), number in numbers.items()]


def _is_of_same_batch(later: DecidedRow, row: DecidedRow) -> bool:
    if later.verification_request is not None and row.verification_request is not None:
        is_same_tool = later.tool == row.tool
        return is_same_tool and are_requested_together(later.verification_request, row.verification_request)
    return (
        row.is_by_person
        and not row.is_question
        and _get_batch_key(row) == _get_batch_key(later)
        and (row.bulk_pk is not None or _can_separate_decisions_be_one_row(later, row))
    )


def _can_separate_decisions_be_one_row(later: DecidedRow, row: DecidedRow) -> bool:
    """Return whether equal decisions that were recorded by themselves can be one row."""
    is_soon_after = later.created_at - row.created_at <= _TIME_BETWEEN_CALLS_OF_BATCH
    return is_soon_after and not (row.earlier or later.earlier)


def _get_batch_key(row: DecidedRow) -> tuple[object, ...]:
    """Return what rows of one batch have in common: those of a bulk decision are one, whatever became of the calls."""
    key = (row.bulk_pk, row.is_by_person, row.actor, row.kind, row.restores_original_args, row.final, row.tool)
    return (
        key
        if row.bulk_pk is not None
        else (*key, row.reason, row.has_evidence, row.chip_of_run_since_decision, row.earlier)
    )


def build_decided_row(
    about_call: DecisionsAboutCall,
    bulk_pks: Mapping[int, int],
    verification_requests: Mapping[int, ProbeRequest] = MappingProxyType({}),
    next_statuses: Mapping[int, str] = MappingProxyType({}),
) -> DecidedRow:
    """Build the row of a call from its matching decision.

    Args:
        about_call: All decisions about the call.
        bulk_pks: Bulk decisions by the keys of their decisions.
        verification_requests: Requests for verifications by the keys of the decisions that answer them.
        next_statuses: Statuses of the next attempts of calls that ran once more, by the keys of these calls.
    """
    decision = about_call.matching_decision
    call = decision.tool_call
    decisions = [
        _build_other_decision(each, about_call.decisions[number + 1 :])
        for number, each in enumerate(about_call.decisions)
    ]
    return DecidedRow(
        pk=decision.pk,
        kind=decision.kind,
        final=decision.final,
        actor=decision.actor,
        reason=decision.reason,
        created_at=decision.created_at,
        earlier=tuple(decisions[: about_call.position]),
        later=tuple(decisions[about_call.position + 1 :]),
        call_pk=call.pk,
        tool=call.tool,
        sentence=call.sentence,
        args=call.args,
        args_json_in_caller_order=call.args_json_in_caller_order,
        args_digest=call.args_digest,
        has_changed_args=call.has_changed_args,
        is_question=call.is_question,
        approvals=call.approvals,
        restores_original_args=decision.kind == DecisionKind.EDIT and decision.args_digest == call.asked_args_digest,
        has_evidence=decision.has_given_evidence,
        chip_of_run_since_decision=None
        if about_call.later
        or not decision.final
        or (call.is_question and decision.kind not in {DecisionKind.WITHDRAW, DecisionKind.EDIT})
        else status_and_decision_labels.find_shape_and_label_of_run_since_decision(
            next_statuses.get(call.pk, call.status),
            final_kind=decision.kind,
            is_session_finished=decision.session.finished,
        ),
        session_pk=decision.session_id,
        session_id=decision.session.session_id,
        is_by_person=decision.actor_kind == ActorKind.PERSON,
        is_by_hook=decision.actor_kind == ActorKind.HOOK,
        bulk_pk=bulk_pks.get(find_decision_or_withdrawn_decision(about_call).pk),
        verification_request=verification_requests.get(decision.pk),
    )


def _build_other_decision(decision: Decision, later: Sequence[Decision]) -> OtherDecision:
    is_withdrawn = is_decision_withdrawn(decision, later)
    is_vote = not decision.final and decision.actor_kind == ActorKind.PERSON and not is_withdrawn
    return OtherDecision(
        decision.kind,
        decision.actor,
        is_withdrawn,
        decision.actor_kind == ActorKind.HOOK,
        decision.reason if is_vote else "",
    )


def find_decision_or_withdrawn_decision(about_call: DecisionsAboutCall) -> Decision:
    """Return the matching decision about a call; if it is a withdrawal, the decision that it withdraws."""
    decision = about_call.matching_decision
    if decision.kind != DecisionKind.WITHDRAW:
        return decision
    return next((each for each in about_call.earlier if each.revision == decision.revision - 1), decision)


def is_decision_withdrawn(decision: Decision, later: Sequence[Decision]) -> bool:
    """Return whether a later withdrawal concerns a decision: all that agreed, or the vote of its own actor alone."""
    if decision.kind in {DecisionKind.EDIT, DecisionKind.WITHDRAW}:
        return False
    return any(
        other.kind == DecisionKind.WITHDRAW and (other.final or other.actor == decision.actor) for other in later
    )
