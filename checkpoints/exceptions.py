"""Every error this library raises. Each says what happened, to what, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any


class CheckpointsError(Exception):
    """Base of all errors of this library. `code` names the class in machine-readable places."""

    code = "checkpoints_error"
    hint = ""

    def __str__(self) -> str:
        said = super().__str__()
        return f"{said} {self.hint}" if self.hint else said

    @property
    def detail(self) -> str:
        """What happened, without the hint."""
        return super().__str__()


# What was asked for does not exist


class NotFound(CheckpointsError):
    code = "not_found"


class WorkspaceNotFound(NotFound):
    code = "workspace_not_found"
    hint = "Create it, or use the workspace `default`."

    def __init__(self, slug: str) -> None:
        super().__init__(f"There is no workspace {slug!r} in this database.")


class SessionNotFound(NotFound):
    code = "session_not_found"
    hint = "Call start_session first, or check the id and the workspace."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"There is no session {session_id!r}.")


class RunNotFound(NotFound):
    code = "run_not_found"
    hint = "Check the id and the workspace; the run may have been removed with its session."

    def __init__(self, run_id: object) -> None:
        self.run_id = str(run_id)
        super().__init__(f"There is no run {self.run_id!r}.")


class VersionNotFound(NotFound):
    code = "version_not_found"
    hint = "list_checkpoints shows the versions there are."

    def __init__(self, session_id: str, version: int) -> None:
        self.session_id, self.version = session_id, version
        super().__init__(f"Session {session_id!r} has no version {version}.")


class CallNotFound(NotFound):
    code = "call_not_found"
    hint = "Record the intent with record_tool_call_issued before its result; check the call id and the step."

    def __init__(self, session_id: str, call_id: str, step: int | None = None) -> None:
        self.session_id, self.call_id, self.step = session_id, call_id, step
        where = "" if step is None else f" in step {step}"
        super().__init__(f"Session {session_id!r} has no tool call {call_id!r}{where}.")


# What was given cannot be taken


class InvalidInput(CheckpointsError, ValueError):
    code = "invalid_input"


class InvalidIdentifier(InvalidInput):
    code = "invalid_identifier"
    hint = "Use 1 to 255 characters of text without control characters."

    def __init__(self, kind: str, value: object, why: str) -> None:
        super().__init__(f"{value!r} cannot be a {kind}: {why}.")


class NotRepresentable(InvalidInput):
    """A value has no exact JSON form. Nothing was written."""

    code = "not_representable"
    hint = "Convert it to text, a finite number, a list or a dict with text keys before saving. Nothing was written."

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"{path} cannot be kept exactly: {why}.")


class InvalidArguments(InvalidInput):
    code = "invalid_arguments"
    hint = "Nothing was run."

    def __init__(self, tool: str, why: str) -> None:
        self.tool = tool
        super().__init__(f"The arguments for {tool!r} cannot be used: {why}.")


class TooLarge(InvalidInput):
    code = "too_large"
    hint = "Nothing was written. Keep large data outside and store a reference to it."

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what} has {size:,} bytes; {limit:,} is the most.")


class InvalidDatabaseUrl(InvalidInput):
    code = "invalid_database_url"
    hint = "Use sqlite:///file.db, a path, or postgresql://user:password@host:port/name."

    def __init__(self, why: str) -> None:
        super().__init__(f"The database cannot be opened: {why}.")


class SessionExists(InvalidInput):
    code = "session_exists"
    hint = "Choose an id that is not taken. Nothing was written."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"There already is a session {session_id!r}.")


class StillNeeded(CheckpointsError):
    """What should be removed is needed to go on."""

    code = "still_needed"
    hint = "Nothing was removed."

    def __init__(self, session_id: str, why: str) -> None:
        self.session_id = session_id
        super().__init__(f"Session {session_id!r}: {why}.")


# What is stored cannot be used


class CheckpointCorrupted(CheckpointsError):
    """A stored record is damaged. Nothing was run."""

    code = "checkpoint_corrupted"
    hint = "Nothing was run. Load an earlier version or fork from one."

    def __init__(self, session_id: str, field: str, why: str) -> None:
        self.session_id, self.field = session_id, field
        super().__init__(f"In session {session_id!r}, {field} is damaged: {why}.")


class SchemaFromFuture(CheckpointsError):
    code = "schema_from_future"
    hint = "Upgrade this process before it touches the session. Nothing was run."

    def __init__(self, session_id: str, found: int, known: int) -> None:
        self.session_id, self.found, self.known = session_id, found, known
        super().__init__(f"Session {session_id!r} was written with schema {found}; this code knows up to {known}.")


# Ownership


class OwnershipError(CheckpointsError):
    code = "ownership_error"


class NotOwner(OwnershipError):
    code = "not_owner"
    hint = "Call start_session or resume with this checkpointer first."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"This checkpointer does not own session {session_id!r}. Nothing was written.")


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
    code = "ownership_lost"
    hint = "Stop this run: another one goes on from the last checkpoint. Nothing was written."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"Another run has taken session {session_id!r} from this one.")


class SessionFinished(OwnershipError):
    code = "session_finished"
    hint = "resume returns its result; fork_session opens a new session from any of its versions."

    def __init__(self, session_id: str, status: str) -> None:
        self.session_id, self.status = session_id, status
        super().__init__(f"Session {session_id!r} is {status}. Nothing was written.")


class VersionConflict(CheckpointsError):
    """The session has moved on since `expected`. `latest` is the version that won."""

    code = "version_conflict"
    hint = "Load the latest version and apply the change to it. Nothing was written."

    def __init__(self, session_id: str, expected: int, latest: int) -> None:
        self.session_id, self.expected, self.latest = session_id, expected, latest
        super().__init__(f"Session {session_id!r} is at version {latest}, not at {expected}.")


class CheckpointerClosed(CheckpointsError):
    code = "checkpointer_closed"
    hint = "Open a new one. Nothing was done."

    def __init__(self) -> None:
        super().__init__("This checkpointer has been closed.")


# Tool calls


class CallError(CheckpointsError):
    code = "call_error"


class CallConflict(CallError):
    code = "call_conflict"
    hint = "Give each call of one step its own id. Nothing was run."

    def __init__(self, session_id: str, call_id: str, step: int) -> None:
        self.session_id, self.call_id, self.step = session_id, call_id, step
        super().__init__(
            f"Call {call_id!r} of step {step} in session {session_id!r} is already recorded with another tool or "
            "other arguments."
        )


class CallInProgress(CallError):
    code = "call_in_progress"
    hint = "Wait for its result. Nothing was run."

    def __init__(self, session_id: str, call_id: str, tool: str) -> None:
        self.session_id, self.call_id, self.tool = session_id, call_id, tool
        super().__init__(f"{tool} is running as call {call_id!r} of session {session_id!r}.")


class CallAlreadySettled(CallError):
    code = "call_already_settled"
    hint = "Use its stored result: find_completed_call returns it. Nothing was written."

    def __init__(self, session_id: str, call_id: str, status: str) -> None:
        self.session_id, self.call_id, self.status = session_id, call_id, status
        super().__init__(f"Call {call_id!r} of session {session_id!r} is already {status}.")


class LateResultRefused(CallError):
    code = "late_result_refused"
    hint = "It was kept as evidence for whoever decides; it changed nothing."

    def __init__(self, session_id: str, call_id: str, status: str) -> None:
        self.session_id, self.call_id, self.status = session_id, call_id, status
        super().__init__(
            f"The result of call {call_id!r} in session {session_id!r} came too late or from a run that no longer "
            f"owns it: the call is {status}."
        )


class ReviewRequired(CallError):
    """Calls whose outcome nobody knows hold the session. `calls` has one dict for each, as
    `check_pending_tool_calls` returns them."""

    code = "review_required"
    hint = "Decide them on the review page or with confirm_landed, mark_failed or approve_rerun, then resume."

    def __init__(self, session_id: str, calls: Sequence[Mapping[str, Any]]) -> None:
        self.session_id, self.calls = session_id, [dict(call) for call in calls]
        named = ", ".join(f"{call['tool_name']} ({call['call_id']})" for call in self.calls)
        super().__init__(
            f"In session {session_id!r} it is unknown whether this happened: {named}. Nothing was run again."
        )


class ApprovalRequired(ReviewRequired):
    """Calls that a person has to approve before they run for the first time. `calls` as in `ReviewRequired`."""

    code = "approval_required"
    hint = "Decide on the review page or with approve_call, edit_call, reject_call or respond_call, then resume."

    def __init__(self, session_id: str, calls: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(session_id, calls)
        named = ", ".join(f"{call['tool_name']} ({call['call_id']})" for call in self.calls)
        self.args = (f"In session {session_id!r} this waits for approval: {named}. Nothing was run.",)


# Workflows


class WorkflowError(CheckpointsError):
    code = "workflow_error"


class StepIdentityChanged(WorkflowError):
    """The step that happened was another one. `changed` names what differs: function, arguments, version."""

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
    code = "duplicate_step"
    hint = "Each step of a pass needs an id of its own; open the workflow anew for another pass. Nothing was run."

    def __init__(self, session_id: str, workflow_id: str, step_id: str) -> None:
        self.session_id, self.workflow_id, self.step_id = session_id, workflow_id, step_id
        super().__init__(
            f"Step {step_id!r} of workflow {workflow_id!r} in session {session_id!r} was asked for twice in one pass."
        )


class StepRejected(WorkflowError):
    """A person did not let the step run. `message` is what they said."""

    code = "step_rejected"
    hint = "Nothing was run."

    def __init__(self, session_id: str, workflow_id: str, step_id: str, message: str) -> None:
        self.session_id, self.workflow_id, self.step_id, self.message = session_id, workflow_id, step_id, message
        super().__init__(
            f"Step {step_id!r} of workflow {workflow_id!r} in session {session_id!r} was rejected: {message}"
        )


# Files


class FileError(CheckpointsError):
    code = "file_error"

    def __init__(self, path: object, said: str) -> None:
        self.path = str(path)
        super().__init__(f"{self.path} {said}")


class FileNotReadable(FileError):
    code = "file_not_readable"
    hint = "Check the path and its permissions. Nothing was imported."

    def __init__(self, path: object, why: str) -> None:
        super().__init__(path, f"cannot be read: {why}.")


class FileNotWritten(FileError):
    code = "file_not_written"
    hint = "The file is as it was before, and the session in the database is not touched by this."

    def __init__(self, path: object, why: str) -> None:
        super().__init__(path, f"could not be written: {why}.")


class FileDamaged(FileError):
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
    """The effects of a session are known by keys that name its workspace; elsewhere they would not be recognised."""

    code = "wrong_workspace"
    hint = "Import it into a workspace of the same name. Nothing was imported."

    def __init__(self, path: object, found: str, wanted: str) -> None:
        self.found, self.wanted = found, wanted
        super().__init__(path, f"holds a session of the workspace {found!r}, not of {wanted!r}.")


class ImportConflict(FileError):
    """Something of the session is in the database already, under another session."""

    code = "import_conflict"
    hint = "Nothing was imported."

    def __init__(self, path: object, why: str) -> None:
        super().__init__(path, f"cannot be imported: {why}.")


# Decisions


class DecisionRefused(CheckpointsError):
    code = "decision_refused"


class NotPermitted(DecisionRefused):
    code = "not_permitted"
    hint = "Ask an approver of this workspace. Nothing was changed."

    def __init__(self, actor: str, action: str) -> None:
        self.actor = actor
        super().__init__(f"{actor} may not {action}.")


class ReasonRequired(DecisionRefused, ValueError):
    code = "reason_required"
    hint = "Say why in a sentence: it is kept with your name. Nothing was changed."

    def __init__(self) -> None:
        super().__init__("A decision needs a reason.")


class AlreadyDecided(DecisionRefused):
    code = "already_decided"
    hint = "Your decision was not recorded and changed nothing."

    def __init__(self, session_id: str, call_id: str, kind: str, by: str, at: datetime) -> None:
        self.session_id, self.call_id, self.kind, self.by, self.at = session_id, call_id, kind, by, at
        super().__init__(
            f"Call {call_id!r} of session {session_id!r} was decided by {by} at {at:%Y-%m-%d %H:%M:%S} UTC: {kind}."
        )


class DecisionExpired(DecisionRefused):
    code = "decision_expired"
    hint = "It has been escalated: an admin has to decide. Nothing was changed."

    def __init__(self, session_id: str, call_id: str, deadline: datetime) -> None:
        self.session_id, self.call_id, self.deadline = session_id, call_id, deadline
        super().__init__(
            f"The time to decide call {call_id!r} of session {session_id!r} ended at {deadline:%Y-%m-%d %H:%M:%S} UTC."
        )


class SecondPersonRequired(DecisionRefused):
    code = "second_person_required"
    hint = "Somebody else has to agree. Nothing was changed."

    def __init__(self, session_id: str, call_id: str, actor: str) -> None:
        self.session_id, self.call_id, self.actor = session_id, call_id, actor
        super().__init__(f"{actor} has already decided so about call {call_id!r} of session {session_id!r}.")


class StaleRevision(DecisionRefused):
    code = "stale_revision"
    hint = "Look at the call again before deciding. Nothing was changed."

    def __init__(self, session_id: str, call_id: str, given: int, current: int) -> None:
        self.session_id, self.call_id, self.given, self.current = session_id, call_id, given, current
        super().__init__(
            f"Call {call_id!r} of session {session_id!r} is at revision {current}; the decision was made on {given}."
        )


class NotUndecided(DecisionRefused):
    code = "not_undecided"
    hint = "Only a call that waits for this kind of decision can be decided so. Nothing was changed."

    def __init__(self, session_id: str, call_id: str, status: str) -> None:
        self.session_id, self.call_id, self.status = session_id, call_id, status
        super().__init__(f"Call {call_id!r} of session {session_id!r} is {status}.")


# The database


class StorageError(CheckpointsError):
    """The database failed. `may_have_happened` says whether the write may be there in spite of it."""

    code = "storage_error"

    def __init__(self, what: str, *, may_have_happened: bool) -> None:
        self.what, self.may_have_happened = what, may_have_happened
        said = (
            "The write may have happened: read back before repeating it."
            if may_have_happened
            else ("Nothing was written.")
        )
        super().__init__(f"{what} {said}")


class StorageUnavailable(StorageError):
    code = "storage_unavailable"
    hint = "Check that the database is running and reachable; the next operation opens a new connection."


class StorageBusy(StorageError):
    code = "storage_busy"
    hint = "Another writer held the database too long. Try again."


class StorageReadOnly(StorageError):
    code = "storage_read_only"
    hint = "Make the database file and its folder writable."


class StorageFull(StorageError):
    code = "storage_full"
    hint = "Free disk space; nothing else needs to be repaired."


class NotDurable(CheckpointsError):
    """Versions that were handed in to be written behind are not in the database. `unsaved` has one dict for each:
    session_id, phase, step, messages, waited_seconds, kept_back."""

    code = "not_durable"
    hint = "Nothing of these is durable: do not call the work completed. Save again once the cause is gone."

    def __init__(self, unsaved: Sequence[Mapping[str, Any]], why: str) -> None:
        self.unsaved = [dict(each) for each in unsaved]
        sessions = ", ".join(repr(session_id) for session_id in dict.fromkeys(each["session_id"] for each in unsaved))
        super().__init__(f"{len(self.unsaved)} versions of session {sessions} are not durable: {why}")


class MigrationsMissing(StorageError):
    code = "migrations_missing"
    hint = "Run `manage.py migrate`, or open the database with migrate=True."


class ResultNotRecorded(CallError):
    """The tool has run, and its result could not be written."""

    code = "result_not_recorded"
    hint = "The call stays open and will be asked about on the next resume; the tool is not run again."

    def __init__(self, session_id: str, call_id: str, result: str) -> None:
        self.session_id, self.call_id, self.result = session_id, call_id, result
        super().__init__(f"Call {call_id!r} of session {session_id!r} ran, but its result could not be recorded.")


# Other agents


class PeerError(CheckpointsError):
    code = "peer_error"


class PausedForPeers(PeerError):
    code = "paused_for_peers"
    hint = "Go on with take_paused when it is complete, or give it up with cancel_paused. Nothing was changed."

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
    code = "not_paused"
    hint = "resume goes on with a session that does not wait for other agents. Nothing was changed."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"Session {session_id!r} does not wait for other agents.")


class PeerCallExists(PeerError, ValueError):
    code = "peer_call_exists"
    hint = "Give each call to another agent an id of its own. Nothing was written."

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        super().__init__(f"There already is a call {call_id!r} to another agent in this workspace.")


class PeerCallNotFound(NotFound):
    code = "peer_call_not_found"
    hint = "Check the id and the workspace."

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        super().__init__(f"There is no call {call_id!r} to another agent.")


class PeerCallOver(PeerError):
    code = "peer_call_over"
    hint = "Nobody waits for it any more. Nothing was changed."

    def __init__(self, call_id: str, status: str) -> None:
        self.call_id, self.status = call_id, status
        super().__init__(f"Call {call_id!r} to another agent is {status}.")


class SecretsLocked(PeerError):
    """A secret cannot be sealed or opened; it is never stored in clear."""

    code = "secrets_locked"
    hint = "Give every process of this workspace the same HARNESS_SECRET_KEY (or HARNESS_SECRET_KEY_FILE)."

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"{path} is a secret, and {why}.")
