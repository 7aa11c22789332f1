"""Bodies of requests. Unknown fields are refused, and no value is converted to another type."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")


def _refuse_text_that_is_no_date(value: object) -> object:
    """Require a date: a bare number would be taken for seconds since 1970."""
    if isinstance(value, str) and not _DATE.match(value):
        raise ValueError("It is no date and time in ISO 8601.")
    return value


#: Date and time in ISO 8601.
Timestamp = Annotated[datetime, BeforeValidator(_refuse_text_that_is_no_date)]

#: Identifier; the library itself checks it, with an error that says what is wrong.
Identifier = Annotated[str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 255})]
JsonObject = dict[str, Any]
Amount = int | float | str


class Body(BaseModel):
    """Base of all bodies."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Fenced(Body):
    """Write of a run, which the fence of its opening names."""

    fence: int = Field(ge=1, description="Fence that the opening of the session returned.")


class Process(Body):
    """Process of the agent, as the pages show it."""

    host: str = Field("", max_length=255, description="Name of the machine.")
    pid: int = Field(0, ge=0, le=2**31 - 1, description="Number of the process on its machine.")


class TakePaused(Body):
    """Own a session; what every opening has."""

    hold: bool = Field(
        False, description="Whether to stay at the gate while calls are undecided (202), instead of the error 409."
    )
    takeover: bool | str = Field(
        False,
        description="Take the session from a run that still looks alive; a text is the reason, which is recorded.",
    )
    fence: int | None = Field(None, ge=1, description="Fence of the run that the caller has in this session already.")
    executing: list[int] | None = Field(
        None, description="Numbers of the calls that this client still runs; others of its run become interrupted."
    )
    process: Process = Field(
        default_factory=lambda: Process.model_validate({}), description="Process of the agent, as pages show it."
    )


class OpenSession(TakePaused):
    """Start or resume a session."""

    session_id: Identifier = Field(description="Your name for the session, such as the number of an order.")
    mode: Literal["open", "start", "resume"] = Field(
        "open",
        description="`open` creates the session if it does not exist; `resume` does not; `start` refuses a finished "
        "one.",
    )
    user_message: str = Field("", description="First message of the user; becomes the title where none is given.")
    agent: str = Field("", description="Name of the agent.")
    title: str | None = Field(None, description="Title of the session on pages.")
    scratchpad_root: str | None = Field(None, description="Path of the agent's working directory.")
    metadata: JsonObject | None = Field(None, description="JSON object stored with the session.")
    labels: list[str] = Field([], description="Labels of the session.")


class Finish(Fenced):
    """End a session."""

    status: str = Field(description="`completed`, `failed` or `cancelled`.")
    result: Any = Field(None, description="Result of the session: any JSON value.")


class Fork(Body):
    """Create a session that continues from a version of another one."""

    new_session_id: Identifier = Field(description="Identifier of the new session.")
    version: int | None = Field(None, description="Version to continue from; without one, the newest.")
    title: str | None = Field(None, description="Title of the new session; without one, that of the other session.")


class Prune(Body):
    """Delete old versions."""

    keep_last: int | None = Field(None, description="Number of newest versions to keep.")
    keep_every: int | None = Field(None, description="Keep every version whose number is a multiple of this.")
    older_than_seconds: float | None = Field(None, description="Delete only versions older than this.")
    dry_run: bool = Field(False, description="Count what would be deleted, and delete nothing.")


class SaveVersion(Body):
    """Save the next version: messages that are new, or the whole transcript. What is left out stays as it was."""

    mode: Literal["append", "replace"] = Field(
        "append", description="`append`: `messages` are new ones. `replace`: they are the whole transcript."
    )
    messages: list[JsonObject] = Field(description="Messages with `role` and `content`, as the model's API has them.")
    fence: int | None = Field(None, ge=1, description="Left out: append without a run, refused while a run is alive.")
    expected_version: int | None = Field(
        None, ge=0, description="Version that this one follows; another one is refused."
    )
    plan: JsonObject | None = Field(None, description="Plan of the agent, as pages show it.")
    budget_spent_usd: Amount | None = Field(None, description="A number, or the text of an exact decimal number.")
    usage: JsonObject | None = Field(None, description="Tokens that the turn used.")
    phase: str = Field("turn", description="Phase of the run that ends with this version.")
    payload: JsonObject | None = Field(None, description="JSON object that belongs to this version alone.")


class SavePhase(Fenced):
    """Save the next version at a phase of the loop. What is left out stays as it was."""

    phase: str = Field(description="Phase of the loop, such as `post_llm`.")
    details: JsonObject = Field({}, description="Details of the phase; those that are left out have their defaults.")
    snapshot: JsonObject | None = Field(None, description="State of the loop, valid until the next one.")
    messages: list[JsonObject] | None = Field(None, description="The whole transcript; null leaves it as it was.")
    plan: JsonObject | None = Field(None, description="Plan of the agent, as pages show it.")
    expected_version: int | None = Field(
        None, ge=0, description="Version that this one follows; another one is refused."
    )


class TakenResult(Body):
    """Stored result that the agent used by its call id."""

    number: int = Field(description="Number of the call.")
    call_id: Identifier = Field(description="Identifier of the call.")


class DescribedCall(Fenced):
    """Tool and arguments of a call, as the log shows them to a person."""

    tool: Identifier = Field(description="Name of the tool.")
    args: Any = Field(description="Arguments of the call: a JSON object.")
    side_effects: list[str] = Field(
        ["mutate"],
        description="What the tool does to the world: `write` (makes something new) or `mutate` (changes or deletes).",
    )
    key: Identifier | None = Field(None, description="Part of the idempotency key that the agent chooses.")
    scope: str = Field("session", description="Where an equal call counts as the same: `session` or `workspace`.")
    risk: str | None = Field(
        None, description="`low`, `medium` or `high`; without one, it follows from the side effects."
    )
    sentence: str = Field("", description="Sentence about the call for people, with arguments in braces.")
    verifiable: bool = Field(False, description="Whether the agent can find out later whether the call happened.")
    requires_approval: bool = Field(False, description="Whether a person has to agree before the call runs.")
    approvals: int = Field(1, ge=1, description="Number of people who have to agree.")
    decide_within: float | None = Field(None, gt=0, description="Seconds until the deadline of a decision.")


class IssueCall(DescribedCall):
    """Log that a call is about to run, or get its stored answer."""

    call_id: Identifier = Field(description="Identifier of the call, as the model gave it.")
    step: int | None = Field(None, description="Step of the loop; without one, the number of the newest version.")
    idempotency: Literal["once", "unanswered", "call", "function", "key"] = Field(
        "once",
        description="`function`: `key` is what the tool's own function made of the arguments. `key`: it is the whole "
        "key.",
    )
    continues_open_calls: bool = Field(
        False,
        description="With `call` and without a `step`: the call keeps its key in a later step, until a saved version "
        "has its result. For frameworks, which save while a call waits for a person.",
    )
    taken: list[TakenResult] = Field([], description="Stored results that the agent has used since its last request.")


class IssueStep(DescribedCall):
    """Log that a step of a workflow is about to run, or get the value of one that has happened."""

    step_id: Identifier = Field(description="Name of the step in the workflow.")
    version: Identifier = Field("1", description="Version of the step's code: another one is another step.")
    idempotency: Literal["once", "unanswered", "call", "function"] = Field(
        "once",
        description="Only for a tool with the scope `workspace` or with a `key` of its own (`function`): a step is its "
        "own operation otherwise.",
    )


class CallOutcome(Body):
    """Outcome of an issued call. Without a fence it is kept as evidence, and refused."""

    fence: int | None = Field(None, ge=1, description="Fence that the opening of the session returned.")
    status: Literal["completed", "failed", "interrupted"] = Field(
        description="`interrupted`: it is unknown whether the call happened."
    )
    result: Any = Field(
        None,
        description="What the model reads: text, or for a workflow step any JSON value. An interrupted call has none.",
    )
    error_type: str = Field("", description="Type of the error that the tool raised.")
    error_message: str = Field(
        "", description="Message of that error; whoever decides about an interrupted call reads it."
    )
    reason: Literal["", "ambiguous_error", "cancelled"] = Field(
        "", description="Why it is unknown whether an interrupted call happened."
    )
    step: int | None = Field(None, description="Step of the call; without one, the newest that has it.")
    attempt: int | None = Field(None, description="Number of the attempt.")


class ProbeAnswer(Fenced):
    """Answer of a tool's verify hook, which ran at the agent."""

    answer: Literal["landed", "not_landed", "unknown"] = Field(description="Whether the call happened.")
    result: Any = Field(None, description="Result of a call that happened.")
    why: str = Field("", description="Why the verify hook could not tell.")
    step: int = Field(description="Step of the call.")
    attempt: int = Field(description="Number of the attempt.")
    revision: int = Field(description="Revision of the call.")


class Decide(Body):
    """Decision about a call. It counts only for the revision and the arguments that it names."""

    kind: Literal[
        "confirm_landed", "mark_failed", "approve_rerun", "approve", "reject", "edit", "respond", "withdraw", "verify"
    ] = Field(
        description="About an interrupted call: `confirm_landed` (it happened), `mark_failed` (it did not, and will "
        "not run), `approve_rerun` (run it once more), `verify` (ask the verify hook). About a call that awaits "
        "approval: `approve`, `edit`, `reject`, `respond` (answer for the tool). `withdraw` takes a decision back "
        "before the run has used it."
    )
    reason: str = Field("", description="Why; recorded with the name of the token.")
    revision: int | None = Field(None, description="Revision of the call; `If-Match` may name it instead.")
    args_digest: str | None = Field(None, description="Digest of the arguments that were read.")
    evidence: JsonObject | str | None = Field(
        None, description="What shows that the decision is right: a text, a link, or a JSON object."
    )
    result: str | None = Field(None, description="Result for the agent: for `confirm_landed`, `respond` and `reject`.")
    new_args: JsonObject | None = Field(None, description="Changed arguments, for `edit`.")
    step: int | None = Field(None, description="Step of the call; without one, the newest that has it.")
    attempt: int | None = Field(None, description="Number of the attempt.")


class PeerCallBody(Body):
    """One request to another agent."""

    id: Identifier = Field(description="Your name for the request.")
    peer: Identifier = Field(description="Name of the other agent.")
    request: Any = Field(None, description="What is asked: any JSON value.")
    deadline_seconds: float = Field(600, description="Seconds until the request is given up.")
    token: str | None = Field(None, description="Secret that the response has to name.")
    sent: bool = Field(True, description="Whether the request was sent already; otherwise it becomes a notice.")


class JoinBody(Body):
    """Calls that are waited for together."""

    id: Identifier = Field(description="Name of the join.")
    calls: list[PeerCallBody] = Field(description="Requests that are waited for together.")


class Pause(Fenced):
    """Pause a session until other agents have answered."""

    state: JsonObject = Field(description="What the run needs to continue: a JSON object.")
    joins: list[JoinBody] = Field(description="Groups of requests; the session continues when one group is complete.")


class CancelPaused(Body):
    """End a session that waits for other agents."""

    reason: str = Field("", description="Why; recorded in the audit trail.")


class ClaimNotices(Body):
    """Claim the notices to other agents that are due."""

    limit: int = Field(100, ge=1, le=1000, description="Largest number of notices.")
    session_id: str | None = Field(None, description="Only notices of this session.")


class SettleNotice(Body):
    """Report whether a claimed notice was delivered."""

    kind: Literal["request", "cancel"] = Field(description="What was delivered.")
    attempt: int = Field(ge=1, le=2**31 - 1, description="Number of the attempt, as it was claimed.")
    delivered: bool = Field(description="Whether it was.")


class SweepDeadlines(Body):
    """Give up calls to other agents whose deadline has passed."""

    limit: int = Field(100, ge=1, le=1000, description="Largest number of calls.")


class PeerResponseBody(Body):
    """Response of another agent."""

    result: Any = Field(None, description="Response: any JSON value.")
    session_id: str | None = Field(None, description="Session that asked.")
    peer: str | None = Field(None, description="Name of the agent that responds.")
    token: str | None = Field(None, description="Secret of the request.")


class ExtendDeadline(Body):
    """Extend the deadline of a call to another agent."""

    seconds: float = Field(ge=0, description="Seconds from now.")
