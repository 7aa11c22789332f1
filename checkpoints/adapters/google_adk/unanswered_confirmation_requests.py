"""Requests for a confirmation that the plugin has made and nobody has answered, from the events of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.adk.events.event import Event
from google.genai import types

from checkpoints.adapters.google_adk.event_conversion import CONFIRMATION_CALL
from checkpoints.formats.canonical_json import to_canonical_json

_KINDS: Final = ("approval_required", "review_required")


@dataclass(frozen=True)
class OpenRequest:
    """Request for a confirmation.

    Attributes:
        request_id: Identifier of the request.
        call_id: Identifier of the call of the tool that waits.
        invocation_id: Invocation that has made the call.
        tool_and_args: Name of the tool and its arguments, as canonical JSON.
    """

    request_id: str
    call_id: str
    invocation_id: str
    tool_and_args: tuple[str, str]


def find_open_requests(
    events: Sequence[Event], is_same_operation_under_new_id: Callable[[str], bool]
) -> list[OpenRequest]:
    """Find the requests of this plugin whose calls have no result.

    If a later invocation makes an equal call, that call is the one that waits, under another identifier: its request
    takes the place of the earlier one, or its result has answered it. Answering both would run the tool twice.

    Args:
        events: Events of a session in order.
        is_same_operation_under_new_id: Function that says of a tool, by its name, whether an equal call with another
            identifier is the same operation.

    Returns:
        The requests in order. Those that a rewind has removed are left out.
    """
    requests: list[OpenRequest] = []
    calls: dict[str, tuple[str, tuple[str, str]]] = {}
    responded: set[str] = set()
    for event in _list_events_without_rewound(events):
        for call in event.get_function_calls():
            if call.name != CONFIRMATION_CALL:
                calls[str(call.id)] = event.invocation_id, (str(call.name), to_canonical_json(call.args or {}))
                continue
            call_id = _get_call_id_of_own_request(call)
            if call_id is not None:
                invocation_id, tool_and_args = calls.get(call_id, (event.invocation_id, ("", call_id)))
                requests.append(OpenRequest(str(call.id), call_id, invocation_id, tool_and_args))
        waiting = event.actions.requested_tool_confirmations
        for response in event.get_function_responses():
            call_id = str(response.id)
            if call_id not in responded and call_id in calls:
                responded.add(call_id)
                invocation_id, tool_and_args = calls[call_id]
                if is_same_operation_under_new_id(tool_and_args[0]):
                    _remove_first_request_of_earlier_invocation(requests, tool_and_args, invocation_id)
            if call_id not in waiting:
                requests = [request for request in requests if request.call_id != call_id]
    return requests


def _remove_first_request_of_earlier_invocation(
    requests: list[OpenRequest], tool_and_args: tuple[str, str], invocation_id: str
) -> None:
    earlier = (
        request
        for request in requests
        if request.tool_and_args == tool_and_args and request.invocation_id != invocation_id
    )
    if (first := next(earlier, None)) is not None:
        requests.remove(first)


def _get_call_id_of_own_request(call: types.FunctionCall) -> str | None:
    """Return the identifier of the call that waits; None for a request of a tool or of ADK itself."""
    args: dict[str, Any] = call.args or {}
    payload = (args.get("toolConfirmation") or {}).get("payload")
    if not isinstance(payload, dict) or payload.get("type") not in _KINDS:
        return None
    return str((args.get("originalFunctionCall") or {}).get("id"))


def _list_events_without_rewound(events: Sequence[Event]) -> Iterable[Event]:
    """List the events that no later rewind has removed, and not the rewinds themselves, as ADK does."""
    first_numbers: dict[str, int] = {}
    for number, event in enumerate(events):
        first_numbers.setdefault(event.invocation_id, number)
    kept: list[Event] = []
    number = len(events) - 1
    while number >= 0:
        rewound = events[number].actions.rewind_before_invocation_id
        if rewound:
            number = min(number, first_numbers.get(rewound, number))
        else:
            kept.append(events[number])
        number -= 1
    return reversed(kept)
