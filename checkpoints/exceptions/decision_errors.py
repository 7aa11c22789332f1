"""Errors about decisions that were not recorded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from checkpoints.exceptions.base_error import CheckpointsError


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
