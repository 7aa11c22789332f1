"""Bodies of requests. Unknown fields are refused, and no value is converted to another type."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")


def _require_date(value: object) -> object:
    """Require a date: a bare number would be taken for seconds since 1970."""
    if isinstance(value, str) and not _DATE.match(value):
        raise ValueError("It is no date and time in ISO 8601.")
    return value


#: Date and time in ISO 8601.
Timestamp = Annotated[datetime, BeforeValidator(_require_date)]

#: Identifier; the library itself checks it, with an error that says what is wrong.
Identifier = Annotated[str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 255})]
JsonObject = dict[str, Any]
Amount = int | float | str


class Body(BaseModel):
    """Base of all bodies."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Empty(Body):
    """Body without fields."""


class Fenced(Body):
    """Write of a run, which the fence of its opening names."""

    fence: int = Field(ge=1, description="Fence that the opening of the session returned.")


class Process(Body):
    """Process of the agent, as the pages show it."""

    host: str = Field("", max_length=255)
    pid: int = Field(0, ge=0, le=2**31 - 1)


class TakePaused(Body):
    """Own a session; what every opening has."""

    hold: bool = Field(
        False, description="Whether to stay at the gate while calls are undecided (202), instead of the error 409."
    )
    takeover: bool | str = False
    fence: int | None = Field(None, ge=1, description="Fence of the run that the caller has in this session already.")
    executing: list[int] | None = Field(
        None, description="Numbers of the calls that this client still runs; others of its run become interrupted."
    )
    process: Process = Field(default_factory=lambda: Process.model_validate({}))


class OpenSession(TakePaused):
    """Start or resume a session."""

    session_id: Identifier
    mode: Literal["open", "start", "resume"] = Field(
        "open",
        description="`open` creates the session if it does not exist; `resume` does not; `start` refuses a finished "
        "one.",
    )
    user_message: str = ""
    agent: str = ""
    title: str | None = None
    scratchpad_root: str | None = None
    metadata: JsonObject | None = None
    labels: list[str] = []


class Finish(Fenced):
    """End a session."""

    status: str
    result: Any = None


class Fork(Body):
    """Create a session that continues from a version of another one."""

    new_session_id: Identifier
    version: int | None = None


class Prune(Body):
    """Delete old versions."""

    keep_last: int | None = None
    keep_every: int | None = None
    older_than_seconds: float | None = None
    dry_run: bool = False


class SaveVersion(Body):
    """Save the next version: messages that are new, or the whole transcript. What is left out stays as it was."""

    mode: Literal["append", "replace"] = "append"
    messages: list[JsonObject]
    fence: int | None = Field(None, ge=1, description="Left out: append without a run, refused while a run is alive.")
    expected_version: int | None = Field(None, ge=0)
    plan: JsonObject | None = None
    budget_spent_usd: Amount | None = Field(None, description="A number, or the text of an exact decimal number.")
    usage: JsonObject | None = None
    phase: str = "turn"
    payload: JsonObject | None = None


class SavePhase(Fenced):
    """Save the next version at a phase of the loop. What is left out stays as it was."""

    phase: str = Field(description="Phase of the loop, such as `post_llm`.")
    details: JsonObject = Field({}, description="Details of the phase; those that are left out have their defaults.")
    snapshot: JsonObject | None = Field(None, description="State of the loop, valid until the next one.")
    messages: list[JsonObject] | None = Field(None, description="The whole transcript; null leaves it as it was.")
    plan: JsonObject | None = None
    expected_version: int | None = Field(None, ge=0)


class TakenResult(Body):
    """Stored result that the agent used by its call id."""

    number: int
    call_id: Identifier


class DescribedCall(Fenced):
    """Tool and arguments of a call, as the log shows them to a person."""

    tool: Identifier
    args: Any
    side_effects: list[str] = ["mutate"]
    key: Identifier | None = None
    scope: str = "session"
    risk: str | None = None
    sentence: str = ""
    verifiable: bool = False
    requires_approval: bool = False
    approvals: int = Field(1, ge=1)
    decide_within: float | None = Field(None, gt=0)


class IssueCall(DescribedCall):
    """Log that a call is about to run, or get its stored answer."""

    call_id: Identifier
    step: int | None = None
    idempotency: Literal["once", "unanswered", "call", "function", "key"] = Field(
        "once",
        description="`function`: `key` is what the tool's own function made of the arguments. `key`: it is the whole "
        "key.",
    )
    taken: list[TakenResult] = []


class IssueStep(DescribedCall):
    """Log that a step of a workflow is about to run, or get the value of one that has happened."""

    step_id: Identifier
    version: Identifier = Field("1", description="Version of the step's code: another one is another step.")
    idempotency: Literal["once", "unanswered", "call", "function"] = Field(
        "once",
        description="Only for a tool with the scope `workspace` or with a `key` of its own (`function`): a step is its "
        "own operation otherwise.",
    )


class CallOutcome(Body):
    """Outcome of an issued call. Without a fence it is kept as evidence, and refused."""

    fence: int | None = Field(None, ge=1)
    status: Literal["completed", "failed", "interrupted"]
    result: Any = Field(None, description="What the model reads: text, or for a workflow step any JSON value.")
    error_type: str = ""
    reason: Literal["", "ambiguous_error", "cancelled"] = ""
    step: int | None = None
    attempt: int | None = None


class ProbeAnswer(Fenced):
    """Answer of a tool's verify hook, which ran at the agent."""

    answer: Literal["landed", "not_landed", "unknown"]
    result: Any = None
    why: str = ""
    step: int
    attempt: int
    revision: int


class Decide(Body):
    """Decision about a call. It counts only for the revision and the arguments that it names."""

    kind: Literal[
        "confirm_landed", "mark_failed", "approve_rerun", "approve", "reject", "edit", "respond", "withdraw", "verify"
    ]
    reason: str = ""
    revision: int | None = Field(None, description="Revision of the call; `If-Match` may name it instead.")
    args_digest: str | None = Field(None, description="Digest of the arguments that were read.")
    evidence: JsonObject | str | None = None
    result: str | None = Field(None, description="Result for the agent: for `confirm_landed`, `respond` and `reject`.")
    new_args: JsonObject | None = Field(None, description="Changed arguments, for `edit`.")
    step: int | None = None
    attempt: int | None = None


class PeerCallBody(Body):
    """One request to another agent."""

    id: Identifier
    peer: Identifier
    request: Any = None
    deadline_seconds: float = 600
    token: str | None = None
    sent: bool = True


class JoinBody(Body):
    """Calls that are waited for together."""

    id: Identifier
    calls: list[PeerCallBody]


class Pause(Fenced):
    """Pause a session until other agents have answered."""

    state: JsonObject
    joins: list[JoinBody]


class CancelPaused(Body):
    """End a session that waits for other agents."""

    reason: str = ""


class ClaimNotices(Body):
    """Claim the notices to other agents that are due."""

    limit: int = Field(100, ge=1, le=1000)
    session_id: str | None = Field(None, description="Only notices of this session.")


class SettleNotice(Body):
    """Report whether a claimed notice was delivered."""

    kind: Literal["request", "cancel"]
    attempt: int = Field(ge=1, le=2**31 - 1, description="Number of the attempt, as it was claimed.")
    delivered: bool


class SweepDeadlines(Body):
    """Give up calls to other agents whose deadline has passed."""

    limit: int = Field(100, ge=1, le=1000)


class PeerResponseBody(Body):
    """Response of another agent."""

    result: Any = None
    session_id: str | None = None
    peer: str | None = None
    token: str | None = None


class ExtendDeadline(Body):
    """Extend the deadline of a call to another agent."""

    seconds: float = Field(ge=0)
