"""All errors of this library. Each message says what happened, to what, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

__all__ = [
    "AlreadyDecided",
    "ApiError",
    "ApprovalRequired",
    "AtGate",
    "BlockingCallInAsyncCode",
    "CallAlreadySettled",
    "CallConflict",
    "CallError",
    "CallInProgress",
    "CallNotFound",
    "CheckpointCorrupted",
    "CheckpointerClosed",
    "CheckpointsError",
    "ConcurrentModification",
    "ConnectionFailed",
    "DatabaseNotConfigured",
    "DecisionExpired",
    "DecisionKeyInvalid",
    "DecisionKeyUnknown",
    "DecisionNotAccepted",
    "DecisionNotSigned",
    "DecisionRefused",
    "DecisionSignatureInvalid",
    "DecisionSigningKeyMissing",
    "DriverMissing",
    "DuplicateStep",
    "EditorMayNotApprove",
    "FileDamaged",
    "FileError",
    "FileNotReadable",
    "FileNotWritten",
    "FrameworkNotSupported",
    "IdempotencyKeyReused",
    "ImportConflict",
    "InsideTransaction",
    "IntegrityError",
    "InvalidArguments",
    "InvalidDatabaseUrl",
    "InvalidFields",
    "InvalidIdentifier",
    "InvalidInput",
    "LateResultRefused",
    "MalformedRequest",
    "MigrationsMissing",
    "NotDurable",
    "NotFound",
    "NotOverHttp",
    "NotOwner",
    "NotPaused",
    "NotPermitted",
    "NotQuarantined",
    "NotRepresentable",
    "NotUndecided",
    "OpenedInAnotherProcess",
    "OwnershipError",
    "OwnershipLost",
    "PausedForPeers",
    "PeerCallExists",
    "PeerCallNotFound",
    "PeerCallOver",
    "PeerError",
    "PreconditionFailed",
    "QuarantineStays",
    "RateLimited",
    "ReasonRequired",
    "RegistryNotBound",
    "ReleasedWhenIdle",
    "RequestInProgress",
    "ResultNotRecorded",
    "ReviewRequired",
    "RoleInsufficient",
    "RouteNotFound",
    "RowNotSealed",
    "RunNotFound",
    "SchemaFromFuture",
    "SealError",
    "SealKeyInvalid",
    "SealKeyMissing",
    "SecondPersonRequired",
    "SecretsLocked",
    "ServerFailed",
    "ServerUnavailable",
    "SessionBusy",
    "SessionExists",
    "SessionFinished",
    "SessionNotFound",
    "SessionQuarantined",
    "StaleRevision",
    "StepIdentityChanged",
    "StepRejected",
    "StillNeeded",
    "StillWaiting",
    "StorageBusy",
    "StorageError",
    "StorageFull",
    "StorageReadOnly",
    "StorageUnavailable",
    "TokenInvalid",
    "TooLarge",
    "VersionConflict",
    "VersionNotFound",
    "WitnessAhead",
    "WitnessBehind",
    "WitnessDamaged",
    "WitnessError",
    "WitnessMissing",
    "WitnessTruncated",
    "WorkflowError",
    "WorkspaceNotFound",
    "WrongSession",
    "WrongWorkspace",
]


# Base class of all errors


class CheckpointsError(Exception):
    """Base of all errors of this library. `code` names the class in machine-readable places."""

    code = "checkpoints_error"
    hint = ""

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} {self.hint}" if self.hint else message

    @property
    def detail(self) -> str:
        """Message without the hint."""
        return super().__str__()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_error, (type(self), self.args), self.__dict__


def _rebuild_error(kind: type[CheckpointsError], args: tuple[Any, ...]) -> CheckpointsError:
    """Build an error that another process has pickled, without `__init__`: its attributes and message are set as they
    were there."""
    return kind.__new__(kind, *args)


# Errors about invalid input


class InvalidInput(CheckpointsError, ValueError):
    """Base of errors about arguments; the class itself is raised where no more specific one fits."""

    code = "invalid_input"


class InvalidIdentifier(InvalidInput):
    """A value cannot be an identifier."""

    code = "invalid_identifier"
    hint = "Use 1 to 255 characters of text without control characters."

    def __init__(self, kind: str, value: object, why: str) -> None:
        super().__init__(f"{value!r} is no valid {kind}: {why}.")


class NotRepresentable(InvalidInput):
    """A value has no exact JSON form. Nothing was written."""

    code = "not_representable"
    hint = "Convert it to text, a finite number, a list or a dict with text keys before saving. Nothing was written."

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"{path} cannot be kept exactly: {why}.")


class ConcurrentModification(InvalidInput):
    """Another thread changed a value while it was read to be saved. Nothing was written."""

    code = "concurrent_modification"
    hint = "Save again once nothing changes it, or hand in a copy. Nothing was written."

    def __init__(self, what: str) -> None:
        self.path = what
        super().__init__(f"{what} was changed by another thread while it was being saved.")


class InvalidArguments(InvalidInput):
    """The arguments of a tool call do not fit its signature."""

    code = "invalid_arguments"
    hint = "Nothing was run."

    def __init__(self, tool: str, why: str) -> None:
        self.tool = tool
        super().__init__(f"The arguments for {tool!r} cannot be used: {why}.")


class TooLarge(InvalidInput):
    """A value is larger than its limit."""

    code = "too_large"
    hint = "Nothing was written. Keep large data outside and store a reference to it."

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what} has {size:,} bytes; {limit:,} is the most.")


class InvalidDatabaseUrl(InvalidInput):
    """A path or URL names no database that can be opened."""

    code = "invalid_database_url"
    hint = "Use sqlite:///file.db, a path, or postgresql://user:password@host:port/name."

    def __init__(self, why: str) -> None:
        super().__init__(f"The database cannot be opened: {why}.")


class SessionExists(InvalidInput):
    """A session with this identifier exists already."""

    code = "session_exists"
    hint = "Choose an id that is not taken. Nothing was written."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"There already is a session {session_id!r}.")


class StillNeeded(CheckpointsError):
    """A row that should be removed is needed to continue."""

    code = "still_needed"
    hint = "Nothing was removed."

    def __init__(self, session_id: str, why: str) -> None:
        self.session_id = session_id
        super().__init__(f"Session {session_id!r}: {why}.")


# Errors about rows that do not exist


class NotFound(CheckpointsError):
    """Base of errors about things that do not exist."""

    code = "not_found"


class WorkspaceNotFound(NotFound):
    """There is no workspace with this name."""

    code = "workspace_not_found"
    hint = "Create it, or use the workspace `default`."

    def __init__(self, slug: str) -> None:
        super().__init__(f"There is no workspace {slug!r} in this database.")


class SessionNotFound(NotFound):
    """There is no session with this identifier in the workspace."""

    code = "session_not_found"
    hint = "Call start_session first, or check the id and the workspace."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"There is no session {session_id!r}.")


class RunNotFound(NotFound):
    """There is no run with this identifier in the workspace."""

    code = "run_not_found"
    hint = "Check the id and the workspace; the run may have been removed with its session."

    def __init__(self, run_id: object) -> None:
        self.run_id = str(run_id)
        super().__init__(f"There is no run {self.run_id!r}.")


class VersionNotFound(NotFound):
    """The session has no version with this number."""

    code = "version_not_found"
    hint = "list_checkpoints shows the versions there are."

    def __init__(self, session_id: str, version: int) -> None:
        self.session_id, self.version = session_id, version
        super().__init__(f"Session {session_id!r} has no version {version}.")


class CallNotFound(NotFound):
    """The session has no tool call with this identifier."""

    code = "call_not_found"
    hint = "Record the intent with record_tool_call_issued before its result; check the call id and the step."

    def __init__(self, session_id: str, call_id: str, step: int | None = None) -> None:
        self.session_id, self.call_id, self.step = session_id, call_id, step
        step_text = "" if step is None else f" in step {step}"
        super().__init__(f"Session {session_id!r} has no tool call {call_id!r}{step_text}.")


# Errors about the ownership of sessions


class OwnershipError(CheckpointsError):
    """Base of errors about the ownership of sessions."""

    code = "ownership_error"


class NotOwner(OwnershipError):
    """This client does not own the session it is to write to."""

    code = "not_owner"
    hint = "Call start_session or resume with this checkpointer first."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"This checkpointer does not own session {session_id!r}. Nothing was written.")


class AtGate(NotOwner):
    """This checkpointer has taken the session and waits for decisions before its run may continue."""

    code = "at_gate"
    hint = "Continue when the call to resume that waits has returned."

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.args = (f"The run of session {session_id!r} waits for decisions about its calls. Nothing was written.",)


class OpenedInAnotherProcess(NotOwner):
    """This checkpointer was opened in the process from which this one was forked, and can take no session here."""

    code = "opened_in_another_process"
    hint = "Open a checkpointer in each process, after the fork, with the same path or URL."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        CheckpointsError.__init__(
            self,
            f"This checkpointer was opened in another process and cannot own session {session_id!r} in this one. "
            "Nothing was written.",
        )


class ReleasedWhenIdle(NotOwner):
    """This checkpointer released the session by itself, because it was not used for a while."""

    code = "released_when_idle"
    hint = (
        "Resume it (resume, start_session or session) and go on from its last checkpoint; "
        "a larger idle_release_seconds keeps a session for longer."
    )

    def __init__(self, session_id: str) -> None:
        CheckpointsError.__init__(
            self,
            f"This checkpointer released session {session_id!r} because it was idle for longer than "
            "idle_release_seconds. Nothing was written.",
        )
        self.session_id = session_id


class SessionBusy(OwnershipError):
    """Another live run owns the session. `owner` describes it; both times are the database's."""

    code = "session_busy"
    hint = "Wait for it to finish, or take the session over with takeover=True if you know that it is gone."

    def __init__(self, session_id: str, owner: str, last_seen: datetime, lease_ends: datetime) -> None:
        self.session_id, self.owner, self.last_seen, self.lease_ends = session_id, owner, last_seen, lease_ends
        super().__init__(
            f"Session {session_id!r} is owned by {owner}, last seen {last_seen:%H:%M:%S}; "
            f"its lease ends {lease_ends:%H:%M:%S} UTC."
        )


class OwnershipLost(OwnershipError):
    """Another run has taken the session over."""

    code = "ownership_lost"
    hint = "Stop this run: another one goes on from the last checkpoint. Nothing was written."
    #: By this attribute, frameworks recognise a writer that another one has replaced.
    is_stale_write_owner_error = True

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"Another run has taken session {session_id!r} from this one.")


class SessionFinished(OwnershipError):
    """The session has ended."""

    code = "session_finished"
    hint = "resume returns its result; fork_session opens a new session from any of its versions."

    def __init__(self, session_id: str, status: str) -> None:
        self.session_id, self.status = session_id, status
        super().__init__(f"Session {session_id!r} is {status}. Nothing was written.")


class VersionConflict(CheckpointsError):
    """The session has a newer version than `expected`. `latest` is the version that was saved instead."""

    code = "version_conflict"
    hint = "Load the latest version and apply the change to it. Nothing was written."

    def __init__(self, session_id: str, expected: int, latest: int) -> None:
        self.session_id, self.expected, self.latest = session_id, expected, latest
        super().__init__(f"Session {session_id!r} is at version {latest}, not at {expected}.")


class CheckpointerClosed(CheckpointsError):
    """The client has been closed."""

    code = "checkpointer_closed"
    hint = "Open a new one. Nothing was done."

    def __init__(self) -> None:
        super().__init__("This checkpointer has been closed.")


# Errors about tool calls that cannot be made or settled


class CallError(CheckpointsError):
    """Base of errors about tool calls."""

    code = "call_error"


class CallConflict(CallError):
    """A call with this id exists in the step, with another tool or other arguments."""

    code = "call_conflict"
    hint = "Give each call of one step its own id. Nothing was run."

    def __init__(self, session_id: str, call_id: str, step: int) -> None:
        self.session_id, self.call_id, self.step = session_id, call_id, step
        super().__init__(
            f"Call {call_id!r} of step {step} in session {session_id!r} is already recorded with another tool or "
            "other arguments."
        )


class CallInProgress(CallError):
    """A call with the same idempotency key is running."""

    code = "call_in_progress"
    hint = "Wait for its result. Nothing was run."

    def __init__(self, session_id: str, call_id: str, tool: str) -> None:
        self.session_id, self.call_id, self.tool = session_id, call_id, tool
        super().__init__(f"{tool} is running as call {call_id!r} of session {session_id!r}.")


class CallInsideItself(CallInProgress):
    """A tool made the call that it runs for, directly or through other tools, and would wait for its own end."""

    code = "call_inside_itself"
    hint = "Nothing was run. Give the inner call other arguments, or the tool the idempotency policy 'call'."

    def __init__(self, session_id: str, call_id: str, tool: str) -> None:
        super().__init__(session_id, call_id, tool)
        self.args = (f"{tool} made the same call while it ran as call {call_id!r} of session {session_id!r}.",)


class CallAlreadySettled(CallError):
    """A call that is to be issued has an outcome already."""

    code = "call_already_settled"
    hint = "Use its stored result: find_completed_call returns it. Nothing was written."

    def __init__(self, session_id: str, call_id: str, status: str) -> None:
        self.session_id, self.call_id, self.status = session_id, call_id, status
        super().__init__(f"Call {call_id!r} of session {session_id!r} is already {status}.")


class LateResultRefused(CallError):
    """A result came after its call was settled or taken over; it is kept as evidence."""

    code = "late_result_refused"
    hint = "It was kept as evidence for whoever decides; it changed nothing."

    def __init__(self, session_id: str, call_id: str, status: str) -> None:
        self.session_id, self.call_id, self.status = session_id, call_id, status
        super().__init__(
            f"The result of call {call_id!r} in session {session_id!r} came too late or from a run that no longer "
            f"owns it: the call is {status}."
        )


class ReviewRequired(CallError):
    """Undecided calls hold the session. `calls` has one dict for each, as `check_pending_tool_calls` returns them."""

    code = "review_required"
    hint = "Decide them in the review queue or with confirm_landed, mark_failed or approve_rerun, then resume."

    def __init__(self, session_id: str, calls: Sequence[Mapping[str, Any]]) -> None:
        self.session_id, self.calls = session_id, [dict(call) for call in calls]
        names = ", ".join(f"{call['tool_name']} ({call['call_id']})" for call in self.calls)
        hook_reasons = [(call["call_id"], call["verify_reason"]) for call in self.calls if call.get("verify_reason")]
        reasons = "".join(
            f" The verify hook was asked about {call_id!r}: {reason}." for call_id, reason in hook_reasons
        )
        super().__init__(
            f"In session {session_id!r} it is unknown whether this happened: {names}. Nothing was run again.{reasons}"
        )


class ApprovalRequired(ReviewRequired):
    """A person has to approve calls before they run for the first time. `calls` as in `ReviewRequired`."""

    code = "approval_required"
    hint = "Decide in the review queue or with approve_call, edit_call, reject_call or respond_call, then resume."

    def __init__(self, session_id: str, calls: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(session_id, calls)
        names = ", ".join(f"{call['tool_name']} ({call['call_id']})" for call in self.calls)
        self.args = (f"In session {session_id!r} this waits for approval: {names}. Nothing was run.",)


class RegistryNotBound(CallError, ValueError):
    """A tool with side effects was called through a registry that has no session to log the call in."""

    code = "registry_not_bound"
    hint = (
        "Nothing was run. Bind the registry: ToolRegistry(checkpointer=cp, session_id=…), registry.bind(cp, session_id)"
        " or resume(session_id, registry). ToolRegistry(unlogged=True) runs such tools without a log."
    )

    def __init__(self, tool: str, missing: str) -> None:
        self.tool, self.missing = tool, missing
        super().__init__(f"{tool!r} has side effects, and its registry has no {missing} to log the call with.")


class ResultNotRecorded(CallError):
    """The tool has run, and its result could not be written."""

    code = "result_not_recorded"
    hint = "The call stays open and will be asked about on the next resume; the tool is not run again."

    def __init__(self, session_id: str, call_id: str, result: str) -> None:
        self.session_id, self.call_id, self.result = session_id, call_id, result
        super().__init__(f"Call {call_id!r} of session {session_id!r} ran, but its result could not be recorded.")


# Errors about decisions that were not recorded


class DecisionRefused(CheckpointsError):
    """Base of errors about decisions that were not recorded."""

    code = "decision_refused"


class NotPermitted(DecisionRefused):
    """The actor's role does not permit the action."""

    code = "not_permitted"
    hint = "Ask an approver of this workspace. Nothing was changed."

    def __init__(self, actor: str, action: str) -> None:
        self.actor = actor
        super().__init__(f"{actor} may not {action}.")


class ReasonRequired(DecisionRefused, ValueError):
    """A decision of a person or token has no reason."""

    code = "reason_required"
    hint = "Say why in a sentence: it is kept with your name. Nothing was changed."

    def __init__(self) -> None:
        super().__init__("A decision needs a reason.")


class AlreadyDecided(DecisionRefused):
    """Another person has already decided about the call; `by`, `at` and `kind` describe that decision."""

    code = "already_decided"
    hint = "Your decision was not recorded and changed nothing."

    def __init__(self, session_id: str, call_id: str, kind: str, by: str, at: datetime) -> None:
        self.session_id, self.call_id, self.kind, self.by, self.at = session_id, call_id, kind, by, at
        super().__init__(
            f"Call {call_id!r} of session {session_id!r} was decided by {by} at {at:%Y-%m-%d %H:%M:%S} UTC: {kind}."
        )


class DecisionExpired(DecisionRefused):
    """The deadline of the decision has passed; only an admin may decide."""

    code = "decision_expired"
    hint = "It has been escalated: an admin has to decide. Nothing was changed."

    def __init__(self, session_id: str, call_id: str, deadline: datetime) -> None:
        self.session_id, self.call_id, self.deadline = session_id, call_id, deadline
        super().__init__(
            f"The time to decide call {call_id!r} of session {session_id!r} ended at {deadline:%Y-%m-%d %H:%M:%S} UTC."
        )


class DecisionNotAccepted(DecisionRefused):
    """The agent's framework does not accept this kind of decision about the call; `allowed` are those it accepts."""

    code = "decision_not_accepted"
    hint = "Take one of the decisions that the agent accepts. Nothing was changed."

    def __init__(self, session_id: str, call_id: str, kind: str, allowed: Sequence[str]) -> None:
        self.session_id, self.call_id, self.kind, self.allowed = session_id, call_id, kind, list(allowed)
        super().__init__(
            f"The agent accepts {', '.join(self.allowed)} for call {call_id!r} of session {session_id!r}, not {kind}."
        )


class SecondPersonRequired(DecisionRefused):
    """The same person has decided so already, and another one has to agree."""

    code = "second_person_required"
    hint = "Somebody else has to agree. Nothing was changed."

    def __init__(self, session_id: str, call_id: str, actor: str) -> None:
        self.session_id, self.call_id, self.actor = session_id, call_id, actor
        super().__init__(f"{actor} has already decided so about call {call_id!r} of session {session_id!r}.")


class EditorMayNotApprove(DecisionRefused):
    """The person has changed the arguments that are to be approved."""

    code = "editor_may_not_approve"
    hint = "People who have not changed the arguments have to approve them. Nothing was changed."

    def __init__(self, session_id: str, call_id: str, actor: str) -> None:
        self.session_id, self.call_id, self.actor = session_id, call_id, actor
        super().__init__(f"{actor} has changed the arguments of call {call_id!r} of session {session_id!r}.")


class StaleRevision(DecisionRefused):
    """The call has changed since the revision the decision was made on: `given`, and now `current`.

    If they are equal, the decision named other arguments than those of that revision.
    """

    code = "stale_revision"
    hint = "Look at the call again before deciding. Nothing was changed."

    def __init__(self, session_id: str, call_id: str, given: int, current: int) -> None:
        self.session_id, self.call_id, self.given, self.current = session_id, call_id, given, current
        made_on = "other arguments than those" if given == current else str(given)
        super().__init__(
            f"Call {call_id!r} of session {session_id!r} is at revision {current}; the decision was made on {made_on}."
        )


class NotUndecided(DecisionRefused):
    """The call does not wait for this kind of decision."""

    code = "not_undecided"
    hint = "Only a call that waits for this kind of decision can be decided so. Nothing was changed."

    def __init__(self, session_id: str, call_id: str, status: str) -> None:
        self.session_id, self.call_id, self.status = session_id, call_id, status
        super().__init__(f"Call {call_id!r} of session {session_id!r} is {status}.")


class NothingToWithdraw(DecisionRefused):
    """The call has no decision of a person that is in force, nor one of the actor that waits for others."""

    code = "nothing_to_withdraw"
    hint = (
        "Only the decision of a person that is in force can be withdrawn, and while more people have to agree, "
        "one's own. Nothing was changed."
    )

    def __init__(self, session_id: str, call_id: str, status: str) -> None:
        self.session_id, self.call_id, self.status = session_id, call_id, status
        super().__init__(f"Call {call_id!r} of session {session_id!r} is {status}; no person's decision is in force.")


class DecisionUsed(DecisionRefused):
    """The run has used the decision, so it can no longer be withdrawn. `by`, `at` and `kind` say which one it is."""

    code = "decision_used"
    hint = (
        "The decision stands. Correct its effect outside of the session, or fork the session at a version before the "
        "call. Nothing was changed."
    )

    def __init__(self, session_id: str, call_id: str, kind: str, by: str, at: datetime) -> None:
        self.session_id, self.call_id, self.kind, self.by, self.at = session_id, call_id, kind, by, at
        super().__init__(
            f"The run of session {session_id!r} has already used the decision of {by} about call {call_id!r} "
            f"({kind}, {at:%Y-%m-%d %H:%M:%S} UTC)."
        )


# Errors about waiting for other agents


class PeerError(CheckpointsError):
    """Base of errors about waiting for other agents."""

    code = "peer_error"


class PausedForPeers(PeerError):
    """The session waits for other agents, or their responses are not used yet."""

    code = "paused_for_peers"
    hint = "Continue with take_paused when it is complete, or give it up with cancel_paused. Nothing was changed."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"Session {session_id!r} waits for other agents, or their answers are not used yet.")


class StillWaiting(PeerError):
    """No join is complete. `completed` and `total` count the calls of the joins that are open."""

    code = "still_waiting"
    hint = "accept_response tells one caller when a join is complete; list_paused(ready=True) shows what can be taken."

    def __init__(self, session_id: str, completed: int, total: int) -> None:
        self.session_id, self.completed, self.total = session_id, completed, total
        super().__init__(f"Session {session_id!r} still waits for other agents: {completed} of {total} calls are over.")


class NotPaused(PeerError):
    """The session does not wait for other agents."""

    code = "not_paused"
    hint = "resume goes on with a session that does not wait for other agents. Nothing was changed."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"Session {session_id!r} does not wait for other agents.")


class PeerCallExists(PeerError, ValueError):
    """A call to another agent with this identifier exists already in the workspace."""

    code = "peer_call_exists"
    hint = "Give each call to another agent an id of its own. Nothing was written."

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        super().__init__(f"There already is a call {call_id!r} to another agent in this workspace.")


class PeerCallNotFound(NotFound):
    """There is no call to another agent with this identifier."""

    code = "peer_call_not_found"
    hint = "Check the id and the workspace."

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        super().__init__(f"There is no call {call_id!r} to another agent.")


class PeerCallOver(PeerError):
    """The call to another agent has ended."""

    code = "peer_call_over"
    hint = "Nobody waits for it any more. Nothing was changed."

    def __init__(self, call_id: str, status: str) -> None:
        self.call_id, self.status = call_id, status
        super().__init__(f"Call {call_id!r} to another agent is {status}.")


class SecretsLocked(PeerError):
    """A secret cannot be encrypted or decrypted; it is never stored in clear."""

    code = "secrets_locked"
    hint = "Give every process of this workspace the same HARNESS_SECRET_KEY (or HARNESS_SECRET_KEY_FILE)."

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"{path} is a secret, and {why}.")


# Errors about workflow steps


class WorkflowError(CheckpointsError):
    """Base of errors about workflows."""

    code = "workflow_error"


class WorkflowNotFound(WorkflowError, NotFound):
    """The session has no workflow with this identifier."""

    code = "workflow_not_found"
    hint = "`workflow` of the run that owns the session creates it."

    def __init__(self, session_id: str, workflow_id: str) -> None:
        self.session_id, self.workflow_id = session_id, workflow_id
        super().__init__(f"Session {session_id!r} has no workflow {workflow_id!r}.")


class StepIdentityChanged(WorkflowError):
    """The logged step has another identity. `changed` names what differs: function, arguments, version."""

    code = "step_identity_changed"
    hint = "Give the new step an id of its own, or make it what it was. Nothing was run."

    def __init__(self, session_id: str, workflow_id: str, step_id: str, changed: Sequence[str], status: str) -> None:
        self.session_id, self.workflow_id, self.step_id = session_id, workflow_id, step_id
        self.changed, self.status = list(changed), status
        super().__init__(
            f"Step {step_id!r} of workflow {workflow_id!r} in session {session_id!r} is {status} with another "
            f"{', '.join(changed)}."
        )


class DuplicateStep(WorkflowError):
    """A step was requested twice in one pass through the workflow."""

    code = "duplicate_step"
    hint = "Each step of a pass needs an id of its own; open the workflow anew for another pass. Nothing was run."

    def __init__(self, session_id: str, workflow_id: str, step_id: str) -> None:
        self.session_id, self.workflow_id, self.step_id = session_id, workflow_id, step_id
        super().__init__(
            f"Step {step_id!r} of workflow {workflow_id!r} in session {session_id!r} was asked for twice in one pass."
        )


class StepRejected(WorkflowError):
    """A person rejected the step. `message` is the reason."""

    code = "step_rejected"
    hint = "Nothing was run."

    def __init__(self, session_id: str, workflow_id: str, step_id: str, message: str) -> None:
        self.session_id, self.workflow_id, self.step_id, self.message = session_id, workflow_id, step_id, message
        super().__init__(
            f"Step {step_id!r} of workflow {workflow_id!r} in session {session_id!r} was rejected: {message}"
        )


# Errors about session files


class FileError(CheckpointsError):
    """Base of errors about session files."""

    code = "file_error"

    def __init__(self, path: object, said: str) -> None:
        self.path = str(path)
        super().__init__(f"{self.path} {said}")


class FileNotReadable(FileError):
    """A session file cannot be read."""

    code = "file_not_readable"
    hint = "Check the path and its permissions. Nothing was imported."

    def __init__(self, path: object, why: str) -> None:
        super().__init__(path, f"cannot be read: {why}.")


class FileNotWritten(FileError):
    """A session file could not be written; one that was there is unchanged."""

    code = "file_not_written"
    hint = "The file is as it was before, and the session in the database is not touched by this."

    def __init__(self, path: object, why: str) -> None:
        super().__init__(path, f"could not be written: {why}.")


class FileDamaged(FileError):
    """A file is not a complete session."""

    code = "file_damaged"
    hint = "Use another copy of it. Nothing was imported."

    def __init__(self, path: object, why: str) -> None:
        super().__init__(path, f"is not a whole session: {why}.")


class WrongSession(FileError):
    """The file holds another session than the one that was asked for."""

    code = "wrong_session"
    hint = "Nothing was imported."

    def __init__(self, path: object, found: str, wanted: str) -> None:
        self.found, self.wanted = found, wanted
        super().__init__(path, f"holds session {found!r}, not {wanted!r}.")


class WrongWorkspace(FileError):
    """The file is of another workspace, where its idempotency keys would not be recognised."""

    code = "wrong_workspace"
    hint = "Import it into a workspace of the same name. Nothing was imported."

    def __init__(self, path: object, found: str, wanted: str) -> None:
        self.found, self.wanted = found, wanted
        super().__init__(path, f"holds a session of the workspace {found!r}, not of {wanted!r}.")


class ImportConflict(FileError):
    """A row of the session exists in the database already, under another session."""

    code = "import_conflict"
    hint = "Nothing was imported."

    def __init__(self, path: object, why: str) -> None:
        super().__init__(path, f"cannot be imported: {why}.")


# Errors of the database


class StorageError(CheckpointsError):
    """The database failed. `may_have_happened` says whether the write may be there in spite of it."""

    code = "storage_error"

    def __init__(self, what: str, *, may_have_happened: bool) -> None:
        self.what, self.may_have_happened = what, may_have_happened
        effect = (
            "The write may have happened: read back before repeating it."
            if may_have_happened
            else ("Nothing was written.")
        )
        super().__init__(f"{what} {effect}")


class StorageUnavailable(StorageError):
    """The database cannot be reached, or the connection was lost."""

    code = "storage_unavailable"
    hint = "Check that the database is running and reachable; the next operation opens a new connection."


class ConnectionFailed(StorageUnavailable):
    """The database server refused the connection, or there is no server."""

    code = "connection_failed"
    hint = "Check host, port, database name, user and password, and that the server is running."


class StorageBusy(StorageError):
    """Another writer held a lock for too long, or a deadlock was resolved."""

    code = "storage_busy"
    hint = (
        "Another writer held the database too long. Try again; on SQLite, not while a transaction.atomic() block of "
        "this program is open: it keeps every other connection from writing until it ends."
    )


class StorageReadOnly(StorageError):
    """The database cannot be written to."""

    code = "storage_read_only"
    hint = "Make the database file and its folder writable."


class StorageFull(StorageError):
    """The disk of the database is full."""

    code = "storage_full"
    hint = "Free disk space; nothing else needs to be repaired."


class InsideTransaction(CheckpointsError):
    """A transaction of the caller is open on the connection, so that nothing written now would be durable."""

    code = "inside_transaction"
    hint = (
        "Move the call out of the transaction.atomic() block, decorate the view with "
        "transaction.non_atomic_requests, or give the library a connection of its own: on PostgreSQL a second alias "
        "in DATABASES and Checkpointer(using=…). Nothing was written or run."
    )

    def __init__(self, using: str, why: str = "a transaction of the caller is open on it") -> None:
        self.using = using
        super().__init__(f"What is written through the connection {using!r} would not be durable: {why}.")


class BlockingCallInAsyncCode(CheckpointsError):
    """A blocking method was called on the thread of a running event loop."""

    code = "blocking_call_in_async_code"
    hint = (
        "Use checkpoints.Checkpointer there, whose methods are awaited, or call this from a thread: "
        "asyncio.to_thread(…). Nothing was written."
    )

    def __init__(self) -> None:
        super().__init__("SyncCheckpointer blocks, and this is the thread of a running event loop.")


class DatabaseNotConfigured(CheckpointsError):
    """Django has no usable database under this alias."""

    code = "database_not_configured"
    hint = (
        "In a Django project add the alias to DATABASES (checkpoints.database_url.database_from_url makes the entry); "
        'in a plain script open the database by path or URL: Checkpointer("agent.db").'
    )

    def __init__(self, using: str, why: str) -> None:
        self.using = using
        super().__init__(f"There is no database to use under the alias {using!r}: {why}.")


class DriverMissing(CheckpointsError):
    """The Python package that talks to this kind of database is not installed."""

    code = "driver_missing"
    hint = "Install it with its connection pool: pip install 'psycopg[binary,pool]'."

    def __init__(self, using: str, why: str) -> None:
        self.using = using
        super().__init__(f"The database under the alias {using!r} cannot be opened: {why}.")


class DjangoMissing(CheckpointsError, ImportError):
    """Django is not installed, and a database of this process was asked for."""

    code = "django_missing"
    hint = (
        "Install it: pip install 'django>=5.2'. An agent whose sessions are on a server needs none: "
        'Checkpointer("https://…", token=…).'
    )

    def __init__(self) -> None:
        super().__init__("A database of this process needs Django, which is not installed.")


class FrameworkNotSupported(CheckpointsError, ImportError):
    """An agent framework is missing, or its version is not one that its adapter is made for."""

    code = "framework_not_supported"
    hint = "Install a version in that range: its adapter may lose something with another one."

    def __init__(self, package: str, installed: str, wanted: str) -> None:
        self.package, self.installed, self.wanted = package, installed, wanted
        found = f"version {installed} is installed" if installed else "it is not installed"
        super().__init__(f"The adapter needs {package}{wanted}, and {found}.")


class NotDurable(CheckpointsError):
    """Versions that were handed in to be written behind are not in the database.

    `unsaved` has one dict for each: session_id, phase, step, messages, waited_seconds, kept_back.
    """

    code = "not_durable"
    hint = "Nothing of these is durable: do not call the work completed. Save again once the cause is gone."

    def __init__(self, unsaved: Sequence[Mapping[str, Any]], why: str) -> None:
        self.unsaved = [dict(version) for version in unsaved]
        sessions = ", ".join(
            repr(session_id) for session_id in dict.fromkeys(version["session_id"] for version in unsaved)
        )
        super().__init__(f"{len(self.unsaved)} versions of session {sessions} are not durable: {why}")


class MigrationsMissing(StorageError):
    """The tables are missing or older than this code."""

    code = "migrations_missing"
    hint = (
        "Run `harness migrate` with the same HARNESS_DATABASE_URL (in a Django project: `manage.py migrate`), "
        "or open the database with migrate=True."
    )


# Errors about stored data that cannot be used


class CheckpointCorrupted(CheckpointsError):
    """A stored record is damaged. Nothing was run."""

    code = "checkpoint_corrupted"
    hint = "Nothing was run. Load an earlier version or fork from one."

    def __init__(self, session_id: str, field: str, why: str) -> None:
        self.session_id, self.field = session_id, field
        super().__init__(f"In session {session_id!r}, {field} is damaged: {why}.")


class SchemaFromFuture(CheckpointsError):
    """A newer version of this library wrote the record: schema `found`, where `known` is the newest known one."""

    code = "schema_from_future"
    hint = "Upgrade this process before it touches the session. Nothing was run."

    def __init__(self, session_id: str, found: int, known: int) -> None:
        self.session_id, self.found, self.known = session_id, found, known
        super().__init__(f"Session {session_id!r} was written with schema {found}; this code knows up to {known}.")


# Errors of the HTTP API


class ApiError(CheckpointsError):
    """Base of errors that only the HTTP API has, and its client with it."""

    code = "api_error"


class TokenInvalid(ApiError):
    """The request has no token, or one that is unknown, revoked or expired."""

    code = "token_invalid"
    hint = "Create a token in the settings of the site, and send it as Authorization: Bearer <token>."

    def __init__(self) -> None:
        super().__init__("The request has no valid token. Nothing was done.")


class RoleInsufficient(ApiError):
    """The token's role does not cover the operation."""

    code = "role_insufficient"
    hint = "Use a token with one of these roles. Nothing was done."

    def __init__(self, role: str, needed: Sequence[str]) -> None:
        self.role, self.needed = role, list(needed)
        super().__init__(f"A token with the role {role!r} does not cover this; it takes {' or '.join(needed)}.")


class RouteNotFound(ApiError):
    """The API has no such path, or the path does not take the method."""

    code = "route_not_found"
    hint = "/api/v1/openapi.json lists the paths. Nothing was done."

    def __init__(self, method: str, path: str) -> None:
        self.method, self.path = method, path
        super().__init__(f"There is no {method} {path}.")


class MalformedRequest(ApiError, ValueError):
    """The body of a request is no JSON object that the API reads."""

    code = "malformed_request"
    hint = "Send one JSON object in UTF-8, without NaN or Infinity. Nothing was done."

    def __init__(self, why: str) -> None:
        super().__init__(f"The body of the request cannot be read: {why}.")


class InvalidFields(InvalidInput):
    """Fields of a request are missing, unknown or of another type. `fields` has the problem of each by its path."""

    code = "invalid_fields"
    hint = "/api/v1/openapi.json describes the fields. Nothing was done."

    def __init__(self, fields: Mapping[str, str]) -> None:
        self.fields = dict(fields)
        super().__init__("; ".join(f"{name}: {problem.removesuffix('.')}" for name, problem in fields.items()) + ".")


class RateLimited(ApiError):
    """The token has made too many requests. `retry_after` is in seconds."""

    code = "rate_limited"
    hint = "Wait before the next request. Nothing was done."

    def __init__(self, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(f"This token has made too many requests; the next one may come in {retry_after:g} seconds.")


class IdempotencyKeyReused(ApiError, ValueError):
    """An `Idempotency-Key` came with another request than the first time."""

    code = "idempotency_key_reused"
    hint = "Use a new key for each request, and the same one only to repeat a request. Nothing was done."

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"The Idempotency-Key {key!r} was used for another request.")


class RequestInProgress(ApiError):
    """A request with the same `Idempotency-Key` is being served."""

    code = "request_in_progress"
    hint = "Repeat the request with the same key to get its answer."

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"The request with the Idempotency-Key {key!r} is still being served.")


class PreconditionFailed(ApiError):
    """The resource is not what `If-Match` names."""

    code = "precondition_failed"
    hint = "Read it again, and decide again. Nothing was done."

    def __init__(self, expected: str, current: str) -> None:
        self.expected, self.current = expected, current
        super().__init__(f"If-Match names {expected}, and the resource is at {current}.")


class NotOverHttp(ApiError):
    """The operation needs a database and is not available to a client over HTTP."""

    code = "not_over_http"
    hint = 'Open the database itself for this: Checkpointer("postgresql://…").'

    def __init__(self, operation: str) -> None:
        super().__init__(f"{operation} is not available over HTTP.")


class ServerUnavailable(StorageUnavailable):
    """The server cannot be reached, or it gave no answer."""

    code = "server_unavailable"
    hint = "Check the address, the network and the server; the next operation connects again."


class ServerFailed(StorageError):
    """The server failed in a way that its answer does not explain; its log has the reason."""

    code = "server_failed"
    hint = "The log of the server says why."


# Errors about seals


class SealError(CheckpointsError):
    """Base of errors about seals. Nothing was run, and nothing of the row was returned."""

    code = "seal_error"


class IntegrityError(SealError):
    """A stored row is not one that this library wrote, or not in this place.

    `table` and `row` name it, `why` says what does not match. `is_alteration` says whether the row was altered for
    certain, so that its session is put under quarantine; the alternative is that something is not set up yet.
    `session_pk` is the key of the session with the row, if it is another one than that of the operation.
    """

    code = "integrity_error"
    is_alteration: ClassVar[bool] = True
    session_pk: int | None = None
    hint = (
        "Nothing was run. Compare the row with a backup: somebody has changed the database without this library, or "
        "it is damaged."
    )

    def __init__(self, table: str, row: str, why: str) -> None:
        self.table, self.row, self.why = table, row, why
        super().__init__(f"Row {row} of {table} was not written by this library: {why}.")


class RowNotSealed(IntegrityError):
    """A stored row has no seal, and the configuration requires one."""

    code = "row_not_sealed"
    is_alteration = False
    hint = (
        "Nothing was run. Rows from before sealing are sealed once by `manage.py seal_sessions`; until then "
        "HARNESS_SEAL_REQUIRED=0 accepts them. If all rows were sealed, somebody has removed or invented one."
    )

    def __init__(self, table: str, row: str) -> None:
        super().__init__(table, row, "it has no seal")


class DecisionNotSigned(IntegrityError):
    """Something depends on a decision of a person, and the site has not signed it, or there is none.

    `table` and `row` name the decision, or the call that has a status which only a person's decision gives.
    """

    code = "decision_not_signed"
    hint = (
        "Nothing was run. If the decision is from before signing, sign it once on the site with `manage.py "
        "sign_decisions`. If not, somebody has written it without the site: restore the rows, or delete the session."
    )

    def __init__(self, table: str, row: str, why: str = "the site has not signed it") -> None:
        super().__init__(table, row, why)


class DecisionSignatureInvalid(IntegrityError):
    """A decision is not as the site has signed it, was signed for another place, or its call does not follow it."""

    code = "decision_signature_invalid"
    hint = (
        "Nothing was run. Somebody has changed the decision or its call, or has copied it from elsewhere. Restore the "
        "rows from a backup and release the session, or delete the session."
    )

    def __init__(self, table: str, row: str, why: str = "its signature is not of these columns in this place") -> None:
        super().__init__(table, row, why)


class DecisionKeyUnknown(IntegrityError):
    """A decision was signed with a key that this process does not know. `key_id` names it, `known` those it knows."""

    code = "decision_key_unknown"
    is_alteration = False
    hint = (
        "Nothing was run. If the site has a new key, or had this one before, add its public key to "
        "HARNESS_DECISION_VERIFY_KEYS of this process. If not, somebody else has signed the decision."
    )

    def __init__(self, table: str, row: str, key_id: str, known: list[str]) -> None:
        self.key_id, self.known = key_id, known
        why = f"it is signed with the key {key_id}, and the configured keys are {', '.join(known)}"
        super().__init__(table, row, why)


class SessionQuarantined(SealError):
    """The session has a row that this library did not write, and stands still until an admin releases it."""

    code = "session_quarantined"
    hint = (
        "Nothing was run. The session's page and `manage.py verify_integrity --session` name the rows. After they were "
        "restored, an admin releases the session there or by release_quarantine."
    )

    def __init__(self, session_id: str, since: datetime) -> None:
        self.session_id, self.since = session_id, since
        super().__init__(f"Session {session_id!r} is quarantined since {since:%Y-%m-%d %H:%M} UTC.")


class NotQuarantined(SealError):
    """The session is not quarantined, so there is nothing to release."""

    code = "not_quarantined"
    hint = "Read the session again: somebody else may have released it. Nothing was changed."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"Session {session_id!r} is not quarantined.")


class QuarantineStays(SealError):
    """A quarantined session still has rows that this library did not write. `table` and `row` name the first of them.

    `count` is their number.
    """

    code = "quarantine_stays"
    hint = (
        "Restore the rows from a backup and release the session then. accept_altered=True seals rows as they are; an "
        "altered transcript can only be restored, or the session be deleted. Nothing was changed."
    )

    def __init__(self, session_id: str, count: int, table: str, row: str) -> None:
        self.session_id, self.count, self.table, self.row = session_id, count, table, row
        super().__init__(f"Session {session_id!r} stays quarantined: row {row} of {table} does not match.")


class WitnessError(SealError):
    """Base of errors about the witness, which keeps the newest heads of sessions outside the database."""

    code = "witness_error"


class WitnessUnreachable(WitnessError):
    """The database with the witness does not answer, or refuses what is noted in it. `path` names it."""

    code = "witness_unreachable"
    hint = (
        "Nothing was written. Look whether the database that HARNESS_WITNESS names runs, whether this machine reaches "
        "it, and whether its role may insert and read; then try again."
    )

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"The witness {path} does not answer ({why}).")


class WitnessMissing(WitnessError):
    """The file or the table of the witness is not there, or cannot be used. `path` names it."""

    code = "witness_missing"
    hint = (
        "Nothing was run. Put the witness back. If it is lost, or this is the first time: `manage.py witness create "
        "--reason …` makes one from what the database holds now, and records that."
    )

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"The witness {path} cannot be used ({why}).")


class WitnessTruncated(WitnessError):
    """The witness is shorter than it was: `before` and `now` are its sizes, in bytes, files or rows."""

    code = "witness_truncated"
    hint = (
        "Nothing was run. Put the whole witness back. If it is lost, move the rest away and run `manage.py witness "
        "create --reason …`, which takes what the database holds now as the newest state, and records that."
    )

    def __init__(self, path: str, before: int, now: int, unit: str = "bytes") -> None:
        self.path, self.before, self.now = path, before, now
        super().__init__(f"The witness {path} had {before} {unit} and has {now}: somebody has truncated it.")


class WitnessDamaged(WitnessError):
    """A line of the witness was not written by this library.

    `position` is the byte at which it begins, or the key of its row.
    """

    code = "witness_damaged"
    hint = (
        "Nothing was run. Put a good copy of the witness back, or give this process the key that wrote the line. If "
        "there is none, move the witness away and run `manage.py witness create --reason …`."
    )

    def __init__(self, path: str, position: int, unit: str = "byte") -> None:
        self.path, self.position = path, position
        place = "at byte" if unit == "byte" else f"in {unit}"
        super().__init__(f"The witness {path} has a line {place} {position} that this library did not write.")


class WitnessAhead(WitnessError):
    """The witness knows a newer state of the session than the database: an old copy of it was put back.

    `known` is the number of the write that the witness knows, `stored` the one that the database has.
    """

    code = "witness_ahead"
    hint = (
        "Nothing was run. If nobody has restored a backup, somebody has put the database back. After an intended "
        "restore, `manage.py witness adopt --all --reason …` takes what the database holds as the newest state."
    )

    def __init__(self, session_id: str, known: int, stored: int) -> None:
        self.session_id, self.known, self.stored = session_id, known, stored
        super().__init__(
            f"Session {session_id!r} is at write {stored} in the database, and the witness knows write {known}."
        )


class WitnessBehind(WitnessError):
    """The witness does not know the stored state of the session: it was lost or put back, or was not used for a write.

    `known` is the number of the last write that the witness knows, -1 for none, `stored` the one in the database.
    """

    code = "witness_behind"
    hint = (
        "Nothing was run. Put the newest copy of the witness back, and give HARNESS_WITNESS to every process. After a "
        "power failure, or if the witness is lost, `manage.py witness adopt --session … --reason …` takes what the "
        "database holds as the newest state."
    )

    def __init__(self, session_id: str, known: int, stored: int) -> None:
        self.session_id, self.known, self.stored = session_id, known, stored
        super().__init__(
            f"Session {session_id!r} is at write {stored} in the database, and the witness ends at write {known}."
        )


class SealKeyMissing(SealError):
    """A seal was made with a key that this process does not have.

    `key_id` is the id of that key; None if this process has no key at all.
    """

    code = "seal_key_missing"
    hint = (
        "Give every process HARNESS_SEAL_KEY or HARNESS_SEAL_KEY_FILE, with the former keys after the present one. "
        "Nothing was run."
    )

    def __init__(self, why: str, key_id: str | None = None) -> None:
        self.key_id = key_id
        super().__init__(f"Seals cannot be verified: {why}.")


class SealKeyInvalid(SealError):
    """A configured key of seals cannot be used."""

    code = "seal_key_invalid"
    hint = 'Make a key with: python -c "import secrets; print(secrets.token_hex(32))". Nothing was run.'

    def __init__(self, why: str) -> None:
        super().__init__(f"The keys of seals cannot be used: {why}.")


class DecisionSigningKeyMissing(SealError):
    """This process requires signed decisions, and cannot sign one of a person. `kind` is that of the decision."""

    code = "decision_signing_key_missing"
    hint = (
        "Nothing was recorded. Decide on the site, by its HTTP API or on its host: only the site has "
        "HARNESS_DECISION_SIGNING_KEY."
    )

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(f"The decision {kind!r} has to be signed, and this process has no signing key.")


class DecisionKeyInvalid(SealError):
    """A configured key of the signatures of decisions cannot be used."""

    code = "decision_key_invalid"
    hint = "`manage.py make_decision_keys` makes a pair of keys and prints both settings. Nothing was run."

    def __init__(self, why: str) -> None:
        super().__init__(f"The keys of decisions cannot be used: {why}.")
