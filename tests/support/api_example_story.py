"""Story that gives the page of the HTTP API its examples.

It calls each operation once. The requests and answers are recorded; values that differ between two runs (times,
random identifiers) are replaced by constant ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from django.core.management import call_command

from harness_site.accounts.models import TokenRole
from harness_site.api.openapi_document import build_openapi_document
from tests.support.api_client import ApiClient, make_token
from tests.support.factories import make_workspace

_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)([T ])(\d\d:\d\d:\d\d)(\.\d+)?(?:[+-]\d\d(?::\d\d)?(?=~)|(Z|[+-]\d\d:\d\d|(?=~)))"
)
_RANDOM: Final = re.compile(r"[0-9a-f]{64}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}")


class ExampleRecorder:
    """Client of the API that records one example of each operation."""

    def __init__(self) -> None:
        workspace = make_workspace()
        self._clients = {role: ApiClient(make_token(role, name=role.value, workspace=workspace)) for role in TokenRole}
        self._routes = {
            operation["operationId"]: (method.upper(), path)
            for path, operations in build_openapi_document("")["paths"].items()
            for method, operation in operations.items()
        }
        self.examples: dict[str, dict[str, Any]] = {}

    def send(self, role: TokenRole, operation_id: str, path: dict[str, Any], **request: Any) -> Any:
        """Call an operation and return its answer. `request` has its `query` and `body`."""
        method, route = self._routes[operation_id]
        query, body = request.get("query", {}), request.get("body")
        address = route.format(**path) + (f"?{urlencode(query)}" if query else "")
        text = None if body is None else json.dumps(body)
        response = self._clients[role].send(method, address, text, {"Idempotency-Key": f"{operation_id} {text}"})
        assert response.status_code < 300, (operation_id, response.status_code, response.content)
        return response

    def record(self, role: TokenRole, operation_id: str, path: dict[str, Any] | None = None, **request: Any) -> Any:
        """Call an operation, and record the request and the answer."""
        assert operation_id not in self.examples, operation_id
        response = self.send(role, operation_id, path or {}, **request)
        is_json = response["Content-Type"] == "application/json"
        lines = response.content.decode().splitlines()
        answer = response.json() if is_json else [json.loads(line) for line in lines]
        self.examples[operation_id] = {
            "path": path or {},
            **request,
            "status": response.status_code,
            "answer": answer,
        }
        return answer


def record_examples() -> dict[str, dict[str, Any]]:
    """Play the story on a new database, whose keys of rows begin at 1, and return the example of each operation."""
    recorder = ExampleRecorder()
    _record_refund(recorder)
    _record_workflow(recorder)
    _record_other_agents(recorder)
    _record_reads_and_removals(recorder)
    return {name: _replace_changing_values(example, {}) for name, example in recorder.examples.items()}


#: Session of the refund, and its call with an unknown outcome.
_REFUND = {"session_id": "order-17"}
_REFUND_CALL = {**_REFUND, "call_id": "call_1"}


def _record_refund(recorder: ExampleRecorder) -> None:
    """An agent refunds an order, is interrupted, and a person decides."""
    run = _record_turns(recorder)
    issued = _record_interrupted_call(recorder, run["fence"])
    fence = _record_decision(recorder, issued)
    _record_completed_call(recorder, fence)
    _record_end_of_refund(recorder, fence, run["run_id"])


def _record_turns(recorder: ExampleRecorder) -> dict[str, Any]:
    """Record the first versions of the session. Returns its run."""
    agent = TokenRole.AGENT
    question = {"role": "user", "content": "Where is my refund?"}
    opened = recorder.record(
        agent, "open_session", body={**_REFUND, "agent": "refund-desk", "user_message": question["content"]}
    )
    fence = opened["run"]["fence"]
    recorder.record(agent, "renew_lease", _REFUND, body={"fence": fence})
    recorder.record(
        agent,
        "save_version",
        _REFUND,
        body={"fence": fence, "expected_version": 0, "messages": [question], "budget_spent_usd": "0.02"},
    )
    recorder.record(
        agent,
        "save_phase",
        _REFUND,
        body={
            "fence": fence,
            "phase": "post_llm",
            "details": {"model": "best", "finish_reason": "tool_calls", "tool_call_count": 1},
            "expected_version": 1,
        },
    )
    run: dict[str, Any] = opened["run"]
    return run


def _record_interrupted_call(recorder: ExampleRecorder, fence: int) -> dict[str, Any]:
    """Record a call that is cancelled, and the release of the session. Returns the call as it was issued."""
    agent = TokenRole.AGENT
    args = {"order": 17, "amount": "40.00"}
    issued: dict[str, Any] = recorder.record(
        agent,
        "issue_call",
        _REFUND,
        body={
            "fence": fence,
            "call_id": "call_1",
            "tool": "refund_card",
            "args": args,
            "sentence": "Refund {amount} for order {order}",
            "verifiable": True,
        },
    )
    recorder.send(
        agent, "settle_call", _REFUND_CALL, body={"fence": fence, "status": "interrupted", "reason": "cancelled"}
    )
    recorder.record(agent, "list_pending_calls", _REFUND)
    recorder.record(agent, "preview_resume", _REFUND)
    recorder.record(agent, "release_session", _REFUND, body={"fence": fence})
    return issued


def _record_decision(recorder: ExampleRecorder, issued: Mapping[str, Any]) -> int:
    """Record a probe that finds nothing out, and a person's decision. Returns the fence of the run that continues."""
    agent, approver = TokenRole.AGENT, TokenRole.APPROVER
    held = recorder.send(agent, "open_session", {}, body={**_REFUND, "mode": "resume", "hold": True}).json()
    fence: int = held["run"]["fence"]
    undecided = held["undecided"][0]
    recorder.record(
        agent,
        "record_probe",
        _REFUND_CALL,
        body={
            "fence": fence,
            "answer": "unknown",
            "why": "The bank lists refunds only after the nightly settlement.",
            "step": issued["step"],
            "attempt": issued["attempt"],
            "revision": undecided["revision"],
        },
    )
    recorder.record(approver, "list_pending", query={"agent": "refund-desk", "limit": 20})
    card = recorder.record(approver, "read_call", _REFUND_CALL)
    recorder.record(
        approver,
        "decide",
        _REFUND_CALL,
        body={
            "kind": "confirm_landed",
            "revision": card["revision"],
            "reason": "The bank statement shows it.",
            "result": "refunded 40.00",
        },
    )
    recorder.record(agent, "wait_at_gate", _REFUND, query={"fence": fence, "wait": 30})
    return fence


def _record_completed_call(recorder: ExampleRecorder, fence: int) -> None:
    agent = TokenRole.AGENT
    mail = {
        "fence": fence,
        "call_id": "call_2",
        "tool": "send_mail",
        "args": {"to": "ada@example.org"},
        "key": "mail-17",
    }
    recorder.send(agent, "issue_call", _REFUND, body={**mail, "idempotency": "key"})
    recorder.record(
        agent,
        "settle_call",
        {**_REFUND, "call_id": "call_2"},
        body={"fence": fence, "status": "completed", "result": "sent"},
    )
    recorder.record(agent, "find_completed_call", query={"key": "mail-17"})


def _record_end_of_refund(recorder: ExampleRecorder, fence: int, run_id: str) -> None:
    agent = TokenRole.AGENT
    recorder.record(
        agent, "finish_session", _REFUND, body={"fence": fence, "status": "completed", "result": {"refunded": "40.00"}}
    )
    recorder.record(agent, "find_session_of_run", {"run_id": run_id})
    recorder.record(agent, "fork_session", _REFUND, body={"new_session_id": "order-17-again", "version": 1})


def _record_workflow(recorder: ExampleRecorder) -> None:
    agent, session = TokenRole.AGENT, {"session_id": "order-19"}
    workflow = {**session, "workflow_id": "delivery"}
    fence = recorder.send(agent, "open_session", {}, body=session).json()["run"]["fence"]
    recorder.record(agent, "open_workflow", workflow, body={"fence": fence})
    recorder.record(
        agent,
        "issue_step",
        workflow,
        body={"fence": fence, "step_id": "reserve", "tool": "reserve", "args": {"order": 19}},
    )
    recorder.send(
        agent,
        "settle_call",
        {**session, "call_id": "delivery~1reserve"},
        body={"fence": fence, "status": "completed", "result": {"held": True}},
    )
    recorder.record(agent, "read_workflow", workflow)
    recorder.record(agent, "list_workflows", session)


def _record_other_agents(recorder: ExampleRecorder) -> None:
    """A session waits for one other agent and continues; another one is cancelled while it waits."""
    agent, session = TokenRole.AGENT, {"session_id": "order-20"}
    for name, send in (("order-20", recorder.record), ("order-21", recorder.send)):
        fence = recorder.send(agent, "open_session", {}, body={"session_id": name}).json()["run"]["fence"]
        request = {"id": f"ask-{name}", "peer": "courier", "request": {"parcel": name}, "sent": False}
        body = {"fence": fence, "state": {"next": "answer"}, "joins": [{"id": "couriers", "calls": [request]}]}
        send(agent, "pause_session", {"session_id": name}, body=body)
    call = {"peer_call_id": "ask-order-20"}
    recorder.record(agent, "list_peer_calls", session)
    notices = recorder.record(agent, "claim_notices", body={"limit": 1, "session_id": "order-20"})["notices"]
    recorder.record(
        agent,
        "settle_notice",
        call,
        body={"kind": "request", "attempt": notices[0]["attempt"], "delivered": True},
    )
    recorder.record(agent, "extend_deadline", call, body={"seconds": 900})
    recorder.record(agent, "sweep_deadlines", body={"limit": 100})
    recorder.record(agent, "accept_response", call, body={"result": {"pickup": "today"}, "peer": "courier"})
    recorder.record(agent, "list_paused", query={"ready": "true"})
    recorder.record(agent, "take_paused", session, body={})
    recorder.record(agent, "cancel_paused", {"session_id": "order-21"}, body={"reason": "The customer came by."})


def _record_reads_and_removals(recorder: ExampleRecorder) -> None:
    call_command("index_search")
    agent, auditor, session = TokenRole.AGENT, TokenRole.AUDITOR, {"session_id": "order-17"}
    recorder.record(auditor, "list_sessions", query={"agent": "refund-desk", "limit": 20})
    recorder.record(auditor, "read_session", session)
    recorder.record(auditor, "list_versions", session, query={"limit": 2})
    recorder.record(auditor, "load_latest", session)
    recorder.record(auditor, "load_version", {**session, "version": 1})
    recorder.record(auditor, "list_messages", session, query={"after": 0, "limit": 50})
    recorder.record(auditor, "search", query={"q": "refund"})
    recorder.record(auditor, "read_events", query={"after": 0, "limit": 2})
    recorder.record(auditor, "export_session", session)
    recorder.record(agent, "prune_versions", session, body={"keep_last": 1, "dry_run": True})
    recorder.record(agent, "delete_version", {**session, "version": 2})
    recorder.record(agent, "delete_session", {"session_id": "order-17-again"}, query={"dry_run": "true"})


def _replace_changing_values(value: Any, seen: dict[str, str]) -> Any:
    """Return the value with constant times and identifiers. `seen` has those that were replaced in the example."""
    if isinstance(value, dict):
        return {key: _replace_changing_values(item, seen) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace_changing_values(item, seen) for item in value]
    if not isinstance(value, str):
        return value
    value = _TIME.sub(r"2026-03-02\g<2>09:15:00\g<5>", value)
    return _RANDOM.sub(lambda found: seen.setdefault(found[0], _make_constant(found[0], len(seen))), value)


def _make_constant(text: str, position: int) -> str:
    """Make a constant text of the same form."""
    digits = iter(f"{position + 1:x}5c8e03d6b47f92a1" * 5)
    return "".join(letter if letter == "-" else next(digits) for letter in text)
