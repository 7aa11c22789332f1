"""Requests of people for the verification of a call, and the answers of verify hooks to them."""

from collections.abc import Sequence

from checkpoints.enums import ActorKind
from checkpoints.models import Decision
from harness_site.sessions.timeline.selectors.takeovers_and_requests_from_audit_trail import ProbeRequest


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
