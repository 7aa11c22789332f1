"""What people decide about calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkpoints import flows
from checkpoints.enums import DecisionKind
from checkpoints.resuming import decisions, verification
from checkpoints.resuming.actors import Actor, as_actor
from checkpoints.resuming.decisions import Target, Verdict
from checkpoints.saving.store import Store


class Decisions:
    store: Store

    def verify_call(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        step: int | None = None,
        attempt: int | None = None,
    ) -> str:
        """Ask the verify hook of the call's tool: `landed`, `not_landed` or `unknown`.

        Where no registry here has the hook, the process that waits at the gate is asked: `requested`. Raises
        `CallNotFound`, `NotPermitted`, `AlreadyDecided`, `NotUndecided`.
        """
        target = Target(session_id, call_id, 0, step, attempt)
        call = verification.request(self.store, target, as_actor(actor))
        probe = verification.probe_of(self.store, session_id, call)
        return "requested" if probe is None else flows.drive(verification.probe_flow(self.store, probe))

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
        """Record that an interrupted call happened; `result_text` becomes its result.

        `revision` is the one the actor saw (`check_pending_tool_calls` names it). Raises `NotPermitted`,
        `ReasonRequired`, `CallNotFound`, `AlreadyDecided`, `StaleRevision`, `NotUndecided`.
        """
        verdict = Verdict(DecisionKind.CONFIRM_LANDED, as_actor(actor), reason, result_text, evidence)
        decisions.decide(self.store, Target(session_id, call_id, revision, step, attempt), verdict)

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
        """Record that an interrupted call did not happen. The agent is told so. Raises what `confirm_landed` does."""
        told = f"This call did not happen. {reason}"
        verdict = Verdict(DecisionKind.MARK_FAILED, as_actor(actor), reason, told, evidence)
        decisions.decide(self.store, Target(session_id, call_id, revision, step, attempt), verdict)

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
        """Allow exactly one more execution with exactly the same arguments. Raises what `confirm_landed` does."""
        verdict = Verdict(DecisionKind.APPROVE_RERUN, as_actor(actor), reason, evidence=evidence)
        decisions.decide(self.store, Target(session_id, call_id, revision, step, attempt), verdict)

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
        """Let a call that awaits approval run once, with exactly its arguments. Raises what `confirm_landed` does."""
        verdict = Verdict(DecisionKind.APPROVE, as_actor(actor), reason, evidence=evidence)
        decisions.decide(self.store, Target(session_id, call_id, revision, step, attempt), verdict)

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
        """Change the arguments of a call that awaits approval. It goes on waiting: the new arguments need an approval
        of their own. Raises what `confirm_landed` does, and `NotRepresentable`."""
        verdict = Verdict(DecisionKind.EDIT, as_actor(actor), reason, evidence=evidence, args=new_args)
        decisions.decide(self.store, Target(session_id, call_id, revision, step, attempt), verdict)

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
        """Do not let a call run; the agent gets `message` as its error. Raises what `confirm_landed` does."""
        verdict = Verdict(DecisionKind.REJECT, as_actor(actor), reason or message, message, evidence)
        decisions.decide(self.store, Target(session_id, call_id, revision, step, attempt), verdict)

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
        """Answer in place of a call that awaits approval: the agent gets `message` as its result, and nothing runs.
        Raises what `confirm_landed` does."""
        verdict = Verdict(DecisionKind.RESPOND, as_actor(actor), reason or message, message, evidence)
        decisions.decide(self.store, Target(session_id, call_id, revision, step, attempt), verdict)
