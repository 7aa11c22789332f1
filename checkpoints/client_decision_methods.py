"""Methods of the blocking client for decisions about tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkpoints import sync_and_async_flow_runners
from checkpoints.client_backend import ClientOfBackend
from checkpoints.decisions.actors import Actor
from checkpoints.decisions.decision_target import DecisionTarget
from checkpoints.enums import DecisionKind


class DecisionMethods(ClientOfBackend):
    """Decisions of people about interrupted calls and about calls that await approval."""

    def verify_call(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        step: int | None = None,
        attempt: int | None = None,
    ) -> str:
        """Ask the verify hook of an interrupted call's tool whether the call happened, and record its answer.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            actor: Who asks: an `Actor`, or the name of a person.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Returns:
            `landed`, `not_landed` or `unknown`; `requested` where no registry here has the hook, and the process that
            waits at the gate was asked instead.

        Raises:
            SessionNotFound: There is no such session.
            CallNotFound: There is no such call.
            NotPermitted: `actor` may not decide.
            AlreadyDecided: The call has been decided.
            NotUndecided: The call is not interrupted.
        """
        target = DecisionTarget(session_id, call_id, 0, step, attempt)
        return sync_and_async_flow_runners.run_flow(self.backend.verify_call_flow(target, actor))

    def confirm_landed(
        self,
        session_id: str,
        call_id: str,
        result_text: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Record that an interrupted call happened.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            result_text: Result of the call, as the agent gets it.
            actor: Who decides: an `Actor`, or the name of a person.
            reason: Why, in a sentence; stored with the decision.
            evidence: What the decision rests on: text, or a JSON object.
            revision: Revision of the call that the actor saw; `pending_tool_calls` names it.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Raises:
            NotFound: There is no such session or call.
            DecisionRefused: The decision does not count. `SyncCheckpointer` lists the subclasses, which say why.
            InvalidInput: An argument cannot be used as such.
        """
        target = DecisionTarget(session_id, call_id, revision, step, attempt)
        kind = DecisionKind.CONFIRM_LANDED
        self.backend.record_decision(target, kind, actor=actor, reason=reason, evidence=evidence, result=result_text)

    def mark_failed(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Record that an interrupted call did not happen. The agent gets the reason as the call's error.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            actor: Who decides: an `Actor`, or the name of a person.
            reason: Why, in a sentence; stored with the decision.
            evidence: What the decision rests on: text, or a JSON object.
            revision: Revision of the call that the actor saw; `pending_tool_calls` names it.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Raises:
            NotFound: There is no such session or call.
            DecisionRefused: The decision does not count. `SyncCheckpointer` lists the subclasses, which say why.
            InvalidInput: An argument cannot be used as such.
        """
        target = DecisionTarget(session_id, call_id, revision, step, attempt)
        kind = DecisionKind.MARK_FAILED
        self.backend.record_decision(target, kind, actor=actor, reason=reason, evidence=evidence)

    def approve_rerun(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Allow exactly one more execution of an interrupted call, with exactly the same arguments.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            actor: Who decides: an `Actor`, or the name of a person.
            reason: Why, in a sentence; stored with the decision.
            evidence: What the decision rests on: text, or a JSON object.
            revision: Revision of the call that the actor saw; `pending_tool_calls` names it.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Raises:
            NotFound: There is no such session or call.
            DecisionRefused: The decision does not count. `SyncCheckpointer` lists the subclasses, which say why.
            InvalidInput: An argument cannot be used as such.
            SessionFinished: The session has ended.
        """
        target = DecisionTarget(session_id, call_id, revision, step, attempt)
        kind = DecisionKind.APPROVE_RERUN
        self.backend.record_decision(target, kind, actor=actor, reason=reason, evidence=evidence)

    def withdraw_decision(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Withdraw a person's decision about a call, as long as the run has not used it.

        The call then waits for a decision again. If several people had to agree, all of them have to decide again.
        While more people have to agree, the actor takes back their own decisions about the call.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            actor: Who withdraws the decision: an `Actor`, or the name of a person. It need not be who decided, unless
                more people have to agree.
            reason: Why, in a sentence; stored with the withdrawal.
            evidence: What the withdrawal rests on: text, or a JSON object.
            revision: Revision of the call that the actor saw.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Raises:
            SessionNotFound: There is no such session.
            CallNotFound: There is no such call.
            NotPermitted: `actor` may not decide.
            ReasonRequired: There is no reason.
            NothingToWithdraw: No decision of a person is in force, nor one of the actor that waits for others.
            DecisionUsed: The run has used the decision.
            StaleRevision: The call has changed since `revision`.
            NotRepresentable: A value has no exact JSON form.
            InvalidInput: An argument cannot be used as such.
        """
        target = DecisionTarget(session_id, call_id, revision, step, attempt)
        self.backend.withdraw_decision(target, actor=actor, reason=reason, evidence=evidence)

    def approve_call(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Let a call that awaits approval run once, with exactly its arguments.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            actor: Who decides: an `Actor`, or the name of a person.
            reason: Why, in a sentence; stored with the decision.
            evidence: What the decision rests on: text, or a JSON object.
            revision: Revision of the call that the actor saw; `pending_tool_calls` names it.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Raises:
            NotFound: There is no such session or call.
            DecisionRefused: The decision does not count. `SyncCheckpointer` lists the subclasses, which say why.
            InvalidInput: An argument cannot be used as such.
            EditorMayNotApprove: `actor` has changed the arguments, and several people have to approve them.
            SessionFinished: The session has ended.
        """
        target = DecisionTarget(session_id, call_id, revision, step, attempt)
        kind = DecisionKind.APPROVE
        self.backend.record_decision(target, kind, actor=actor, reason=reason, evidence=evidence)

    def edit_call(
        self,
        session_id: str,
        call_id: str,
        new_args: dict[str, Any],
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Change the arguments of a call that awaits approval. The new arguments need an approval of their own.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            new_args: Arguments the call is to have, a JSON object.
            actor: Who decides: an `Actor`, or the name of a person.
            reason: Why, in a sentence; stored with the decision.
            evidence: What the decision rests on: text, or a JSON object.
            revision: Revision of the call that the actor saw; `pending_tool_calls` names it.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Raises:
            NotFound: There is no such session or call.
            DecisionRefused: The decision does not count. `SyncCheckpointer` lists the subclasses, which say why.
            InvalidInput: An argument cannot be used as such.
            SessionFinished: The session has ended.
        """
        target = DecisionTarget(session_id, call_id, revision, step, attempt)
        kind = DecisionKind.EDIT
        self.backend.record_decision(target, kind, actor=actor, reason=reason, evidence=evidence, new_args=new_args)

    def reject_call(
        self,
        session_id: str,
        call_id: str,
        message: str,
        *,
        actor: Actor | str,
        reason: str = "",
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Refuse a call that awaits approval: it never runs.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            message: Error of the call, as the agent gets it.
            actor: Who decides: an `Actor`, or the name of a person.
            reason: Why, stored with the decision. Left out, it is `message`.
            evidence: What the decision rests on: text, or a JSON object.
            revision: Revision of the call that the actor saw; `pending_tool_calls` names it.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Raises:
            NotFound: There is no such session or call.
            DecisionRefused: The decision does not count. `SyncCheckpointer` lists the subclasses, which say why.
            InvalidInput: An argument cannot be used as such.
        """
        target = DecisionTarget(session_id, call_id, revision, step, attempt)
        kind = DecisionKind.REJECT
        self.backend.record_decision(target, kind, actor=actor, reason=reason, evidence=evidence, result=message)

    def respond_call(
        self,
        session_id: str,
        call_id: str,
        message: str,
        *,
        actor: Actor | str,
        reason: str = "",
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """Answer in place of a call that awaits approval: nothing runs.

        Args:
            session_id: Identifier of the session.
            call_id: Identifier of the call.
            message: Result of the call, as the agent gets it.
            actor: Who decides: an `Actor`, or the name of a person.
            reason: Why, stored with the decision. Left out, it is `message`.
            evidence: What the decision rests on: text, or a JSON object.
            revision: Revision of the call that the actor saw; `pending_tool_calls` names it.
            step: Step of the call. None: the newest step that has it.
            attempt: Attempt of the call, from 1. None: the newest.

        Raises:
            NotFound: There is no such session or call.
            DecisionRefused: The decision does not count. `SyncCheckpointer` lists the subclasses, which say why.
            InvalidInput: An argument cannot be used as such.
            SessionFinished: The session has ended.
        """
        target = DecisionTarget(session_id, call_id, revision, step, attempt)
        kind = DecisionKind.RESPOND
        self.backend.record_decision(target, kind, actor=actor, reason=reason, evidence=evidence, result=message)
