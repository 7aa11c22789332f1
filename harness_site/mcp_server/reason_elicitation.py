"""Elicitation of a reason: the client of the assistant asks the person, where it can."""

from __future__ import annotations

from typing import Any, Final

import mcp_types as types
from mcp.server.session import ServerSession
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from harness_site.core.hidden_characters import replace_hidden_characters_by_names

REASON: Final = "reason"
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {REASON: {"type": "string", "title": "Reason", "minLength": 1, "maxLength": 4000}},
    "required": [REASON],
}


def can_elicit(session: ServerSession) -> bool:
    """Return True if the client of this request can show a form to the person.

    Since 2026-07-28 the question is the answer to the request; before, the connection has to carry a request of the
    server, which that of `/mcp` does not.
    """
    capabilities = session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    has_forms = elicitation is not None and (elicitation.form is not None or elicitation.url is None)
    return has_forms and (session.protocol_version in MODERN_PROTOCOL_VERSIONS or session.can_send_request)


async def elicit_reason_or_build_input_request(
    session: ServerSession, params: types.CallToolRequestParams, request_id: types.RequestId | None
) -> types.InputRequiredResult | str | None:
    """Ask the person for the reason of the decision that `params` name.

    Returns the reason; None if the person gave none; or the result with which the client asks, and then repeats its
    request with the answer.
    """
    given = params.arguments or {}
    question = replace_hidden_characters_by_names(
        f"Reason for the decision {given['kind']} about the call {given['call_id']} "
        f"of the session {given['session_id']}"
    )
    if session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return _find_reason_in_answer(await session.elicit_form(question, _SCHEMA, related_request_id=request_id))
    answer = (params.input_responses or {}).get(REASON)
    if answer is not None:
        return _find_reason_in_answer(answer)
    form = types.ElicitRequestFormParams(message=question, requested_schema=_SCHEMA)
    return types.InputRequiredResult(input_requests={REASON: types.ElicitRequest(params=form)})


def _find_reason_in_answer(answer: types.InputResponse) -> str | None:
    if not isinstance(answer, types.ElicitResult) or answer.action != "accept":
        return None
    reason = (answer.content or {}).get(REASON)
    return reason if isinstance(reason, str) and reason else None
