"""Query for the attempts that took the place of calls that ran once more."""

from collections.abc import Iterable

from checkpoints.enums import CallStatus
from checkpoints.models import ToolCall


def load_statuses_of_next_attempts(calls: Iterable[ToolCall]) -> dict[int, str]:
    """Load the statuses of the next attempts of calls that ran once more, by the keys of these calls.

    Runs one query if there are any.
    """
    replaced = {
        (call.session_id, call.step, call.call_id, call.attempt + 1): call.pk
        for call in calls
        if call.status == CallStatus.SUPERSEDED
    }
    if not replaced:
        return {}
    sessions = {session for session, _step, _call_id, _attempt in replaced}
    call_ids = {call_id for _session, _step, call_id, _attempt in replaced}
    attempts = ToolCall.objects.filter(session__in=sessions, call_id__in=call_ids, attempt__gt=1)
    found = attempts.values_list("session_id", "step", "call_id", "attempt", "status")
    return {replaced[key]: status for *names, status in found if (key := tuple(names)) in replaced}
