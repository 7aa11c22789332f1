"""What became of the calls of an outage that a person has asked to verify together."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from checkpoints.enums import ActorKind, DecisionKind
from checkpoints.models import Decision, ToolCall
from harness_site.review.verification_requests_and_hook_answers import are_requested_together
from harness_site.sessions.timeline.selectors.takeover_approval_verification_and_handover_events import ProbeRequest


class VerificationState(StrEnum):
    """What became of one call since the request for its verification."""

    HAPPENED = "happened"
    DID_NOT_HAPPEN = "did not happen"
    UNKNOWN = "unknown"
    #: The verify hook has not answered yet.
    UNANSWERED = "unanswered"
    #: A person has decided about a call that the verification did not settle.
    DECIDED = "decided"


_STATES_OF_ANSWERS: Final = {
    DecisionKind.PROBE_LANDED: VerificationState.HAPPENED,
    DecisionKind.PROBE_NOT_LANDED: VerificationState.DID_NOT_HAPPEN,
}


@dataclass(frozen=True, slots=True)
class OutageVerification:
    """The last verification of calls, for which `name` has asked at `at`, with the number of calls in each state."""

    name: str
    at: datetime
    happened: int
    did_not_happen: int
    unknown: int
    unanswered: int
    decided: int

    @property
    def call_count(self) -> int:
        return self.happened + self.did_not_happen + self.unknown + self.unanswered + self.decided

    @property
    def has_result(self) -> bool:
        """Whether all calls are answered, and what happened to some is known now."""
        return not self.unanswered and self.happened + self.did_not_happen > 0


def summarize_last_verification(
    calls: Iterable[tuple[ToolCall, Sequence[Decision], Sequence[ProbeRequest]]],
) -> OutageVerification | None:
    """Summarize the last verification among calls with their decisions and requests, both in order of time."""
    asked = [(requests[-1], call, decisions) for call, decisions, requests in calls if requests]
    asked.sort(key=lambda each: each[0].at, reverse=True)
    if not asked:
        return None
    first = asked[0][0]
    states: Counter[VerificationState] = Counter()
    for request, call, decisions in asked:
        if not are_requested_together(first, request):
            break
        first = request
        states[_find_state(request, call, decisions)] += 1
    return OutageVerification(
        first.name,
        first.at,
        states[VerificationState.HAPPENED],
        states[VerificationState.DID_NOT_HAPPEN],
        states[VerificationState.UNKNOWN],
        states[VerificationState.UNANSWERED],
        states[VerificationState.DECIDED],
    )


def _find_state(request: ProbeRequest, call: ToolCall, decisions: Sequence[Decision]) -> VerificationState:
    answers = [each for each in decisions if each.actor_kind == ActorKind.HOOK and each.created_at >= request.at]
    state = _STATES_OF_ANSWERS.get(DecisionKind(answers[0].kind)) if answers else None
    if state is not None:
        return state
    if not call.undecided:
        return VerificationState.DECIDED
    return VerificationState.UNKNOWN if answers else VerificationState.UNANSWERED
