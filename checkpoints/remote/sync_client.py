"""Blocking client over HTTP: `SyncCheckpointer` with a server instead of a database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from checkpoints import constants
from checkpoints.archive.session_export import ExportedFile
from checkpoints.archive.session_import import ImportedSession
from checkpoints.client import SyncCheckpointer
from checkpoints.decisions.actors import Actor
from checkpoints.enums import CallStatus, Phase
from checkpoints.exceptions import InvalidInput, NotOverHttp, SessionNotFound
from checkpoints.formats.canonical import to_canonical_json
from checkpoints.ids import validate_id
from checkpoints.loop_state.phase_details import PhaseDetails
from checkpoints.loop_state.runtime_snapshot import RuntimeSnapshot
from checkpoints.models import DEFAULT_WORKSPACE
from checkpoints.peers import agent_call_deadlines, agent_response_outcomes
from checkpoints.peers.agent_response_outcomes import Answer
from checkpoints.peers.requests_to_other_agents import Deadline, Join, Paused, Swept
from checkpoints.remote.call_log import RemoteCallLog, report_call_outcome
from checkpoints.remote.http_client_backend import RemoteBackend, parse_amount
from checkpoints.remote.remote_client_state import RemoteStore
from checkpoints.remote.transport import escape_path_part
from checkpoints.sessions.prune_versions_and_delete_sessions import RemovalCounts
from checkpoints.store import call_intent_and_outcome
from checkpoints.store.call_intent_and_outcome import CallOutcome, IssuedCall
from checkpoints.store.version_state_columns import UNCHANGED, Unchanged, VersionChange
from checkpoints.versions.phase_record_import import ImportedRecord, migrate_phase_record


class SyncRemoteCheckpointer(SyncCheckpointer):
    """Client for the sessions in the workspace of a token: what `SyncCheckpointer("https://…", token=…)` creates.

    Errors are those of `SyncCheckpointer`. Besides, every method can raise `TokenInvalid`, `RoleInsufficient`,
    `RateLimited`, `ServerUnavailable` and `ServerFailed`. A write is sent with a key; if its answer is lost, it is sent
    again with the same key, and the server answers what the first one did. Decisions are the token's: the role of an
    approver takes them, and `actor` is not sent.
    """

    store: RemoteStore
    backend: RemoteBackend

    def __init__(
        self,
        url: str | Path | None = None,
        *,
        workspace: str = DEFAULT_WORKSPACE,
        lease_seconds: float = constants.LEASE_SECONDS,
        using: str = "default",
        migrate: bool | None = None,
        idle_release_seconds: float | None = None,
        token: str | None = None,
    ) -> None:
        """Create a client of a server.

        Args:
            url: Address of the server, `https://…`.
            workspace: Left out: it is the token's.
            lease_seconds: Left out: it is the server's.
            using: Left out.
            migrate: Left out.
            idle_release_seconds: Left out.
            token: Token from the settings of the site.

        Raises:
            InvalidInput: There is no token, the address is none, or an argument of a database is given.
            DriverMissing: `httpx` is not installed.
        """
        given = {
            "workspace": workspace != DEFAULT_WORKSPACE,
            "lease_seconds": lease_seconds != constants.LEASE_SECONDS,
            "using": using != "default",
            "migrate": migrate is not None,
            "idle_release_seconds": idle_release_seconds is not None,
        }
        if any(given.values()):
            names = ", ".join(name for name, is_given in given.items() if is_given)
            raise InvalidInput(f"A server has its own {names}; leave it out.")
        self.store = RemoteStore(str(url), token)
        self.store.open_call_log = RemoteCallLog
        self.backend = RemoteBackend(self.store)

    def close(self) -> None:
        with ExitStack() as closing:
            closing.callback(self.store.close)
            for owned_session in self.store.list_owned_sessions():
                closing.callback(self.backend.release_session, owned_session.session_id)
            self.store.flush_pending_writes()

    def _send_read_request(self, path: str, **parameters: Any) -> Any:
        return self.store.transport.send_read_request(path, **parameters)

    def _send_write_request(
        self, path: str, fields: Mapping[str, Any], method: str = "POST", *, session_id: str = ""
    ) -> Any:
        session = self.backend.flush_and_require_owned_session(session_id) if session_id else None
        return self.store.send_write_request(method, path, fields, session=session).value

    # ---- sessions

    def release_session(self, session_id: str) -> bool:
        return self.backend.release_session(session_id)

    def list_sessions(
        self,
        *,
        status: str | None = None,
        agent: str | None = None,
        label: str | None = None,
        updated_before: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
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

    def finish_session(self, session_id: str, status: str, result: Any = None) -> None:
        self.backend.finish_session(session_id, status, result)

    def fork_session(
        self, session_id: str, new_session_id: str, *, version: int | None = None, actor: Actor | str | None = None
    ) -> int:
        self.store.flush_pending_writes(session_id)
        fields = {"new_session_id": validate_id("session id", new_session_id), "version": version}
        return int(self._send_write_request(f"{_build_session_path(session_id)}/fork", fields)["version"])

    def export_session(self, session_id: str, path: str | Path) -> ExportedFile:
        _raise_not_over_http("export_session")

    def import_session(self, path: str | Path, *, session_id: str | None = None) -> ImportedSession:
        _raise_not_over_http("import_session")

    def delete_session(self, session_id: str, *, dry_run: bool = False) -> RemovalCounts:
        path = f"{_build_session_path(session_id)}?dry_run={'true' if dry_run else 'false'}"
        return RemovalCounts(**self._send_write_request(path, {}, "DELETE"))

    def release_quarantine(
        self, session_id: str, *, actor: Actor | str, reason: str, accept_altered: bool = False
    ) -> int:
        _raise_not_over_http("release_quarantine")

    # ---- versions

    def save_checkpoint(
        self,
        session_id: str,
        transcript: list[dict[str, Any]],
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        budget_spent_usd: float | Decimal | Unchanged = UNCHANGED,
        *,
        phase: str = Phase.TURN,
        usage: dict[str, Any] | Unchanged | None = None,
        payload: dict[str, Any] | None = None,
        expected_version: int | None = None,
    ) -> int:
        change = VersionChange(plan, budget_spent_usd, usage, phase, payload)
        return self.backend.save_version(session_id, transcript, change, expected_version)

    def append_checkpoint(
        self,
        session_id: str,
        new_messages: list[dict[str, Any]],
        *,
        expected_version: int,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        budget_spent_usd: float | Decimal | Unchanged = UNCHANGED,
        usage: dict[str, Any] | Unchanged | None = UNCHANGED,
        phase: str = Phase.TURN,
        payload: dict[str, Any] | None = None,
    ) -> int:
        change = VersionChange(plan, budget_spent_usd, usage, phase, payload)
        if self.store.find_owned_session(session_id) is None:
            return self.backend.append_without_run(session_id, new_messages, change, expected_version)
        return self.backend.append_version(session_id, new_messages, change, expected_version=expected_version)

    def save_phase(
        self,
        session_id: str,
        details: PhaseDetails,
        *,
        snapshot: RuntimeSnapshot | None = None,
        transcript: list[dict[str, Any]] | None = None,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        expected_version: int | None = None,
    ) -> int:
        return self.backend.save_phase(session_id, details, snapshot, transcript, plan, expected_version)

    def import_record(self, session_id: str, record: dict[str, Any], *, run_id: str | None = None) -> ImportedRecord:
        self.backend.flush_and_require_owned_session(session_id)
        migrated = migrate_phase_record(session_id, record, run_id)
        version = self.save_phase(
            session_id, migrated.details, snapshot=migrated.snapshot, transcript=migrated.transcript
        )
        return ImportedRecord(version, migrated.run_id, migrated.applied)

    def load_latest(self, session_id: str) -> dict[str, Any] | None:
        try:
            loaded = self._send_read_request(f"{_build_session_path(session_id)}/versions/latest")["version"]
        except SessionNotFound:
            return None
        return None if loaded is None else _parse_version(loaded)

    def load(self, session_id: str, version: int) -> dict[str, Any]:
        return _parse_version(
            self._send_read_request(f"{_build_session_path(session_id)}/versions/{_validate_version_number(version)}")[
                "version"
            ]
        )

    def list_checkpoints(self, session_id: str, *, before: int | None = None, limit: int = 50) -> list[dict[str, Any]]:
        answer = self._send_read_request(f"{_build_session_path(session_id)}/versions", before=before, limit=limit)
        return [_parse_version(version) for version in answer["versions"]]

    def messages(
        self, session_id: str, *, after: int = 0, limit: int = 100, version: int | None = None
    ) -> list[dict[str, Any]]:
        return self.backend.list_messages(session_id, after, limit, version)

    def delete_checkpoint(self, session_id: str, version: int) -> RemovalCounts:
        return RemovalCounts(
            **self._send_write_request(
                f"{_build_session_path(session_id)}/versions/{_validate_version_number(version)}", {}, "DELETE"
            )
        )

    def prune(
        self,
        session_id: str,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        older_than: timedelta | None = None,
        dry_run: bool = False,
    ) -> RemovalCounts:
        fields = {
            "keep_last": keep_last,
            "keep_every": keep_every,
            "older_than_seconds": None if older_than is None else older_than.total_seconds(),
            "dry_run": dry_run,
        }
        return RemovalCounts(**self._send_write_request(f"{_build_session_path(session_id)}/prune", fields))

    # ---- tool-call log, for loops without a registry

    def record_tool_call_issued(
        self,
        session_id: str,
        call_id: str,
        tool_name: str,
        args: dict[str, Any],
        idempotency_key: str,
        *,
        side_effects: Iterable[str] = ("mutate",),
        step: int | None = None,
    ) -> None:
        intent = call_intent_and_outcome.build_call_intent(
            call_id, tool_name, args, idempotency_key, side_effects=side_effects, step=step
        )
        held = self.backend.flush_and_require_owned_session(session_id)
        fields = {
            "call_id": call_id,
            "tool": tool_name,
            "side_effects": sorted(intent.side_effects),
            "idempotency": "key",
            "key": idempotency_key,
            "step": step,
        }
        answer = self.store.send_write_request(
            "POST",
            f"{_build_session_path(session_id)}/calls",
            fields,
            session=held,
            raw={"args": intent.args_json_in_caller_order},
        ).value
        held.issued_calls[call_id] = IssuedCall(answer["number"], call_id, answer["step"], answer["attempt"])

    def record_tool_call_result(
        self, session_id: str, call_id: str, result_text: str, success: bool, *, step: int | None = None
    ) -> None:
        if not isinstance(result_text, str):
            raise InvalidInput(f"The result of {call_id!r} is a {type(result_text).__name__}, not text.")
        status = CallStatus.COMPLETED if success else CallStatus.FAILED
        outcome = CallOutcome(status, to_canonical_json(result_text, "result"))
        held = self.store.find_owned_session(session_id)
        issued_call = held.issued_calls.pop(call_id, None) if held is not None and step is None else None
        if issued_call is None:
            path = f"{_build_session_path(session_id)}/calls/{escape_path_part(validate_id('call id', call_id))}"
            call = self._send_read_request(path, step=step)
            issued_call = IssuedCall(call["number"], call_id, call["step"], call["attempt"])
        report_call_outcome(self.store, session_id, None if held is None else held.fence, issued_call, outcome)

    def find_completed_call(self, idempotency_key: str) -> dict[str, Any] | None:
        call: dict[str, Any] | None = self._send_read_request(
            "/completed-call", key=validate_id("idempotency key", idempotency_key)
        )["call"]
        return call

    def pending_tool_calls(self, session_id: str) -> list[dict[str, Any]]:
        try:
            calls: list[dict[str, Any]] = self._send_read_request(f"{_build_session_path(session_id)}/calls")["calls"]
        except SessionNotFound:
            return []
        return calls

    def pending_decisions(
        self, *, agent: str | None = None, after: int | None = None, limit: int = 50
    ) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = self._send_read_request("/pending", agent=agent, after=after, limit=limit)[
            "calls"
        ]
        return calls

    # ---- resuming

    def preview_resume(self, session_id: str) -> dict[str, Any]:
        preview: dict[str, Any] = self._send_read_request(f"{_build_session_path(session_id)}/preview")
        return preview

    def sweep_lost_runs(self, *, limit: int = 1000) -> list[str]:
        _raise_not_over_http("sweep_lost_runs, which the server does itself,")

    # ---- other agents

    def pause_for_peers(self, session_id: str, state: dict[str, Any], joins: Iterable[Join]) -> Paused:
        held = self.backend.flush_and_require_owned_session(session_id)
        fields = {
            "state": state,
            "joins": [{"id": join.id, "calls": [_encode_agent_call(call) for call in join.calls]} for join in joins],
        }
        paused = self.store.send_write_request(
            "POST", f"{_build_session_path(session_id)}/pause", fields, session=held
        ).value
        self.store.remove_owned_session(held)
        return Paused(**{**paused, "complete": tuple(paused["complete"])})

    def accept_response(
        self,
        peer_call_id: str,
        result: Any,
        *,
        session_id: str | None = None,
        peer: str | None = None,
        token: str | None = None,
    ) -> Answer:
        fields = {"result": result, "session_id": session_id, "peer": peer, "token": token}
        path = f"/peer-calls/{escape_path_part(validate_id('peer call id', peer_call_id))}/response"
        answer = self._send_write_request(path, fields)
        kind = getattr(agent_response_outcomes, answer.pop("answer"))
        if "deadline" in answer:
            answer["deadline"] = datetime.fromisoformat(answer["deadline"])
        answered: Answer = kind(**answer)
        return answered

    def sweep_deadlines(self, *, limit: int = agent_call_deadlines.DEFAULT_LIMIT) -> Swept:
        swept = self._send_write_request("/peer-calls/sweep", {"limit": limit})
        return Swept(tuple(swept["expired"]), tuple((session_id, join) for session_id, join in swept["complete"]))

    def extend_deadline(self, peer_call_id: str, deadline: Deadline) -> datetime:
        path = f"/peer-calls/{escape_path_part(validate_id('peer call id', peer_call_id))}/deadline"
        return datetime.fromisoformat(
            self._send_write_request(path, {"seconds": _get_seconds_until(deadline)})["deadline"]
        )

    def list_paused(
        self, *, ready: bool | None = None, agent: str | None = None, limit: int = 50
    ) -> list[dict[str, Any]]:
        sessions: list[dict[str, Any]] = self._send_read_request("/paused", ready=ready, agent=agent, limit=limit)[
            "sessions"
        ]
        return sessions

    def peer_calls(self, session_id: str) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = self._send_read_request(f"{_build_session_path(session_id)}/peer-calls")["calls"]
        return calls

    # ---- decisions

    def _send_decision(self, kind: str, session_id: str, call_id: str, **fields: Any) -> None:
        """Take a decision with the token, which is its actor."""
        fields.pop("actor", None)
        evidence = fields.get("evidence")
        if isinstance(evidence, Mapping):
            fields["evidence"] = dict(evidence)
        path = f"{_build_session_path(session_id)}/calls/{escape_path_part(validate_id('call id', call_id))}/decision"
        self._send_write_request(path, {"kind": kind, **fields})

    def verify_call(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        step: int | None = None,
        attempt: int | None = None,
    ) -> str:
        path = f"{_build_session_path(session_id)}/calls/{escape_path_part(validate_id('call id', call_id))}/decision"
        return str(self._send_write_request(path, {"kind": "verify", "step": step, "attempt": attempt})["outcome"])

    def confirm_landed(self, session_id: str, call_id: str, result_text: str, **options: Any) -> None:
        self._send_decision("confirm_landed", session_id, call_id, result=result_text, **options)

    def mark_failed(self, session_id: str, call_id: str, **options: Any) -> None:
        self._send_decision("mark_failed", session_id, call_id, **options)

    def approve_rerun(self, session_id: str, call_id: str, **options: Any) -> None:
        self._send_decision("approve_rerun", session_id, call_id, **options)

    def withdraw_decision(self, session_id: str, call_id: str, **options: Any) -> None:
        self._send_decision("withdraw", session_id, call_id, **options)

    def approve_call(self, session_id: str, call_id: str, **options: Any) -> None:
        self._send_decision("approve", session_id, call_id, **options)

    def edit_call(self, session_id: str, call_id: str, new_args: dict[str, Any], **options: Any) -> None:
        self._send_decision("edit", session_id, call_id, new_args=new_args, **options)

    def reject_call(self, session_id: str, call_id: str, message: str, **options: Any) -> None:
        self._send_decision("reject", session_id, call_id, result=message, **options)

    def respond_call(self, session_id: str, call_id: str, message: str, **options: Any) -> None:
        self._send_decision("respond", session_id, call_id, result=message, **options)


def _build_session_path(session_id: str) -> str:
    return f"/sessions/{escape_path_part(validate_id('session id', session_id))}"


def _validate_version_number(version: object) -> int:
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise InvalidInput(f"version is {version!r}; it has to be a whole number from 1.")
    return version


def _parse_version(loaded: dict[str, Any]) -> dict[str, Any]:
    return {**loaded, "budget_spent_usd": parse_amount(loaded["budget_spent_usd"])}


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
