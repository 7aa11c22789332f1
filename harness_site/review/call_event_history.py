"""History of one call: the known events in order of time, with gaps marked."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from checkpoints.db import clock
from checkpoints.decisions.decide import RULES
from checkpoints.decisions.vote_and_electorate_types import Vote
from checkpoints.enums import DECIDING_KINDS, NOT_RUN_CALL_STATUSES, DecisionKind, InterruptReason, RunStatus
from checkpoints.models import Run, ToolCall
from harness_site.review.decided_rows_and_batches import is_decision_withdrawn
from harness_site.review.selectors.decision_card_queries import CallEvidence
from harness_site.sessions.selectors.multi_person_decisions import list_earlier_agreeing_votes_of_others
from harness_site.sessions.timeline.selectors.call_handovers_between_people import HandOver, filter_handovers_of_attempt
from harness_site.sessions.timeline.selectors.run_lanes import compute_end_of_unknown_call_outcome
from harness_site.sessions.timeline.selectors.takeover_approval_verification_and_handover_events import (
    ApprovalQuestion,
    RunEvents,
)


@dataclass(frozen=True, slots=True)
class CallHistoryEvent:
    """Event in the history of a call: `kind` selects the text, `about` is the row it describes, `at` is None if
    undated.

    `place` is the ordinal of a decision among several, `takeover` the takeover of the run. `is_withdrawn` is whether
    people have withdrawn the decision since.
    """

    kind: str
    about: Any
    at: datetime | None = None
    seconds: float | None = None
    place: int = 0
    takeover: Any = None
    is_withdrawn: bool = False


def has_never_run(call: ToolCall, evidence: CallEvidence) -> bool:
    """Return True if this attempt has not started the tool."""
    decision = evidence.final_decision
    was_answered = decision is not None and decision.kind == DecisionKind.RESPOND
    return call.status in NOT_RUN_CALL_STATUSES or was_answered or call.is_question


def list_call_history_events(
    call: ToolCall,
    evidence: CallEvidence,
    events_of_runs: RunEvents,
    votes: Mapping[int, Vote],
    handovers: Iterable[HandOver],
    runs_before_start: Sequence[Run] = (),
) -> list[CallHistoryEvent]:
    """Build the events in the history of the card; `votes` has the person of each decision of a call of several.

    `handovers` are those of all attempts. `runs_before_start` are the runs from the one that asked for approval to the
    one that has started the call.
    """
    handover_events = _build_handover_events(call, evidence, handovers)
    decision_events = _sort_by_time([*_build_decision_events(call, evidence, votes), *handover_events], call)
    if has_never_run(call, evidence):
        return [
            _build_approval_request_event(call, events_of_runs),
            *_build_follow_up_and_decision_events(call, evidence, events_of_runs, decision_events),
            *_build_question_withdrawal_events(call, evidence),
        ]
    before = [event for event in decision_events if event.at is not None and event.at < call.issued_at]
    after = decision_events[len(before) :]
    question = find_approval_request_of_decided_call_before_start(call, evidence, events_of_runs)
    question_events = [] if question is None else [CallHistoryEvent("asked", question.run_number, question.at)]
    if question is not None:
        decided_at = next(event.at for event in reversed(before) if event.kind != "handover")
        missed = _list_missed_deadline_events(call, question.at, decided_at)
        run_events = [
            *_build_start_events(runs_before_start[1:], "later_run", events_of_runs),
            *_build_loss_events(runs_before_start[:-1], events_of_runs),
        ]
        before = _sort_by_time([*before, *missed, *run_events], call)
    start_events = [
        *question_events,
        *before,
        _build_issue_event(call),
        *_build_interruption_or_settling_events(call, events_of_runs),
    ]
    return [*start_events, *_build_follow_up_and_decision_events(call, evidence, events_of_runs, after)]


def find_approval_request_of_decided_call_before_start(
    call: ToolCall, evidence: CallEvidence, events_of_runs: RunEvents
) -> ApprovalQuestion | None:
    """Return the last request for approval before the start of a call that people have decided about until then."""
    if has_never_run(call, evidence) or not any(each.created_at < call.issued_at for each in evidence.decisions):
        return None
    return events_of_runs.find_last_approval_request(call.call_id, call.issued_at)


def _build_approval_request_event(call: ToolCall, events_of_runs: RunEvents) -> CallHistoryEvent:
    """Build the event with the time that it also has once the call has run."""
    question = None if call.is_copied else events_of_runs.find_first_approval_request(call.call_id, call.issued_at)
    if question is None:
        return CallHistoryEvent("asked", call.run.number, call.issued_at)
    return CallHistoryEvent("asked", question.run_number, question.at)


def _build_start_events(runs: Sequence[Run], first_kind: str, events_of_runs: RunEvents) -> list[CallHistoryEvent]:
    return [
        CallHistoryEvent(
            "later_run" if index else first_kind,
            run,
            run.started_at,
            takeover=events_of_runs.takeovers.get(run.number - 1),
        )
        for index, run in enumerate(runs)
    ]


def _build_loss_events(runs: Sequence[Run], events_of_runs: RunEvents) -> list[CallHistoryEvent]:
    return [
        CallHistoryEvent("lost", run, run.ended_at or run.heartbeat_at)
        for run in runs
        if run.status == RunStatus.LOST and run.number not in events_of_runs.takeovers
    ]


def _build_probe_request_events(
    call: ToolCall, evidence: CallEvidence, events_of_runs: RunEvents
) -> list[CallHistoryEvent]:
    """Build the requests for the probe of this attempt, without the last one while it is not answered."""
    following = evidence.next_attempt
    requests = [
        CallHistoryEvent("requested", request, request.at)
        for request in events_of_runs.probes.get((call.call_id, call.step), [])
        if call.issued_at <= request.at and (following is None or request.at < following.issued_at)
    ]
    return requests[:-1] if call.verify_requested_by else requests


def _build_handover_events(
    call: ToolCall, evidence: CallEvidence, handovers: Iterable[HandOver]
) -> list[CallHistoryEvent]:
    following = evidence.next_attempt
    handovers_of_attempt = filter_handovers_of_attempt(
        handovers,
        attempt=call.attempt,
        issued_at=call.issued_at,
        next_issued_at=None if following is None else following.issued_at,
    )
    return [CallHistoryEvent("handover", handover, handover.at) for handover in handovers_of_attempt]


def _build_question_withdrawal_events(call: ToolCall, evidence: CallEvidence) -> list[CallHistoryEvent]:
    is_withdrawn = call.is_question and call.settled_at is not None and evidence.final_decision is None
    return [CallHistoryEvent("settled", call, call.settled_at)] if is_withdrawn else []


def _build_issue_event(call: ToolCall) -> CallHistoryEvent:
    if call.reason == InterruptReason.FORKED:  # the call's own run is that of the fork, which never started it
        return CallHistoryEvent("carried", call.session, call.issued_at)
    if call.is_imported:
        return CallHistoryEvent("imported", call, call.issued_at)
    return CallHistoryEvent("intent", call.run, call.issued_at)


def _build_interruption_or_settling_events(call: ToolCall, events_of_runs: RunEvents) -> list[CallHistoryEvent]:
    if call.reason == InterruptReason.NO_RESULT:
        return [CallHistoryEvent("no_result", call)]
    if call.interrupted_at is None:
        return [] if call.settled_at is None else [CallHistoryEvent("settled", call, call.settled_at)]
    run_lost = call.reason == InterruptReason.RUN_LOST
    ended_at = compute_end_of_unknown_call_outcome(call.interrupted_at, call.run.ended_at)
    takeover = events_of_runs.takeovers.get(call.run.number) if run_lost else None
    gap = CallHistoryEvent(
        "gap", call, seconds=max((ended_at - call.issued_at).total_seconds(), 0.0), takeover=takeover
    )
    if not run_lost or takeover is not None:
        return [gap]
    return [gap, CallHistoryEvent("lost", call.run, ended_at)]


def _build_decision_events(
    call: ToolCall, evidence: CallEvidence, votes: Mapping[int, Vote]
) -> Iterator[CallHistoryEvent]:
    for index, decision in enumerate(evidence.decisions):
        is_vote = call.approvals > 1 and decision.kind in RULES and not RULES[DecisionKind(decision.kind)].by_one
        kind = "decision" if decision.kind in DECIDING_KINDS else "probe"
        # A vote that did not count any more when a later one was given has made the number of that too large.
        highest_number = call.approvals if decision.final else call.approvals - 1
        number = (
            min(len(list_earlier_agreeing_votes_of_others(decision, evidence.decisions, votes)) + 1, highest_number)
            if is_vote
            else 0
        )
        is_withdrawn = is_decision_withdrawn(decision, evidence.decisions[index + 1 :])
        yield CallHistoryEvent(kind, decision, decision.created_at, place=number, is_withdrawn=is_withdrawn)


def _build_follow_up_and_decision_events(
    call: ToolCall, evidence: CallEvidence, events_of_runs: RunEvents, decision_events: list[CallHistoryEvent]
) -> list[CallHistoryEvent]:
    never_ran = has_never_run(call, evidence)
    first_kind = "later_run" if never_ran else "took"
    events = _build_start_events(evidence.successors, first_kind, events_of_runs)
    # The loss of the run that made the call is part of how it was interrupted.
    events += _build_loss_events([*([call.run] if never_ran else []), *evidence.successors], events_of_runs)
    events += _build_probe_request_events(call, evidence, events_of_runs)
    events += [CallHistoryEvent("late", late, late.received_at) for late in evidence.late_results]
    if evidence.next_attempt is not None:
        events.append(CallHistoryEvent("again", evidence.next_attempt, evidence.next_attempt.issued_at))
    decided_at = None if evidence.final_decision is None else evidence.final_decision.created_at
    if call.undecided or never_ran or call.interrupted_at is not None:
        waiting_since = call.interrupted_at or call.issued_at
        events += _list_missed_deadline_events(call, waiting_since, clock.now() if call.undecided else decided_at)
    events = _sort_by_time([*events, *decision_events], call)
    if call.verify_requested_by:
        requests = events_of_runs.probes.get((call.call_id, call.step))
        events.append(CallHistoryEvent("verifying", call, requests[-1].at if requests else None))
    return events


def _list_missed_deadline_events(
    call: ToolCall, waiting_since: datetime, until: datetime | None
) -> list[CallHistoryEvent]:
    """Build the event of a deadline that passed before `until`, the time of the decision or now; else nothing."""
    if call.decide_within is None or until is None or until - waiting_since <= call.decide_within:
        return []
    return [CallHistoryEvent("deadline", call, waiting_since + call.decide_within)]


def _sort_by_time(events: list[CallHistoryEvent], call: ToolCall) -> list[CallHistoryEvent]:
    return sorted(events, key=lambda event: event.at or call.issued_at)
