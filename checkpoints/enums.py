"""Enumerations of the store: every status and kind that a row may have."""

from collections.abc import Iterable

from django.db.models import TextChoices


class SessionStatus(TextChoices):
    """Status of a session."""

    ACTIVE = "active", "Active"
    NEEDS_REVIEW = "needs_review", "Needs review"
    READY = "ready", "Ready to go on"
    PAUSED = "paused", "Paused"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


FINISHED_SESSION_STATUSES = frozenset({SessionStatus.COMPLETED, SessionStatus.FAILED, SessionStatus.CANCELLED})
#: Statuses in which a mutating call may start: nothing in its session is undecided.
DISPATCHABLE_SESSION_STATUSES = frozenset({SessionStatus.ACTIVE, SessionStatus.READY})


class RunStatus(TextChoices):
    """Status of a run."""

    RUNNING = "running", "Running"
    WAITING = "waiting", "Waiting for a decision"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"
    RELEASED = "released", "Released"
    LOST = "lost", "Lost"


#: Statuses of a run that may own its session.
OWNING_RUN_STATUSES = frozenset({RunStatus.RUNNING, RunStatus.WAITING})


class Phase(TextChoices):
    """Phase of a run in which a checkpoint was taken."""

    TURN = "turn", "Turn"
    RUN_STARTED = "run_started", "Run started"
    STEP_STARTED = "step_started", "Step started"
    PRE_LLM = "pre_llm", "Before the model"
    POST_LLM = "post_llm", "After the model"
    PRE_TOOL_BATCH = "pre_tool_batch", "Before tools"
    POST_TOOL_BATCH = "post_tool_batch", "After tools"
    PRE_SUBAGENT_BATCH = "pre_subagent_batch", "Before subagents"
    POST_SUBAGENT_BATCH = "post_subagent_batch", "After subagents"
    PAUSED = "paused", "Paused"
    RESUMED = "resumed", "Resumed"
    RUN_TERMINAL = "run_terminal", "Run ended"


class SideEffect(TextChoices):
    """Effect of a tool on the world outside the agent."""

    READ = "read", "Reads"
    WRITE = "write", "Writes"
    MUTATE = "mutate", "Mutates"


#: Effects whose calls are logged before they run.
LOGGED_EFFECTS = frozenset({SideEffect.WRITE, SideEffect.MUTATE})


class Risk(TextChoices):
    """Severity of a wrong call: a property of its tool. Order: from least to most."""

    LOW = "low", "Low risk"
    MEDIUM = "medium", "Medium risk"
    HIGH = "high", "High risk"


def get_default_risk(side_effects: Iterable[str]) -> Risk:
    """Return the risk of a tool that declares none: mutating is high, writing is medium, reading is low."""
    effects = set(side_effects)
    if SideEffect.MUTATE in effects:
        return Risk.HIGH
    return Risk.MEDIUM if SideEffect.WRITE in effects else Risk.LOW


class CallStatus(TextChoices):
    """Status of a tool call."""

    AWAITING_APPROVAL = "awaiting_approval", "Awaiting approval"
    APPROVED = "approved", "Approved"
    ISSUED = "issued", "Issued"
    INTERRUPTED = "interrupted", "Outcome unknown"
    RERUN_APPROVED = "rerun_approved", "Re-run approved"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    REJECTED = "rejected", "Rejected"
    SUPERSEDED = "superseded", "Run again"
    DISCARDED = "discarded", "Discarded"


#: Live statuses: at most one call of an idempotency key has one of them; the database enforces it.
LIVE_CALL_STATUSES = frozenset(
    {
        CallStatus.AWAITING_APPROVAL,
        CallStatus.APPROVED,
        CallStatus.ISSUED,
        CallStatus.INTERRUPTED,
        CallStatus.RERUN_APPROVED,
        CallStatus.COMPLETED,
    }
)
#: Statuses that wait for a person: these hold a run at the gate.
UNDECIDED_CALL_STATUSES = frozenset({CallStatus.INTERRUPTED, CallStatus.AWAITING_APPROVAL})
#: Statuses of calls that need, have or were refused an approval: their tool was not started.
NOT_RUN_CALL_STATUSES = frozenset({CallStatus.AWAITING_APPROVAL, CallStatus.APPROVED, CallStatus.REJECTED})


#: Final statuses: a result in the transcript answers such a call.
SETTLED_CALL_STATUSES = frozenset({CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.REJECTED, CallStatus.DISCARDED})


class InterruptReason(TextChoices):
    """Reason why the outcome of a call is unknown."""

    RUN_LOST = "run_lost", "Its run is gone"
    AMBIGUOUS_ERROR = "ambiguous_error", "The tool failed in a way that leaves its effect unknown"
    CANCELLED = "cancelled", "It was cancelled while it ran"
    ABANDONED = "abandoned", "Its run went on without reporting how it ended"
    FORKED = "forked", "It was undecided when the session was forked"
    UNREADABLE = "unreadable", "Its record cannot be read"


class KeyScope(TextChoices):
    """Scope in which an idempotency key names one operation."""

    SESSION = "session", "Session"
    WORKSPACE = "workspace", "Workspace"


class KeyPolicy(TextChoices):
    """Rule by which two calls are the same operation: the source of a call's idempotency key."""

    ONCE = "once", "Once for each tool and arguments"
    CALL = "call", "Each call"
    FUNCTION = "function", "A function of the tool"
    UNANSWERED = "unanswered", "Until the model has its result"
    STEP = "step", "A step of a workflow"


#: Policies whose calls are matched by their arguments while no saved version has their result.
POLICIES_MATCHING_ARGUMENTS = frozenset(set(KeyPolicy) - {KeyPolicy.STEP})


class DecisionKind(TextChoices):
    """Kind of a decision about a call."""

    CONFIRM_LANDED = "confirm_landed", "It happened"
    MARK_FAILED = "mark_failed", "It did not happen"
    APPROVE_RERUN = "approve_rerun", "Run once more"
    APPROVE = "approve", "Approved"
    EDIT = "edit", "Arguments changed"
    REJECT = "reject", "Rejected"
    RESPOND = "respond", "Answered instead"
    PROBE_LANDED = "probe_landed", "Probe: it happened"
    PROBE_NOT_LANDED = "probe_not_landed", "Probe: it did not happen"
    PROBE_UNKNOWN = "probe_unknown", "Probe: cannot tell"
    DISCARD = "discard", "Discarded"


#: Decisions that move the call; a probe that cannot tell is recorded beside them and moves nothing.
DECIDING_KINDS = frozenset(set(DecisionKind) - {DecisionKind.PROBE_UNKNOWN})


class PauseStatus(TextChoices):
    """Status of a task that waits for other agents."""

    WAITING = "waiting", "Waiting for other agents"
    TAKEN = "taken", "Taken by a run"
    OVER = "over", "Gone on"
    CANCELLED = "cancelled", "Cancelled"


#: Statuses in which a task holds its session, unless the run that took it has saved a version since.
PAUSED_TASK_STATUSES = frozenset({PauseStatus.WAITING, PauseStatus.TAKEN})


class JoinStatus(TextChoices):
    """Status of a group of calls to other agents."""

    WAITING = "waiting", "Waiting"
    COMPLETE = "complete", "Complete"
    USED = "used", "Used"
    CANCELLED = "cancelled", "Cancelled"


class PeerCallStatus(TextChoices):
    """Status of a call to another agent."""

    WAITING = "waiting", "Waiting"
    ANSWERED = "answered", "Answered"
    EXPIRED = "expired", "No answer in time"
    CANCELLED = "cancelled", "Cancelled"


class NoticeKind(TextChoices):
    """Kind of the notice about a call that another agent still has to get."""

    REQUEST = "request", "Please do this"
    CANCEL = "cancel", "This is not needed any more"


class ActorKind(TextChoices):
    """Kind of an actor in decisions and in the audit trail."""

    PERSON = "person", "Person"
    TOKEN = "token", "Token"
    HOOK = "hook", "Verify hook"
    MACHINE = "machine", "Machine"


class Role(TextChoices):
    """Role of a member of a workspace. Order: each role may do what the one before it may."""

    AUDITOR = "auditor", "Auditor"
    APPROVER = "approver", "Approver"
    ADMIN = "admin", "Admin"


class AuditKind(TextChoices):
    """Kind of an entry of the audit trail."""

    SESSION_STARTED = "session_started", "Session started"
    SESSION_FINISHED = "session_finished", "Session finished"
    SESSION_FORKED = "session_forked", "Session forked"
    SESSION_IMPORTED = "session_imported", "Session imported"
    SESSION_NEEDS_REVIEW = "session_needs_review", "Paused for a decision"
    APPROVAL_REQUESTED = "approval_requested", "Approval asked for"
    SESSION_READY = "session_ready", "Last decision made"
    RUN_STARTED = "run_started", "Run started"
    RUN_RELEASED = "run_released", "Run released the session"
    RUN_LOST = "run_lost", "Run lost"
    VERSIONS_REMOVED = "versions_removed", "Versions removed"
    SESSION_DELETED = "session_deleted", "Session deleted"
    TAKEOVER = "takeover", "Session taken over"
    CALL_INTERRUPTED = "call_interrupted", "Call interrupted"
    CALL_DISCARDED = "call_discarded", "Read-only call discarded"
    LATE_RESULT = "late_result", "Late result refused"
    VERIFY_REQUESTED = "verify_requested", "Probe requested"
    DECIDED = "decided", "Call decided"
    PAUSED_FOR_PEERS = "paused_for_peers", "Paused for other agents"
    PEER_EXPIRED = "peer_expired", "No answer from another agent"
    LATE_RESPONSE = "late_response", "Late answer of another agent"
    JOIN_COMPLETE = "join_complete", "Other agents have answered"
    PEERS_CANCELLED = "peers_cancelled", "Waiting cancelled"
    # actions of people and tokens on the site
    SIGNED_IN = "signed_in", "Signed in"
    SIGN_IN_FAILED = "sign_in_failed", "Sign-in failed"
    SIGNED_OUT = "signed_out", "Signed out"
    SIGN_INS_ENDED = "sign_ins_ended", "Other sign-ins ended"
    PASSWORD_CHANGED = "password_changed", "Password changed"
    FACTOR_ADDED = "factor_added", "Second factor added"
    FACTOR_REMOVED = "factor_removed", "Second factor removed"
    INVITED = "invited", "Invitation made"
    INVITATION_REVOKED = "invitation_revoked", "Invitation revoked"
    MEMBER_ADDED = "member_added", "Member added"
    ROLE_CHANGED = "role_changed", "Role changed"
    MEMBER_REMOVED = "member_removed", "Member removed"
    TOKEN_CREATED = "token_created", "Token created"
    TOKEN_REVOKED = "token_revoked", "Token revoked"
    TOKEN_USED = "token_used", "Token used"
    TOKEN_REFUSED = "token_refused", "Token refused"
    CLAIMED = "claimed", "Call claimed"
    RELEASED = "released", "Call released"
    VIEWED = "viewed", "Session read"
    EXCERPTED = "excerpted", "Excerpts shown"
    EVIDENCE_OPENED = "evidence_opened", "Evidence opened"
    EXPORTED = "exported", "Exported"
    LABELLED = "labelled", "Labels changed"
    UNMASKED = "unmasked", "Secrets shown"
    MASKING_CHANGED = "masking_changed", "Masking changed"
    WEBHOOK_CREATED = "webhook_created", "Webhook made"
    WEBHOOK_PAUSED = "webhook_paused", "Webhook paused"
    WEBHOOK_RESUMED = "webhook_resumed", "Webhook resumed"
    WEBHOOK_DELETED = "webhook_deleted", "Webhook deleted"
    WEBHOOK_TESTED = "webhook_tested", "Webhook tested"
    MESSAGE_RETRIED = "message_retried", "Message tried again"
    NOTIFICATIONS_CHANGED = "notifications_changed", "Notifications chosen"
    ADDRESS_CONFIRMED = "address_confirmed", "E-mail address confirmed"
    AUDIT_VERIFIED = "audit_verified", "Audit trail verified"
