"""Requests of people for the verification of a call, and the answers of verify hooks to them."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from checkpoints.enums import ActorKind
from checkpoints.models import Decision
from harness_site.sessions.timeline.selectors import takeover_approval_verification_and_handover_events
from harness_site.sessions.timeline.selectors.takeover_approval_verification_and_handover_events import ProbeRequest

#: Requests of one person belong together if each was made so soon after the other.
_TIME_BETWEEN_REQUESTS: Final = timedelta(seconds=10)


def are_requested_together(request: ProbeRequest, other: ProbeRequest) -> bool:
    """Return whether one person has made both requests, one soon after the other."""
    return request.name == other.name and abs(request.at - other.at) <= _TIME_BETWEEN_REQUESTS


def load_answered_requests(decisions: Sequence[Decision]) -> dict[int, ProbeRequest]:
    """Load the requests that these decisions answer, by the keys of the decisions; two queries if hooks made some."""
    by_hooks = {each.tool_call_id: each for each in decisions if each.actor_kind == ActorKind.HOOK}
    if not by_hooks:
        return {}
    sessions = {each.session_id for each in by_hooks.values()}
    requests = takeover_approval_verification_and_handover_events.load_probe_requests(sessions)
    decisions_of_calls: defaultdict[int, list[Decision]] = defaultdict(list)
    for decision in Decision.objects.filter(tool_call__in=by_hooks).select_related("tool_call").order_by("pk"):
        if decision.pk <= by_hooks[decision.tool_call_id].pk:
            decisions_of_calls[decision.tool_call_id].append(decision)
    answered = {
        decision.pk: find_answered_request(
            decisions_of_calls[pk],
            requests.get((decision.session_id, (decision.tool_call.call_id, decision.tool_call.step)), []),
        )
        for pk, decision in by_hooks.items()
    }
    return {pk: request for pk, request in answered.items() if request is not None}


def find_answered_request(decisions: Sequence[Decision], requests: Sequence[ProbeRequest]) -> ProbeRequest | None:
    """Return the request that the last of the decisions about a call answers; both are in order of time.

    The result is None if a person has decided, or if the verify hook was asked because a process started: an answer
    belongs to a request that was made after the decision before it.
    """
    if not decisions or decisions[-1].actor_kind != ActorKind.HOOK:
        return None
    answered_at = decisions[-1].created_at
    since = decisions[-2].created_at if len(decisions) > 1 else decisions[-1].tool_call.issued_at
    return next((request for request in reversed(requests) if since <= request.at <= answered_at), None)
