"""Operations of a client over HTTP that are one request each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from checkpoints.archive.archive_results import ExportedFile, ImportedSession
from checkpoints.decisions.actors import Actor
from checkpoints.decisions.decision_target import DecisionTarget
from checkpoints.enums import CallStatus, DecisionKind
from checkpoints.exceptions import InvalidInput, NotOverHttp, SessionNotFound
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.peers import response_acceptance_outcomes
from checkpoints.peers.agent_call_and_result_types import Deadline, Join, Paused, Swept
from checkpoints.peers.response_acceptance_outcomes import Answer
from checkpoints.remote.remote_call_log import report_call_outcome
from checkpoints.remote.remote_checkpointer_state import RemoteCheckpointerState
from checkpoints.remote.transport import escape_identifier
from checkpoints.sessions.version_retention_rule import RemovalCounts, RetentionRule
from checkpoints.store.call_intent_and_outcome_types import CallIntent, CallOutcome, IssuedCall
from checkpoints.sync_and_async_flow_runners import Flow, Transact


class OperationsNotOverHttp:
    """Operations that a server does not take by requests: each of them raises `NotOverHttp`."""

    def export_session(self, session_id: str, path: str | Path) -> ExportedFile:
        _raise_not_over_http("export_session")

    def import_session(self, path: str | Path, *, session_id: str | None) -> ImportedSession:
        _raise_not_over_http("import_session")

    def release_quarantine(self, session_id: str, *, actor: Actor | str, reason: str, accept_altered: bool) -> int:
        _raise_not_over_http("release_quarantine")

    def sweep_lost_runs(self, *, limit: int) -> list[str]:
        _raise_not_over_http("sweep_lost_runs, which the server does itself,")


class SingleRequests(OperationsNotOverHttp):
    """Operations that are one request each.

    A write is sent with a key; if its answer is lost, it is sent again with the same key, and the server answers what
    the first one did. Decisions are the token's, so an actor is not sent.
    """

    checkpointer_state: RemoteCheckpointerState

    def _send_read_request(self, path: str, **parameters: Any) -> Any:
        return self.checkpointer_state.transport.send_read_request(path, **parameters)

    def _send_write_request(
        self, path: str, fields: Mapping[str, Any], method: str = "POST", *, session_id: str = ""
    ) -> Any:
        session = self.checkpointer_state.flush_and_require_owned_session(session_id) if session_id else None
        return self.checkpointer_state.send_write_request(method, path, fields, session=session).value

    # ---- sessions

    def list_sessions(
        self,
        *,
        status: str | None,
        agent: str | None,
        label: str | None,
        updated_before: datetime | None,
        after: str | None,
        limit: int,
    ) -> list[dict[str, Any]]:
        if updated_before is not None and updated_before.tzinfo is None:
            raise InvalidInput(f"updated_before is {updated_before!r}; give a datetime with a time zone.")
        answer = self._send_read_request(
            "/sessions",
            status=status,
            agent=agent,
            label=label,
            updated_before=updated_before,
            after=after,
            limit=limit,
        )
        return [{**row, "budget_spent_usd": Decimal(row["budget_spent_usd"])} for row in answer["sessions"]]

    def fork_session(
        self,
        session_id: str,
        new_session_id: str,
        *,
        version: int | None,
        title: str | None,
        actor: Actor | str | None,
    ) -> int:
        self.checkpointer_state.flush_pending_writes(session_id)
        fields = {"new_session_id": validate_id("session id", new_session_id), "version": version}
        if title is not None:
            fields["title"] = title
        return int(self._send_write_request(f"{_build_session_path(session_id)}/fork", fields)["version"])

    def delete_session(self, session_id: str, *, dry_run: bool) -> RemovalCounts:
        path = f"{_build_session_path(session_id)}?dry_run={'true' if dry_run else 'false'}"
        return RemovalCounts(**self._send_write_request(path, {}, "DELETE"))

    # ---- versions

    def load_latest(self, session_id: str) -> dict[str, Any] | None:
        try:
            loaded = self._send_read_request(f"{_build_session_path(session_id)}/versions/latest")["version"]
        except SessionNotFound:
            return None
        return None if loaded is None else _copy_version_with_parsed_budget(loaded)

    def load(self, session_id: str, version: int) -> dict[str, Any]:
        return _copy_version_with_parsed_budget(
            self._send_read_request(f"{_build_session_path(session_id)}/versions/{_validate_version_number(version)}")[
                "version"
            ]
        )

    def list_checkpoints(self, session_id: str, *, before: int | None, limit: int) -> list[dict[str, Any]]:
        answer = self._send_read_request(f"{_build_session_path(session_id)}/versions", before=before, limit=limit)
        return [_copy_version_with_parsed_budget(version) for version in answer["versions"]]

    def delete_checkpoint(self, session_id: str, version: int) -> RemovalCounts:
        return RemovalCounts(
            **self._send_write_request(
                f"{_build_session_path(session_id)}/versions/{_validate_version_number(version)}", {}, "DELETE"
            )
        )

    def prune(self, session_id: str, retention: RetentionRule, *, dry_run: bool) -> RemovalCounts:
        older_than = retention.older_than
        fields = {
            "keep_last": retention.keep_last,
            "keep_every": retention.keep_every,
            "older_than_seconds": None if older_than is None else older_than.total_seconds(),
            "dry_run": dry_run,
        }
        return RemovalCounts(**self._send_write_request(f"{_build_session_path(session_id)}/prune", fields))

    # ---- tool-call log, for loops without a registry

    def record_issued_call(self, session_id: str, intent: CallIntent) -> None:
        held = self.checkpointer_state.flush_and_require_owned_session(session_id)
        fields = {
            "call_id": intent.call_id,
            "tool": intent.tool,
            "side_effects": sorted(intent.side_effects),
            "idempotency": "key",
            "key": intent.key,
            "step": intent.step,
        }
        answer = self.checkpointer_state.send_write_request(
            "POST",
            f"{_build_session_path(session_id)}/calls",
            fields,
            session=held,
            raw={"args": intent.args_json_in_caller_order},
        ).value
        issued_call = IssuedCall(answer["number"], intent.tool, intent.call_id, answer["step"], answer["attempt"])
        held.issued_calls[intent.call_id] = issued_call

    def record_call_result(
        self, session_id: str, call_id: str, result_text: str, success: bool, *, step: int | None
    ) -> None:
        if not isinstance(result_text, str):
            raise InvalidInput(f"The result of {call_id!r} is a {type(result_text).__name__}, not text.")
        status = CallStatus.COMPLETED if success else CallStatus.FAILED
        outcome = CallOutcome(status, to_canonical_json(result_text, "result"))
        held = self.checkpointer_state.find_owned_session(session_id)
        issued_call = held.issued_calls.pop(call_id, None) if held is not None and step is None else None
        if issued_call is None:
            path = f"{_build_session_path(session_id)}/calls/{escape_identifier(validate_id('call id', call_id))}"
            call = self._send_read_request(path, step=step)
            issued_call = IssuedCall(call["number"], call["tool_name"], call_id, call["step"], call["attempt"])
        report_call_outcome(
            self.checkpointer_state, session_id, None if held is None else held.fence, issued_call, outcome
        )

    def find_completed_call(self, idempotency_key: str) -> dict[str, Any] | None:
        call: dict[str, Any] | None = self._send_read_request(
            "/completed-call", key=validate_id("idempotency key", idempotency_key)
        )["call"]
        return call

    def list_unfinished_calls(self, session_id: str) -> list[dict[str, Any]]:
        try:
            calls: list[dict[str, Any]] = self._send_read_request(f"{_build_session_path(session_id)}/calls")["calls"]
        except SessionNotFound:
            return []
        return calls

    def list_calls_awaiting_decision(self, *, agent: str | None, after: int | None, limit: int) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = self._send_read_request("/pending", agent=agent, after=after, limit=limit)[
            "calls"
        ]
        return calls

    # ---- resuming

    def preview_resume(self, session_id: str) -> dict[str, Any]:
        preview: dict[str, Any] = self._send_read_request(f"{_build_session_path(session_id)}/preview")
        return preview

    # ---- other agents

    def pause_for_peers(self, session_id: str, state: dict[str, Any], joins: Iterable[Join]) -> Paused:
        held = self.checkpointer_state.flush_and_require_owned_session(session_id)
        fields = {
            "state": state,
            "joins": [{"id": join.id, "calls": [_encode_agent_call(call) for call in join.calls]} for join in joins],
        }
        paused = self.checkpointer_state.send_write_request(
            "POST", f"{_build_session_path(session_id)}/pause", fields, session=held
        ).value
        self.checkpointer_state.remove_owned_session(held)
        return Paused(**{**paused, "complete": tuple(paused["complete"])})

    def accept_response(
        self,
        peer_call_id: str,
        result: Any,
        *,
        session_id: str | None,
        peer: str | None,
        token: str | None,
    ) -> Answer:
        fields = {"result": result, "session_id": session_id, "peer": peer, "token": token}
        path = f"/peer-calls/{escape_identifier(validate_id('peer call id', peer_call_id))}/response"
        answer = self._send_write_request(path, fields)
        kind = getattr(response_acceptance_outcomes, answer.pop("answer"))
        if "deadline" in answer:
            answer["deadline"] = datetime.fromisoformat(answer["deadline"])
        answered: Answer = kind(**answer)
        return answered

    def sweep_deadlines(self, *, limit: int) -> Swept:
        swept = self._send_write_request("/peer-calls/sweep", {"limit": limit})
        return Swept(tuple(swept["expired"]), tuple((session_id, join) for session_id, join in swept["complete"]))

    def extend_deadline(self, peer_call_id: str, deadline: Deadline) -> datetime:
        path = f"/peer-calls/{escape_identifier(validate_id('peer call id', peer_call_id))}/deadline"
        return datetime.fromisoformat(
            self._send_write_request(path, {"seconds": _get_seconds_until(deadline)})["deadline"]
        )

    def list_paused(self, *, ready: bool | None, agent: str | None, limit: int) -> list[dict[str, Any]]:
        sessions: list[dict[str, Any]] = self._send_read_request("/paused", ready=ready, agent=agent, limit=limit)[
            "sessions"
        ]
        return sessions

    def list_peer_calls(self, session_id: str) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = self._send_read_request(f"{_build_session_path(session_id)}/peer-calls")["calls"]
        return calls

    # ---- decisions

    def _send_decision(self, kind: str, target: DecisionTarget, **fields: Any) -> Any:
        session_path, call_id = _build_session_path(target.session_id), validate_id("call id", target.call_id)
        path = f"{session_path}/calls/{escape_identifier(call_id)}/decision"
        fields |= {"kind": kind, "step": target.step, "attempt": target.attempt}
        return self._send_write_request(path, {name: value for name, value in fields.items() if value is not None})

    def verify_call_flow(self, target: DecisionTarget, actor: Actor | str) -> Flow[str]:
        answer: Mapping[str, Any] = yield Transact(lambda: self._send_decision("verify", target))
        return str(answer["outcome"])

    def record_decision(
        self,
        target: DecisionTarget,
        kind: DecisionKind,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None,
        result: str | None = None,
        new_args: dict[str, Any] | None = None,
    ) -> None:
        self._send_decision(
            kind.value,
            target,
            revision=target.revision,
            reason=reason,
            evidence=dict(evidence) if isinstance(evidence, Mapping) else evidence,
            result=result,
            new_args=new_args,
        )

    def withdraw_decision(
        self, target: DecisionTarget, *, actor: Actor | str, reason: str, evidence: Mapping[str, Any] | str | None
    ) -> None:
        self.record_decision(target, DecisionKind.WITHDRAW, actor=actor, reason=reason, evidence=evidence)


def _build_session_path(session_id: str) -> str:
    return f"/sessions/{escape_identifier(validate_id('session id', session_id))}"


def _validate_version_number(version: object) -> int:
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise InvalidInput(f"version is {version!r}; it has to be a whole number, 0 or more.")
    return version


def _copy_version_with_parsed_budget(loaded: dict[str, Any]) -> dict[str, Any]:
    return {**loaded, "budget_spent_usd": parse_decimal_if_text(loaded["budget_spent_usd"])}


def parse_decimal_if_text(value: float | str) -> float | Decimal:
    """Read an amount of money: text is an exact decimal number."""
    return Decimal(value) if isinstance(value, str) else value


def _encode_agent_call(call: Any) -> dict[str, Any]:
    return {
        "id": call.id,
        "peer": call.peer,
        "request": call.request,
        "deadline_seconds": _get_seconds_until(call.deadline),
        "token": call.token,
        "sent": call.sent,
    }


def _get_seconds_until(deadline: Deadline) -> float:
    """Return the seconds from now until a deadline."""
    if isinstance(deadline, timedelta):
        return deadline.total_seconds()
    if isinstance(deadline, datetime):
        if deadline.tzinfo is None:
            raise InvalidInput(f"The deadline {deadline} has no time zone.")
        return max(0.0, (deadline - datetime.now().astimezone()).total_seconds())
    return deadline


def _raise_not_over_http(operation: str) -> NoReturn:
    raise NotOverHttp(operation)
