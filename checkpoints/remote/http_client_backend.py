"""Operations on sessions through a server."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from checkpoints import constants, tracing
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.client_backend import ClientOptions, Closable
from checkpoints.decisions import ask_verify_hooks
from checkpoints.enums import CallStatus
from checkpoints.exceptions import ApprovalRequired, CheckpointsError, InvalidInput, ReviewRequired, VersionConflict
from checkpoints.formats import digests
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.formats.non_validating_dataclass_decoder import load_as
from checkpoints.generate_and_validate_ids import validate_id, validate_integer
from checkpoints.loop_state.phase_details import PhaseDetails
from checkpoints.loop_state.resumable_loop_snapshot import RuntimeSnapshot
from checkpoints.loop_state.snapshot_and_phase_payload_codec import encode_phase_and_snapshot
from checkpoints.peers import deliver_notices
from checkpoints.peers.agent_call_and_result_types import Notice, TakenJoin, TakenTask, Told
from checkpoints.peers.deliver_notices import SendNotice
from checkpoints.remote.ask_verify_hook_and_report_answer import ask_verify_hook_and_report_answer_flow
from checkpoints.remote.remote_call_log import RemoteCallLog
from checkpoints.remote.remote_checkpointer_state import RemoteCheckpointerState, build_transcript_head
from checkpoints.remote.remote_workflow_step_log import RemoteStepLog
from checkpoints.remote.single_request_operations import SingleRequests, parse_decimal_if_text
from checkpoints.remote.transport import escape_identifier
from checkpoints.resume.decision_wait_warning import log_wait_for_decisions
from checkpoints.resume.resume_point import ResumePoint
from checkpoints.resume.stored_results_by_call_id import StoredResultsByCallId
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.owning_run_protocol import OwningRun
from checkpoints.store.replayed_call_matching import OpenOperations
from checkpoints.store.version_state_types import UNCHANGED, Unchanged, VersionChange, VersionState
from checkpoints.sync_and_async_flow_runners import Flow, Transact
from checkpoints.tracing import trace_session_flow, trace_session_function
from checkpoints.versions import validate_and_digest_transcript
from checkpoints.versions.imported_phase_records import ImportedRecord, convert_phase_record
from checkpoints.versions.validate_and_digest_transcript import PreparedTranscript
from checkpoints.workflows.step_log_protocol import StepLog

#: Seconds of one long poll at the gate.
POLL_SECONDS: Final = 20
#: Threads of an async client, and therefore requests at one time.
WORKERS: Final = 16


def open_remote_backend(options: ClientOptions) -> RemoteBackend:
    """Open the server that a client was opened with.

    Raises `InvalidInput` if there is no token, the address is none, or an option of a database is given, and
    `HttpClientMissing` if `httpx` is not installed.
    """
    given = {
        "workspace": options.workspace != constants.DEFAULT_WORKSPACE,
        "lease_seconds": options.lease_seconds != constants.LEASE_SECONDS,
        "using": options.using != "default",
        "migrate": options.migrate is not None,
        "idle_release_seconds": options.idle_release_seconds is not None,
    }
    if any(given.values()):
        names = ", ".join(name for name, is_given in given.items() if is_given)
        raise InvalidInput(f"A server has its own {names}; leave it out.")
    return RemoteBackend(RemoteCheckpointerState(str(options.url), options.token))


class RemoteBackend(SingleRequests):
    """Operations of a client on a server; each raises what the server raises.

    Every operation can raise `TokenInvalid`, `RoleInsufficient`, `RateLimited`, `ServerUnavailable` and `ServerFailed`.
    """

    def __init__(self, store: RemoteCheckpointerState) -> None:
        self.checkpointer_state = store
        store.open_call_log = RemoteCallLog

    def close(self) -> None:
        with ExitStack() as closing:
            closing.callback(self.checkpointer_state.close)
            for owned_session in self.checkpointer_state.list_owned_sessions():
                closing.callback(self.release_session, owned_session.session_id)
            self.checkpointer_state.flush_pending_writes()

    def create_thread_pool(self, opened: list[Closable]) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(WORKERS, thread_name_prefix="harness-http")

    # opening

    def start_session_flow(
        self, session_id: str, description: NewSessionFields, *, takeover: bool | str = False
    ) -> Flow[OwningRun]:
        fields = {"session_id": session_id, "mode": "start", **_validate_and_encode_new_session_fields(description)}
        opening = self._take_session_through_gate_flow(
            session_id, "/sessions", fields, wait=False, timeout=None, takeover=takeover
        )
        self._start_heartbeats_and_build_resume_point(session_id, (yield from opening))
        return self.checkpointer_state.get_owned_session(session_id).run

    @trace_session_flow(tracing.RESUME)
    def resume_session_flow(
        self,
        session_id: str,
        description: NewSessionFields | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool | str = False,
    ) -> Flow[ResumePoint]:
        fields: dict[str, Any] = {"session_id": session_id, "mode": "resume"}
        if description is not None:
            fields |= {"mode": "open", **_validate_and_encode_new_session_fields(description)}
        opening = self._take_session_through_gate_flow(
            session_id, "/sessions", fields, wait=wait, timeout=timeout, takeover=takeover
        )
        return self._start_heartbeats_and_build_resume_point(session_id, (yield from opening))

    def take_paused_task_flow(
        self, session_id: str, *, wait: bool = False, timeout: float | None = None, takeover: bool | str = False
    ) -> Flow[TakenTask]:
        path = f"/sessions/{escape_identifier(validate_id('session id', session_id))}/take"
        while True:  # the gate is passed by waiting; then the task is taken
            answer = yield from self._take_session_through_gate_flow(
                session_id, path, {}, wait=wait, timeout=timeout, takeover=takeover
            )
            point = self._start_heartbeats_and_build_resume_point(session_id, answer)
            if (task := answer.get("task")) is not None:
                joins = tuple(load_as(TakenJoin, join) for join in task.pop("joins"))
                waits = tuple(task.pop("open"))
                return TakenTask(session_id=session_id, point=point, joins=joins, open=waits, **task)

    def cancel_paused_session_and_notify_agents_flow(
        self, session_id: str, *, tell: SendNotice | None, reason: str
    ) -> Flow[Told]:
        path = f"/sessions/{escape_identifier(validate_id('session id', session_id))}/cancel"
        yield Transact(lambda: self.checkpointer_state.send_write_request("POST", path, {"reason": reason}))
        if tell is None:
            return Told()
        return (
            yield from deliver_notices.deliver_due_notices_and_collect_errors_flow(
                RemoteOutbox(self.checkpointer_state, session_id), tell
            )
        )

    def deliver_agent_notices_flow(self, tell: SendNotice, *, limit: int) -> Flow[Told]:
        return deliver_notices.deliver_due_notices_and_collect_errors_flow(
            RemoteOutbox(self.checkpointer_state), tell, limit=limit
        )

    def _take_session_through_gate_flow(
        self,
        session_id: str,
        path: str,
        fields: Mapping[str, Any],
        *,
        wait: bool,
        timeout: float | None,
        takeover: bool | str,
    ) -> Flow[Mapping[str, Any]]:
        """Own the session, ask the verify hooks of this process at the gate, and wait there if that is wanted."""
        validate_id("session id", session_id)
        fields = {
            **fields,
            "hold": True,
            "takeover": takeover,
            "fence": None if (held := self.checkpointer_state.find_owned_session(session_id)) is None else held.fence,
            "executing": sorted(self.checkpointer_state.executing),
            "process": self.checkpointer_state.describe_process(),
        }
        answer: Mapping[str, Any] = yield Transact(
            lambda: self.checkpointer_state.send_write_request("POST", path, fields).value
        )
        until = None if timeout is None else time.monotonic() + timeout
        probed: set[int] = set()
        is_logged = False
        try:
            while answer["point"] is None:
                held = self._add_owned_session_awaiting_decisions(session_id, answer)
                is_probed = yield from self._ask_verify_hooks_and_report_answers_flow(held, answer["undecided"], probed)
                if is_probed:
                    answer = yield Transact(partial(self._send_gate_long_poll_request, held, 0))
                    continue
                left = None if until is None else until - time.monotonic()
                if not wait or (left is not None and left <= 0):
                    raise _build_review_or_approval_required_error(session_id, answer["undecided"])
                if not is_logged:
                    log_wait_for_decisions(
                        session_id, ((call["tool_name"], call["call_id"]) for call in answer["undecided"])
                    )
                    is_logged = True
                seconds = POLL_SECONDS if left is None else min(POLL_SECONDS, max(1, round(left)))
                answer = yield Transact(partial(self._send_gate_long_poll_request, held, seconds))
        except BaseException:
            yield Transact(partial(self._release_or_forget_session, session_id))
            raise
        return answer

    def _add_owned_session_awaiting_decisions(self, session_id: str, answer: Mapping[str, Any]) -> OwnedSession:
        return self.checkpointer_state.add_session_and_start_heartbeats(
            session_id, answer["run"], at_gate=True, head=build_transcript_head(0, b"", 0)
        )

    def _send_gate_long_poll_request(self, held: OwnedSession, seconds: int) -> Any:
        path = f"/sessions/{escape_identifier(held.session_id)}/gate"
        return self.checkpointer_state.transport.send_read_request(path, fence=held.fence, wait=seconds)

    def _ask_verify_hooks_and_report_answers_flow(
        self, held: OwnedSession, undecided: Iterable[Mapping[str, Any]], probed: set[int]
    ) -> Flow[bool]:
        """Ask the verify hooks that this process has. Returns whether any was asked."""
        is_asked = False
        for call in undecided:
            hook = ask_verify_hooks.find_verify_hook(self.checkpointer_state, held.session_id, call["tool_name"])
            is_due = call["number"] not in probed or call["verify_requested_by"]
            if hook is None or call["status"] != CallStatus.INTERRUPTED or not is_due:
                continue
            probed.add(call["number"])
            yield from ask_verify_hook_and_report_answer_flow(self.checkpointer_state, held, call, hook)
            is_asked = True
        return is_asked

    def _release_or_forget_session(self, session_id: str) -> None:
        try:
            self.release_session(session_id)
        except CheckpointsError:
            owned_session = self.checkpointer_state.find_owned_session(session_id)
            if owned_session is not None:
                self.checkpointer_state.remove_owned_session(owned_session)

    def _start_heartbeats_and_build_resume_point(self, session_id: str, answer: Mapping[str, Any]) -> ResumePoint:
        point = answer["point"]
        transcript = point["transcript"]
        run = None
        results = StoredResultsByCallId()
        if answer["run"] is not None and not point["finished"]:
            prepared = validate_and_digest_transcript.encode_and_digest_transcript(transcript)
            chain = prepared.chains[-1] if prepared.chains else b""
            head = build_transcript_head(len(transcript), chain, point["version"])
            run = self.checkpointer_state.add_session_and_start_heartbeats(
                session_id, answer["run"], at_gate=False, head=head
            ).run
            rows = {stored["call_id"]: stored.pop("number") for stored in point["replayable"]}
            taken = {stored["call_id"]: ToolResult(**stored) for stored in point["replayable"]}
            results = StoredResultsByCallId(taken, _TakenResultRecorder(self.checkpointer_state, session_id), rows)
        return ResumePoint(
            run=run,
            transcript=transcript,
            plan=point["plan"],
            budget_spent_usd=parse_decimal_if_text(point["budget_spent_usd"]),
            usage=point["usage"],
            version=point["version"],
            pending_response=point["pending_response"],
            replayable=results,
            snapshot=None if point["snapshot"] is None else load_as(RuntimeSnapshot, point["snapshot"]),
            finished=point["finished"],
            result=point["result"],
        )

    def open_or_create_step_log(self, session_id: str, workflow_id: str) -> StepLog:
        return RemoteStepLog(self.checkpointer_state, session_id, validate_id("workflow id", workflow_id))

    def get_session_id_of_run(self, run_id: object) -> str:
        return str(
            self.checkpointer_state.transport.send_read_request(f"/runs/{escape_identifier(str(run_id))}")["session_id"]
        )

    # owned sessions

    def flush_and_require_owned_session(self, session_id: str) -> OwnedSession:
        return self.checkpointer_state.flush_and_require_owned_session(session_id)

    def find_or_predict_heartbeat_and_lease_end(self, session_id: str) -> tuple[datetime, datetime]:
        owner = self.checkpointer_state.transport.send_read_request(f"/sessions/{escape_identifier(session_id)}")[
            "owner"
        ]
        if owner is None:
            now = datetime.now().astimezone()
            return now, now + timedelta(seconds=constants.LEASE_SECONDS)
        return datetime.fromisoformat(owner["last_seen"]), datetime.fromisoformat(owner["lease_ends"])

    @trace_session_function(tracing.SAVE)
    def append_version(
        self, session_id: str, messages: Sequence[dict[str, Any]], change: VersionChange, *, expected_version: int
    ) -> int:
        validate_integer("expected_version", expected_version)
        held = self.checkpointer_state.flush_and_require_owned_session(session_id)
        head = held.head
        known = head.version == expected_version
        prepared = validate_and_digest_transcript.encode_and_digest_transcript(
            messages, after=head.chain if known else digests.EMPTY_CHAIN, first=head.length if known else 0
        )
        version = self._post_version(held, "append", prepared, change, expected_version)
        if known:
            chain = prepared.chains[-1] if prepared.chains else head.chain
            held.head = build_transcript_head(head.length + len(prepared.bodies), chain, version)
        else:
            held.head = build_transcript_head(0, b"", version)
        self.checkpointer_state.notify_save_listeners(session_id)
        return version

    @trace_session_function(tracing.SAVE)
    def save_version(
        self,
        session_id: str,
        transcript: Sequence[dict[str, Any]],
        change: VersionChange,
        expected_version: int | None = None,
    ) -> int:
        if expected_version is not None:
            validate_integer("expected_version", expected_version)
        held = self.checkpointer_state.flush_and_require_owned_session(session_id)
        head = held.head
        prepared = validate_and_digest_transcript.encode_and_digest_transcript(transcript)
        continues = (
            head.version > 0
            and head.length > 0
            and validate_and_digest_transcript.does_transcript_continue_head(prepared, head)
        )
        version: int | None = None
        if continues and expected_version in {None, head.version}:
            new = PreparedTranscript(
                prepared.messages[head.length :], prepared.bodies[head.length :], prepared.chains[head.length :]
            )
            try:
                version = self._post_version(held, "append", new, change, head.version)
            except VersionConflict:
                if expected_version is not None:
                    raise
        if version is None:
            version = self._post_version(held, "replace", prepared, change, expected_version)
        held.head = build_transcript_head(
            len(prepared.bodies), prepared.chains[-1] if prepared.chains else b"", version
        )
        self.checkpointer_state.notify_save_listeners(session_id)
        return version

    def _post_version(
        self,
        held: OwnedSession | None,
        mode: str,
        prepared: PreparedTranscript,
        change: VersionChange,
        expected_version: int | None,
        session_id: str = "",
    ) -> int:
        fields: dict[str, Any] = {"mode": mode}
        if expected_version is not None:
            fields["expected_version"] = expected_version
        raw = {"messages": f"[{','.join(prepared.bodies)}]", **encode_version_change(change)}
        path = f"/sessions/{escape_identifier(session_id if held is None else held.session_id)}/versions"
        return int(
            self.checkpointer_state.send_write_request("POST", path, fields, session=held, raw=raw).value["version"]
        )

    def append_version_with_or_without_run(
        self, session_id: str, messages: Sequence[dict[str, Any]], change: VersionChange, *, expected_version: int
    ) -> int:
        if self.checkpointer_state.find_owned_session(session_id) is None:
            return self._append_version_without_run(session_id, messages, change, expected_version)
        return self.append_version(session_id, messages, change, expected_version=expected_version)

    @trace_session_function(tracing.SAVE)
    def _append_version_without_run(
        self, session_id: str, messages: Sequence[dict[str, Any]], change: VersionChange, expected_version: int
    ) -> int:
        validate_id("session id", session_id)
        validate_integer("expected_version", expected_version)
        prepared = validate_and_digest_transcript.encode_and_digest_transcript(messages)
        version = self._post_version(None, "append", prepared, change, expected_version, session_id)
        self.checkpointer_state.notify_save_listeners(session_id)
        return version

    @trace_session_function(tracing.SAVE)
    def save_phase(
        self,
        session_id: str,
        details: PhaseDetails,
        snapshot: RuntimeSnapshot | None,
        transcript: Sequence[dict[str, Any]] | None,
        plan: dict[str, Any] | Unchanged | None,
        expected_version: int | None,
    ) -> int:
        """Save the next version of an owned session at a phase."""
        held = self.checkpointer_state.flush_and_require_owned_session(session_id)
        fields: dict[str, Any] = encode_phase_and_snapshot(details, snapshot)
        if expected_version is not None:
            fields["expected_version"] = validate_integer("expected_version", expected_version)
        if not isinstance(plan, Unchanged):
            fields["plan"] = plan
        raw = {}
        if transcript is not None:
            prepared = validate_and_digest_transcript.encode_and_digest_transcript(transcript)
            raw["messages"] = f"[{','.join(prepared.bodies)}]"
            end = len(prepared.bodies), prepared.chains[-1] if prepared.chains else b""
        else:
            end = held.head.length, held.head.chain
        path = f"/sessions/{escape_identifier(session_id)}/phases"
        version = int(
            self.checkpointer_state.send_write_request("POST", path, fields, session=held, raw=raw).value["version"]
        )
        held.head = build_transcript_head(*end, version)
        self.checkpointer_state.notify_save_listeners(session_id)
        return version

    def import_record(self, session_id: str, record: dict[str, Any], *, run_id: str | None) -> ImportedRecord:
        self.flush_and_require_owned_session(session_id)
        migrated = convert_phase_record(session_id, record, run_id)
        version = self.save_phase(session_id, migrated.details, migrated.snapshot, migrated.transcript, UNCHANGED, None)
        return ImportedRecord(version, migrated.run_id, migrated.applied)

    def list_messages(self, session_id: str, after: int, limit: int, version: int | None) -> list[dict[str, Any]]:
        path = f"/sessions/{escape_identifier(validate_id('session id', session_id))}/messages"
        messages: list[dict[str, Any]] = self.checkpointer_state.transport.send_read_request(
            path, after=after, limit=limit, version=version
        )["messages"]
        return messages

    def finish_session(self, session_id: str, status: str, result: Any) -> None:
        held = self.checkpointer_state.flush_and_require_owned_session(session_id)
        raw = {"result": "null" if result is None else to_canonical_json(result, "result")}
        path = f"/sessions/{escape_identifier(session_id)}/finish"
        self.checkpointer_state.send_write_request("POST", path, {"status": status}, session=held, raw=raw)
        self.checkpointer_state.remove_owned_session(held)
        self.checkpointer_state.notify_save_listeners(session_id)

    def release_session(self, session_id: str) -> bool:
        held = self.checkpointer_state.find_owned_session(validate_id("session id", session_id))
        if held is None:
            return False
        try:
            self.checkpointer_state.flush_pending_writes(session_id)
        finally:
            self.checkpointer_state.remove_owned_session(held)
            released = self.checkpointer_state.send_write_request(
                "POST", f"/sessions/{escape_identifier(session_id)}/release", {}, session=held
            ).value
        return bool(released["released"])


@dataclass(frozen=True)
class RemoteOutbox:
    """Due notices of a server's workspace, or of one session."""

    store: RemoteCheckpointerState
    session_id: str | None = None

    def claim_notices(self, limit: int) -> tuple[list[Notice], dict[str, str]]:
        fields = {"limit": limit, "session_id": self.session_id}
        claimed = self.store.send_write_request("POST", "/notices/claim", fields).value
        return [load_as(Notice, notice) for notice in claimed["notices"]], claimed["failed"]

    def delete_or_postpone_notice(self, notice: Notice, *, delivered: bool) -> None:
        fields = {"kind": notice.kind, "attempt": notice.attempt, "delivered": delivered}
        self.store.send_write_request("POST", f"/peer-calls/{escape_identifier(notice.call_id)}/notice", fields)


class _TakenResultRecorder(OpenOperations):
    """Stored results that the agent uses; the next call of the session tells the server."""

    def __init__(self, store: RemoteCheckpointerState, session_id: str) -> None:
        super().__init__()
        self._store, self._session_id = store, session_id

    def remember_result_as_replayed(self, row: int, call_id: str) -> None:
        self._store.taken.setdefault(self._session_id, []).append({"number": row, "call_id": call_id})


def _validate_and_encode_new_session_fields(description: NewSessionFields) -> dict[str, Any]:
    description.build_columns()  # raises what an invalid description raises
    return {
        "user_message": description.user_message,
        "agent": description.agent,
        "title": description.title,
        "scratchpad_root": description.scratchpad_root,
        "metadata": description.metadata,
        "labels": list(description.labels),
    }


def _build_review_or_approval_required_error(session_id: str, undecided: Sequence[Mapping[str, Any]]) -> ReviewRequired:
    unknown = any(call["status"] == CallStatus.INTERRUPTED for call in undecided)
    return (ReviewRequired if unknown else ApprovalRequired)(session_id, undecided)


def encode_version_change(change: VersionChange) -> dict[str, str]:
    """Encode the state of a version beside its transcript, as JSON text by field. Raises what a save raises."""
    state = change.apply_to(VersionState.create_empty())
    raw = {"phase": f'"{state.phase.value}"'}
    if not isinstance(change.plan, Unchanged):
        raw["plan"] = state.plan or "null"
    if not isinstance(change.budget_spent_usd, Unchanged):
        raw["budget_spent_usd"] = state.budget
    if not isinstance(change.usage, Unchanged):
        raw["usage"] = state.usage or "null"
    if state.payload is not None:
        raw["payload"] = state.payload
    return raw
