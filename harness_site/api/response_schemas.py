"""Answers of the routes, as the OpenAPI document describes them. The views build them as plain values."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel, Field

JsonObject = dict[str, Any]


class Answer(BaseModel):
    """Base of all answers."""


# Sessions


class Owner(Answer):
    """Run that owns a session."""

    run_id: str
    host: str
    pid: int
    last_seen: datetime
    lease_ends: datetime


class ListedOwner(Owner):
    """Run that owns a session of a list."""

    alive: bool


class SessionState(Answer):
    """Facts about a session without its transcript."""

    session_id: str
    title: str
    agent: str
    status: str
    finished: bool
    quarantined_at: datetime | None = Field(description="Since when data of the session are known to be altered.")
    labels: list[str]
    metadata: Any
    version: int
    message_count: int
    budget_spent_usd: str = Field(description="Exact decimal number; 0 if the cost is unknown.")
    cost_basis: Literal["stated", "estimated", "unknown"] = Field(description="Source of `budget_spent_usd`.")
    total_tokens: int = Field(description="0 if no version states its tokens.")
    created_at: datetime
    updated_at: datetime


class ListedSession(SessionState):
    """Session of a list."""

    owner: ListedOwner | None
    cursor: str = Field(description="Value of `after` for the next page.")


class SessionPage(Answer):
    sessions: list[ListedSession]
    next: str | None


class NumberedOwner(Owner):
    """Run that owns a session."""

    number: int


class SessionDetails(SessionState):
    """Session with its result; the ETag is its revision."""

    owner: NumberedOwner | None
    result: Any
    parent_session_id: str | None
    forked_version: int | None
    revision: int


class RunState(Answer):
    """Run; its fence goes with every write."""

    run_id: str
    number: int
    fence: int
    status: str
    resumed_from: str | None
    started_at: datetime
    lease_seconds: float = Field(description="Seconds without a heartbeat after which the run counts as lost.")


class StoredResult(Answer):
    """Result of a call that the agent gets instead of running it."""

    number: int | None
    call_id: str
    content: str
    is_error: bool
    replayed: bool
    attempt: int
    answered_before: bool


class Point(Answer):
    """Point where a run continues."""

    transcript: list[JsonObject]
    plan: JsonObject | None
    budget_spent_usd: float | str
    usage: JsonObject | None
    version: int
    pending_response: JsonObject | None
    replayable: list[StoredResult]
    snapshot: JsonObject | None
    finished: bool
    result: Any


class CallState(Answer):
    """Tool call of the log."""

    call_id: str
    tool_name: str
    args_json: str = Field(description="Arguments as JSON text.")
    started_at: datetime
    status: str
    reason: str
    run_id: str
    alive: bool = Field(description="Whether the run that issued the call is alive.")
    step: int
    attempt: int
    revision: int
    verify_reason: str | None = Field(description="Why the verify hook could not tell.")
    allowed_decisions: list[str] = Field(
        description="Kinds of decisions that the agent accepts, of a call that awaits an approval."
    )


class UndecidedCall(CallState):
    """Call that waits for a decision."""

    number: int
    args_digest: str
    verifiable: bool
    verify_requested_by: str


class Opening(Answer):
    """Opened session: `point` to continue from; None while `undecided` calls hold the run at the gate."""

    point: Point | None
    run: RunState | None = Field(description="None for a finished session.")
    undecided: list[UndecidedCall]


class PeerOutcome(Answer):
    """End of one call to another agent."""

    call_id: str
    peer: str
    status: str
    result: Any
    settled_at: datetime


class TakenJoin(Answer):
    """Complete join with the ends of its calls."""

    id: str
    pause: int
    results: list[PeerOutcome]


class TakenTask(Answer):
    """State and responses with which a paused run continues."""

    state: JsonObject
    paused_version: int
    joins: list[TakenJoin]
    open: list[str]
    times_taken: int = Field(description="More than 1 where a run had taken the task before and was lost.")


class TaskOpening(Opening):
    """Opened session that waited for other agents; `task` is None while calls hold the run at the gate."""

    task: TakenTask | None


class Alive(Answer):
    alive: bool


class Released(Answer):
    released: bool


class Status(Answer):
    status: str


class VersionNumber(Answer):
    version: int


class Removal(Answer):
    """Numbers of rows that were, or would be, removed."""

    versions: int
    messages: int
    dry_run: bool


class Preview(Answer):
    """Result that a resume would have now."""

    version: int | None
    finished: bool
    pending_response: bool
    replay: list[CallState]
    run: list[CallState]
    ask: list[CallState]


class SessionOfRun(Answer):
    session_id: str


# Versions


class ListedVersion(Answer):
    """Version without its transcript."""

    plan: JsonObject | None
    budget_spent_usd: float | str
    version: int
    usage: JsonObject | None
    payload: JsonObject | None
    phase: str
    run_id: str | None
    created_at: datetime
    schema_version: int
    message_count: int


class VersionPage(Answer):
    versions: list[ListedVersion]
    next: int | None = Field(description="Value of `before` for the next page.")


class Version(Answer):
    """Version with its transcript."""

    transcript: list[JsonObject]
    plan: JsonObject | None
    budget_spent_usd: float | str
    version: int
    usage: JsonObject | None
    payload: JsonObject | None
    phase: str
    run_id: str | None
    created_at: datetime
    schema_version: int


class LoadedVersion(Answer):
    version: Version


class LatestVersion(Answer):
    version: Version | None


class ListedMessage(Answer):
    position: int
    created_at: datetime
    message: JsonObject


class MessagePage(Answer):
    messages: list[ListedMessage]
    next: int | None = Field(description="Value of `after` for the next page.")


# Calls


class IssuedCall(Answer):
    """The call is logged: run the tool now, with these arguments."""

    state: Literal["run"]
    number: int
    call_id: str
    step: int
    attempt: int
    args_json: str | None = Field(description="Arguments as JSON text if a person has changed them.")


class AnsweredCall(Answer):
    """The call has a stored result, which the agent gets."""

    state: Literal["answered"]
    call_id: str
    content: str
    is_error: bool
    replayed: bool
    attempt: int
    answered_before: bool


class RunningCall(Answer):
    """The call runs elsewhere: ask again with the same key."""

    state: Literal["running"]
    call_id: str
    tool: str


class Outcome(Answer):
    outcome: str


class CallList(Answer):
    calls: list[CallState]


class CallCard(CallState):
    """Facts of a call; the ETag is its revision."""

    number: int
    session_id: str
    args_digest: str
    result_text: str | None
    #: Exit code that the result of a shell command states; null if it states none, or for another tool.
    exit_code: int | None
    error_type: str
    error_message: str
    side_effects: list[str]
    risk: str
    sentence: str
    verifiable: bool
    approvals: int
    deadline: datetime | None
    settled_at: datetime | None
    replay_count: int
    undecided: bool


class CompletedCall(CallState):
    session_id: str
    result_text: str | None


class FoundCall(Answer):
    call: CompletedCall | None


class PendingCall(CallState):
    """Call that waits for a person."""

    session_id: str
    agent: str
    sentence: str
    risk: str
    waits_since: datetime | None
    deadline: datetime | None
    cursor: int


class PendingPage(Answer):
    calls: list[PendingCall]
    next: int | None


# Other agents


class PausedState(Answer):
    session_id: str
    number: int
    complete: list[str]
    ready: bool


class AcceptedResponse(Answer):
    """The response counts; `join_complete` is true for exactly one."""

    answer: Literal["Accepted"]
    call_id: str
    session_id: str
    join_id: str
    join_complete: bool
    completed: int
    total: int


class DuplicateResponse(Answer):
    """The call has been answered before."""

    answer: Literal["Duplicate"]
    call_id: str
    session_id: str
    same: bool
    ready: bool


class LateResponse(Answer):
    """The call was given up at its deadline; the response is kept as evidence."""

    answer: Literal["Late"]
    call_id: str
    session_id: str
    deadline: datetime


class OtherResponse(Answer):
    """The call was cancelled, or made to somebody else; nothing changed."""

    answer: Literal["Cancelled", "Foreign"]
    call_id: str
    session_id: str


class UnknownResponse(Answer):
    """There is no such call, or none yet."""

    answer: Literal["Unknown", "Early"]
    call_id: str


class Notice(Answer):
    """Notice that is due to another agent; it may be sent more than once."""

    kind: str
    session_id: str
    call_id: str
    peer: str
    request: Any
    deadline: datetime
    attempt: int


class ClaimedNotices(Answer):
    notices: list[Notice]
    failed: dict[str, str] = Field(description="Error by call id of the notices that cannot be read.")


class Delivery(Answer):
    delivered: bool


class ExpiredCalls(Answer):
    expired: list[str]
    complete: list[list[str]] = Field(description="Session and join of each join that this completed.")


class DeadlineTime(Answer):
    deadline: datetime


class PausedSession(Answer):
    session_id: str
    agent: str
    ready: bool
    driven: bool
    complete: list[str]
    open: list[str]


class PausedList(Answer):
    sessions: list[PausedSession]


class ListedPeerCall(Answer):
    call_id: str
    peer: str
    join_id: str
    pause: int
    status: str
    created_at: datetime
    deadline: datetime
    settled_at: datetime | None
    result_json: str | None
    late_result_json: str | None
    late_at: datetime | None
    to_tell: str | None


class PeerCallList(Answer):
    calls: list[ListedPeerCall]


# Search, workflows, events


class Passage(Answer):
    session_id: str
    title: str
    text: str


class PassagePage(Answer):
    passages: list[Passage]
    next: str | None
    partial: bool
    timed_out: bool


class StepState(Answer):
    step_id: str
    function: str
    version: str
    call_id: str
    status: str | None
    attempts: int
    result: Any
    started_at: datetime | None


class WorkflowState(Answer):
    workflow_id: str
    steps: list[StepState]


class WorkflowList(Answer):
    workflows: list[WorkflowState]


class AnsweredStep(Answer):
    state: Literal["answered"]
    value: Any


class Event(Answer):
    """Events of the workspace."""

    id: int
    event: str
    at: datetime
    session_id: str | None
    actor: str
    actor_kind: str
    details: JsonObject


class EventPage(Answer):
    events: list[Event]
    last: int = Field(description="Value of `after` for the next events.")


#: Answers of routes with several statuses.
OPENING = {HTTPStatus.OK: Opening, HTTPStatus.CREATED: Opening, HTTPStatus.ACCEPTED: Opening}
TASK_OPENING = {HTTPStatus.OK: TaskOpening, HTTPStatus.CREATED: TaskOpening, HTTPStatus.ACCEPTED: TaskOpening}
ISSUED = {HTTPStatus.OK: AnsweredCall, HTTPStatus.CREATED: IssuedCall, HTTPStatus.ACCEPTED: RunningCall}
ISSUED_STEP = {HTTPStatus.OK: AnsweredStep, HTTPStatus.CREATED: IssuedCall, HTTPStatus.ACCEPTED: RunningCall}
PEER_RESPONSE = AcceptedResponse | DuplicateResponse | LateResponse | OtherResponse | UnknownResponse
