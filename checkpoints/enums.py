"""Enumerations of the store: every status and kind that a row may have.

They need no Django. Labels are English here; `checkpoints.models.translated_enum_choices` translates them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import EnumType, StrEnum
from typing import Self


def _(label: str) -> str:
    """Mark a label for the translation catalogues."""
    return label


class LabelledEnumType(EnumType):
    """Type of enumerations whose values are known as texts."""

    @property
    def values(cls) -> list[str]:
        """Values of all members, in their order."""
        return [str(value) for value in cls._value2member_map_]

    def __contains__(cls, value: object) -> bool:
        """Return whether a value is a member or the text of one, in every version of Python."""
        return isinstance(value, str) and value in cls._value2member_map_


class LabelledEnum(StrEnum, metaclass=LabelledEnumType):
    """Enumeration of stored texts, each with an English label for people."""

    label: str

    def __new__(cls, value: str, label: str = "") -> Self:
        member: Self = str.__new__(cls, value)
        member._value_ = value
        member.label = label
        return member


class SessionStatus(LabelledEnum):
    """Status of a session."""

    ACTIVE = "active", _("Active")
    NEEDS_REVIEW = "needs_review", _("Needs review")
    READY = "ready", _("Ready to resume")
    PAUSED = "paused", _("Paused")
    COMPLETED = "completed", _("Completed")
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")


FINISHED_SESSION_STATUSES = frozenset({SessionStatus.COMPLETED, SessionStatus.FAILED, SessionStatus.CANCELLED})
#: Statuses in which a mutating call may start: nothing in its session is undecided.
DISPATCHABLE_SESSION_STATUSES = frozenset({SessionStatus.ACTIVE, SessionStatus.READY})


class CostBasis(LabelledEnum):
    """Source of the cost of a session."""

    STATED = "stated", _("Stated by the agent")
    ESTIMATED = "estimated", _("Estimated from a price table")
    UNKNOWN = "unknown", _("Unknown")


class RunStatus(LabelledEnum):
    """Status of a run."""

    RUNNING = "running", _("Running")
    WAITING = "waiting", _("Waiting for a decision")
    COMPLETED = "completed", _("Completed")
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")
    RELEASED = "released", _("Released")
    LOST = "lost", _("Lost")


#: Statuses of a run that may own its session.
OWNING_RUN_STATUSES = frozenset({RunStatus.RUNNING, RunStatus.WAITING})


class Phase(LabelledEnum):
    """Phase of a run in which a checkpoint was taken."""

    TURN = "turn", _("Turn")
    RUN_STARTED = "run_started", _("Run started")
    STEP_STARTED = "step_started", _("Step started")
    PRE_LLM = "pre_llm", _("Before the model answer")
    POST_LLM = "post_llm", _("Model answer")
    PRE_TOOL_BATCH = "pre_tool_batch", _("Before tool calls")
    POST_TOOL_BATCH = "post_tool_batch", _("Tool results")
    PRE_SUBAGENT_BATCH = "pre_subagent_batch", _("Before subagents")
    POST_SUBAGENT_BATCH = "post_subagent_batch", _("Subagent results")
    PAUSED = "paused", _("Paused")
    RESUMED = "resumed", _("Resumed")
    RUN_TERMINAL = "run_terminal", _("Run ended")


class SideEffect(LabelledEnum):
    """Effect of a tool on the world outside the agent."""

    READ = "read", _("Reads")
    WRITE = "write", _("Writes")
    MUTATE = "mutate", _("Mutates")


#: Effects whose calls are logged before they run.
LOGGED_EFFECTS = frozenset({SideEffect.WRITE, SideEffect.MUTATE})
#: Stands for the side effects of a call that was read from a transcript, which are unknown.
IMPORTED_MARK = "imported"
#: Sentence of a call whose result is not in its transcript, which may go on; it does not say what the call does.
UNANSWERED_RESULT = (
    "The imported file has no result of this call. Whether it happened is not known, and nobody has to decide: no run "
    "of this store made it."
)
#: Token of the owner of a run that was read from a transcript: no process of this library drives it.
IMPORTED_RUN_OWNER = "import"
#: Stands for the host of such a run.
IMPORTED_RUN_HOST = "imported"


class Risk(LabelledEnum):
    """Severity of a wrong call: a property of its tool. Order: from least to most."""

    LOW = "low", _("Low risk")
    MEDIUM = "medium", _("Medium risk")
    HIGH = "high", _("High risk")


def get_default_risk(side_effects: Iterable[str]) -> Risk:
    """Return the risk of a tool that declares none: one that writes or mutates is medium, one that only reads is low.

    High is only what a tool declares: most tools that need a decision mutate, and none of them would stand out.
    """
    return Risk.LOW if {SideEffect.MUTATE, SideEffect.WRITE}.isdisjoint(side_effects) else Risk.MEDIUM


class CallStatus(LabelledEnum):
    """Status of a tool call."""

    AWAITING_APPROVAL = "awaiting_approval", _("Awaiting approval")
    APPROVED = "approved", _("Approved")
    ISSUED = "issued", _("Issued")
    INTERRUPTED = "interrupted", _("Outcome unknown")
    RERUN_APPROVED = "rerun_approved", _("One more run approved")
    COMPLETED = "completed", _("Completed")
    FAILED = "failed", _("Failed")
    REJECTED = "rejected", _("Rejected")
    SUPERSEDED = "superseded", _("Run again")
    DISCARDED = "discarded", _("Discarded")


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
#: Statuses of calls without an outcome: they wait for a decision, or for their tool.
OPEN_CALL_STATUSES = UNDECIDED_CALL_STATUSES | {CallStatus.APPROVED, CallStatus.ISSUED, CallStatus.RERUN_APPROVED}
#: Statuses of interrupted calls whose outcome is not recorded yet.
UNSETTLED_CALL_STATUSES = frozenset({CallStatus.INTERRUPTED, CallStatus.RERUN_APPROVED})
#: Statuses of calls that need, have or were refused an approval: their tool was not started.
NOT_RUN_CALL_STATUSES = frozenset({CallStatus.AWAITING_APPROVAL, CallStatus.APPROVED, CallStatus.REJECTED})


#: Final statuses: a result in the transcript answers such a call.
SETTLED_CALL_STATUSES = frozenset({CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.REJECTED, CallStatus.DISCARDED})


class InterruptReason(LabelledEnum):
    """Reason why the outcome of a call is unknown."""

    RUN_LOST = "run_lost", _("Its run died during the call")
    AMBIGUOUS_ERROR = "ambiguous_error", _("The tool failed in a way that leaves its effect unknown")
    CANCELLED = "cancelled", _("It was cancelled while it ran")
    ABANDONED = "abandoned", _("Its run went on without reporting how it ended")
    FORKED = "forked", _("It was undecided when the session was forked")
    UNREADABLE = "unreadable", _("Its record cannot be read")
    NO_RESULT = "no_result", _("The imported transcript has no result")


class KeyScope(LabelledEnum):
    """Scope in which an idempotency key names one operation."""

    SESSION = "session", _("Session")
    WORKSPACE = "workspace", _("Workspace")


class KeyPolicy(LabelledEnum):
    """Rule by which two calls are the same operation: the source of a call's idempotency key."""

    ONCE = "once", _("Once for each tool and arguments")
    CALL = "call", _("Each call")
    FUNCTION = "function", _("A function of the tool")
    UNANSWERED = "unanswered", _("Until the model has its result")
    STEP = "step", _("A step of a workflow")


#: Policies whose calls are matched by their arguments while no saved version has their result.
POLICIES_MATCHING_ARGUMENTS = frozenset(set(KeyPolicy) - {KeyPolicy.STEP})


class DecisionKind(LabelledEnum):
    """Kind of a decision about a call."""

    CONFIRM_LANDED = "confirm_landed", _("It happened")
    MARK_FAILED = "mark_failed", _("It did not happen")
    APPROVE_RERUN = "approve_rerun", _("One more run approved")
    APPROVE = "approve", _("Approved")
    EDIT = "edit", _("Arguments changed")
    REJECT = "reject", _("Rejected")
    RESPOND = "respond", _("Responded instead")
    PROBE_LANDED = "probe_landed", _("Verify hook: it happened")
    PROBE_NOT_LANDED = "probe_not_landed", _("Verify hook: it did not happen")
    PROBE_UNKNOWN = "probe_unknown", _("Verify hook: outcome still unknown")
    DISCARD = "discard", _("Discarded")
    WITHDRAW = "withdraw", _("Decision withdrawn")


#: Decisions that move the call; a probe that cannot tell is recorded beside them and moves nothing.
DECIDING_KINDS = frozenset(set(DecisionKind) - {DecisionKind.PROBE_UNKNOWN})
#: Decisions about a call that awaits approval.
APPROVAL_KINDS = (DecisionKind.APPROVE, DecisionKind.EDIT, DecisionKind.REJECT, DecisionKind.RESPOND)
#: Answers of verify hooks.
HOOK_KINDS = frozenset({DecisionKind.PROBE_LANDED, DecisionKind.PROBE_NOT_LANDED, DecisionKind.PROBE_UNKNOWN})
#: Decisions of people that can be withdrawn until the run has used them.
WITHDRAWABLE_KINDS = frozenset(
    {
        DecisionKind.CONFIRM_LANDED,
        DecisionKind.MARK_FAILED,
        DecisionKind.APPROVE_RERUN,
        DecisionKind.APPROVE,
        DecisionKind.REJECT,
        DecisionKind.RESPOND,
    }
)


class PauseStatus(LabelledEnum):
    """Status of a task that waits for other agents."""

    WAITING = "waiting", _("Waiting for other agents")
    TAKEN = "taken", _("Taken by a run")
    OVER = "over", _("Resumed")
    CANCELLED = "cancelled", _("Cancelled")


#: Statuses in which a task holds its session, unless the run that took it has saved a version since.
PAUSED_TASK_STATUSES = frozenset({PauseStatus.WAITING, PauseStatus.TAKEN})


class JoinStatus(LabelledEnum):
    """Status of a group of calls to other agents."""

    WAITING = "waiting", _("Waiting")
    COMPLETE = "complete", _("Complete")
    USED = "used", _("Used")
    CANCELLED = "cancelled", _("Cancelled")


class PeerCallStatus(LabelledEnum):
    """Status of a call to another agent."""

    WAITING = "waiting", _("Waiting")
    ANSWERED = "answered", _("Answered")
    EXPIRED = "expired", _("No answer in time")
    CANCELLED = "cancelled", _("Cancelled")


class NoticeKind(LabelledEnum):
    """Kind of the notice about a call that another agent still has to get."""

    REQUEST = "request", _("Please do this")
    CANCEL = "cancel", _("This is not needed any more")


class ActorKind(LabelledEnum):
    """Kind of an actor in decisions and in the audit trail."""

    PERSON = "person", _("Person")
    TOKEN = "token", _("Token")
    HOOK = "hook", _("Verify hook")
    MACHINE = "machine", _("Machine")


class Role(LabelledEnum):
    """Role of a member of a workspace. Order: each role may do what the one before it may."""

    AUDITOR = "auditor", _("Auditor")
    APPROVER = "approver", _("Approver")
    ADMIN = "admin", _("Admin")


class AuditKind(LabelledEnum):
    """Kind of an entry of the audit trail."""

    SESSION_STARTED = "session_started", _("Session started")
    SESSION_FINISHED = "session_finished", _("Session finished")
    SESSION_FORKED = "session_forked", _("Session forked")
    SESSION_IMPORTED = "session_imported", _("Session imported")
    SESSION_NEEDS_REVIEW = "session_needs_review", _("Paused for a decision")
    APPROVAL_REQUESTED = "approval_requested", _("Approval requested")
    SESSION_READY = "session_ready", _("All calls decided")
    RUN_STARTED = "run_started", _("Run started")
    RUN_RELEASED = "run_released", _("Run released the session")
    RUN_LOST = "run_lost", _("Run lost")
    SESSION_SEALED = "session_sealed", _("Session sealed")
    DECISIONS_SIGNED = "decisions_signed", _("Decisions signed")
    SESSION_QUARANTINED = "session_quarantined", _("Session quarantined")
    WITNESS_ADOPTED = "witness_adopted", _("Witness set to the stored state")
    QUARANTINE_RELEASED = "quarantine_released", _("Quarantine released")
    VERSIONS_REMOVED = "versions_removed", _("Versions removed")
    SESSION_DELETED = "session_deleted", _("Session deleted")
    TAKEOVER = "takeover", _("Session taken over")
    CALL_INTERRUPTED = "call_interrupted", _("Call interrupted")
    CALL_DISCARDED = "call_discarded", _("Call without a result discarded")
    LATE_RESULT = "late_result", _("Late result refused")
    VERIFY_REQUESTED = "verify_requested", _("Verification requested")
    DECIDED = "decided", _("Call decided")
    PAUSED_FOR_PEERS = "paused_for_peers", _("Paused for other agents")
    PEER_EXPIRED = "peer_expired", _("No answer from another agent")
    LATE_RESPONSE = "late_response", _("Late answer of another agent")
    JOIN_COMPLETE = "join_complete", _("Other agents have answered")
    PEERS_CANCELLED = "peers_cancelled", _("Waiting cancelled")
    # actions of people and tokens on the site
    SIGNED_IN = "signed_in", _("Signed in")
    SIGN_IN_FAILED = "sign_in_failed", _("Sign-in failed")
    SIGNED_OUT = "signed_out", _("Signed out")
    SIGN_INS_ENDED = "sign_ins_ended", _("Other sign-ins ended")
    PASSWORD_CHANGED = "password_changed", _("Password changed")
    FACTOR_ADDED = "factor_added", _("Second factor added")
    FACTOR_REMOVED = "factor_removed", _("Second factor removed")
    FACTOR_RULE_CHANGED = "factor_rule_changed", _("Requirement of a second factor changed")
    INVITED = "invited", _("Invitation created")
    INVITATION_REVOKED = "invitation_revoked", _("Invitation revoked")
    MEMBER_ADDED = "member_added", _("Member added")
    ROLE_CHANGED = "role_changed", _("Role changed")
    MEMBER_REMOVED = "member_removed", _("Member removed")
    MEMBER_DEACTIVATED = "member_deactivated", _("Account deactivated")
    MEMBER_REACTIVATED = "member_reactivated", _("Account reactivated")
    TOKEN_CREATED = "token_created", _("Token created")
    TOKEN_REVOKED = "token_revoked", _("Token revoked")
    TOKEN_USED = "token_used", _("Token used")
    TOKEN_REFUSED = "token_refused", _("Token refused")
    CLAIMED = "claimed", _("Call claimed")
    RELEASED = "released", _("Call released")
    HANDED_OVER = "handed_over", _("Call handed over")
    COMMENTED = "commented", _("Comment added")
    VIEWED = "viewed", _("Session read")
    EXCERPTED = "excerpted", _("Excerpts shown")
    EVIDENCE_OPENED = "evidence_opened", _("Evidence opened")
    EXPORTED = "exported", _("Exported")
    LABELLED = "labelled", _("Labels changed")
    UNMASKED = "unmasked", _("Secrets shown")
    MASKING_CHANGED = "masking_changed", _("Masking changed")
    WEBHOOK_CREATED = "webhook_created", _("Webhook created")
    WEBHOOK_CHANGED = "webhook_changed", _("Webhook changed")
    WEBHOOK_PAUSED = "webhook_paused", _("Webhook paused")
    WEBHOOK_RESUMED = "webhook_resumed", _("Webhook resumed")
    WEBHOOK_DELETED = "webhook_deleted", _("Webhook deleted")
    WEBHOOK_TESTED = "webhook_tested", _("Webhook tested")
    MESSAGE_RETRIED = "message_retried", _("Message tried again")
    NOTIFICATIONS_CHANGED = "notifications_changed", _("Notifications chosen")
    ADDRESS_CONFIRMED = "address_confirmed", _("E-mail address confirmed")
    MAIL_TESTED = "mail_tested", _("Test message sent")
    AUDIT_VERIFIED = "audit_verified", _("Audit trail verified")
