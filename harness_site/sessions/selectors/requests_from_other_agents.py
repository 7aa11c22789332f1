"""The request of another agent that a session works on."""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints.models import PeerCall, Session
from checkpoints.seals import row_seals
from harness_site.sessions.selectors.waits_for_other_agents import (
    PeerCallRow,
    build_agent_call_row,
    list_prefixes_of_call_id_in_session_id,
)


@dataclass(frozen=True, slots=True)
class AskingCall:
    """The call to another agent that a session works on, and the session and the agent that made it."""

    call_pk: int
    session_pk: int
    session_id: str
    title: str
    agent: str


def find_agent_call_answered_by_session(session: Session, *, is_id_of_call: bool) -> AskingCall | None:
    """Find the call to another agent that a session works on; without a query if its id cannot be that of a call.

    A session works on a call if it is one of the called agent, and if its id is the id of the call, also after the name
    of the agent, as in `stock: w-17`. `is_id_of_call` says whether it is the id of a call to this agent as it is.
    """
    asking = find_request_of_session(session, is_id_of_call=is_id_of_call)
    if asking is None:
        return None
    by = asking.session
    return AskingCall(asking.pk, by.pk, by.session_id, by.title, by.agent)


def find_request_of_session(session: Session, *, is_id_of_call: bool = True) -> PeerCall | None:
    """Find the call that a session works on, as `find_agent_call_answered_by_session` does, with the session that made
    it."""
    prefixes = [
        prefix
        for prefix in list_prefixes_of_call_id_in_session_id(session.agent)
        if session.session_id.startswith(prefix)
    ]
    if not session.agent or not (is_id_of_call or len(prefixes) > 1):
        return None
    call_ids = [session.session_id.removeprefix(prefix) for prefix in prefixes]
    calls = PeerCall.objects.filter(workspace=session.workspace_id, call_id__in=call_ids, peer=session.agent)
    return calls.exclude(session=session.pk).select_related("session").first()


def load_unaltered_request(asking: AskingCall) -> PeerCallRow | None:
    """Load the request that a session works on, with its answer; None if the row does not match its seal.

    The session that works on it can be read even if a row of the one that asked was altered.
    """
    call = PeerCall.objects.filter(pk=asking.call_pk).first()
    if call is None or not row_seals.is_row_genuine_or_sealing_off(call):
        return None
    return build_agent_call_row(call, None)
