"""The blocking checkpointer: the whole public interface of a session, one method for each thing one can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from checkpoints import conf, flows, opening
from checkpoints.enums import DecisionKind, Phase
from checkpoints.files import exporting, importing
from checkpoints.files.exporting import ExportedFile
from checkpoints.files.importing import ImportedSession
from checkpoints.models import DEFAULT_WORKSPACE, Run
from checkpoints.peers import accepting, cancelling, deadlines, listing, pausing, taking, telling
from checkpoints.peers.accepting import Response
from checkpoints.peers.answers import Answer
from checkpoints.peers.telling import Tell
from checkpoints.peers.values import Deadline, Join, Paused, Swept, TakenTask, Told
from checkpoints.resuming import decisions, gate, starting, sweeping, verification
from checkpoints.resuming.actors import Actor, as_actor
from checkpoints.resuming.decisions import Target, Verdict
from checkpoints.resuming.gate import ResumePoint
from checkpoints.resuming.starting import Description
from checkpoints.runs.details import PhaseDetails
from checkpoints.runs.snapshot import RuntimeSnapshot
from checkpoints.saving import call_log, calls, forking, intents, phases, pruning, reading
from checkpoints.saving import checkpoints as saving
from checkpoints.saving.pruning import Removed, Retention
from checkpoints.saving.state import UNCHANGED, Change, State, Unchanged
from checkpoints.saving.store import Store
from checkpoints.tools.registry import ToolRegistry
from checkpoints.workflows.journal import SyncWorkflow


class SyncCheckpointer:
    """Sessions in one workspace of one database.

    Inside a Django project it uses the connection `using`; with a path or URL as first argument it is the same as
    `open`. Sessions it has started or resumed are its own until `close`; a `with` block closes it. Safe to use
    from many threads; a child process needs its own.

    Every method can raise `StorageError` and its kinds; all errors derive from `CheckpointsError`.
    """

    def __init__(
        self,
        url: str | Path | None = None,
        *,
        workspace: str = DEFAULT_WORKSPACE,
        lease_seconds: float = conf.LEASE_SECONDS,
        using: str = "default",
        migrate: bool | None = None,
    ) -> None:
        if url is not None:
            using = opening.opened(url, migrate=migrate)
        self.store = Store(using, workspace, lease_seconds)

    @classmethod
    def open(
        cls,
        url: str | Path,
        *,
        workspace: str = DEFAULT_WORKSPACE,
        lease_seconds: float = conf.LEASE_SECONDS,
        migrate: bool | None = None,
    ) -> Self:
        """A checkpointer for `sqlite:///path`, a path, or `postgresql://…`, in a Django project or a plain script.

        A SQLite file is created and migrated; PostgreSQL only with `migrate=True`. Raises `InvalidDatabaseUrl`.
        """
        return cls(url, workspace=workspace, lease_seconds=lease_seconds, migrate=migrate)

    def close(self) -> None:
        """Give up the sessions this checkpointer owns, so that another process can go on at once."""
        starting.release(self.store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # sessions and checkpoints

    def start_session(
        self,
        session_id: str,
        user_message: str = "",
        system_prompt: str | None = None,
        *,
        agent: str = "",
        title: str | None = None,
        scratchpad_root: str | None = None,
        metadata: dict[str, Any] | None = None,
        labels: Iterable[str] = (),
        takeover: bool = False,
    ) -> Run:
        """Create the session, or go on with an unfinished one, and own it.

        `user_message` becomes the title where none is given; `system_prompt` belongs to the transcript and is not
        kept here. An existing session keeps its description. Raises `InvalidIdentifier`, `SessionBusy`,
        `SessionFinished`.
        """
        description = Description(user_message, agent, title, scratchpad_root, metadata, labels)
        return starting.start(self.store, session_id, description, takeover=takeover)

    def save_checkpoint(
        self,
        session_id: str,
        transcript: list[dict[str, Any]],
        plan: dict[str, Any] | None,
        budget_spent_usd: float | Decimal,
        *,
        phase: str = Phase.TURN,
        usage: dict[str, Any] | None = None,
        payload: dict[str, Any] | None = None,
        expected_version: int | None = None,
    ) -> int:
        """Save the whole transcript as the next version and return its number; only what is new is stored.

        Raises `SessionNotFound`, `NotOwner`, `OwnershipLost`, `SessionFinished`, `NotRepresentable`, `TooLarge`,
        and `VersionConflict` where the session is not at `expected_version`.
        """
        state = State.of(plan=plan, budget_spent_usd=budget_spent_usd, phase=phase, usage=usage, payload=payload)
        return saving.save(self.store, session_id, transcript, state, expected_version=expected_version)

    def append_checkpoint(
        self,
        session_id: str,
        new_messages: list[dict[str, Any]],
        *,
        expected_version: int,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        budget_spent_usd: float | Decimal | Unchanged = UNCHANGED,
        usage: dict[str, Any] | Unchanged | None = UNCHANGED,
        phase: str = Phase.TURN,
        payload: dict[str, Any] | None = None,
    ) -> int:
        """Save the next version from the messages that are new since `expected_version`.

        What is left out stays as the version before has it. Raises what `save_checkpoint` raises.
        """
        change = Change(plan, budget_spent_usd, usage, phase, payload)
        return saving.append(self.store, session_id, new_messages, change, expected_version=expected_version)

    def save_phase(
        self,
        session_id: str,
        details: PhaseDetails,
        *,
        snapshot: RuntimeSnapshot | None = None,
        transcript: list[dict[str, Any]] | None = None,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        expected_version: int | None = None,
    ) -> int:
        """Save the next version at a phase of the run, such as `PostLlm(model=…)`; what is left out stays as it was.

        A `snapshot` is where the loop stands; it holds until the next one. Its usage and cost become those of the
        version, and its `replayed_effect_count` is counted here. Raises what `save_checkpoint` raises.
        """
        return phases.save_phase(
            self.store,
            session_id,
            details,
            snapshot=snapshot,
            transcript=transcript,
            plan=plan,
            expected_version=expected_version,
        )

    def import_record(
        self, session_id: str, record: dict[str, Any], *, run_id: str | None = None
    ) -> phases.ImportedRecord:
        """Save a phase record that another system or an older version wrote; `applied` of the answer says what was
        changed in it, such as `runId → run_id`.

        Raises `CheckpointCorrupted` naming the field, also for a record of another run than `run_id`, and
        `SchemaFromFuture`; then nothing is written.
        """
        return phases.import_record(self.store, session_id, record, run_id=run_id)

    def load_latest(self, session_id: str) -> dict[str, Any] | None:
        """The newest version: transcript, plan, budget_spent_usd, version, usage, payload, phase, run_id, created_at,
        schema_version. None while there is none."""
        return reading.load_latest(self.store, session_id)

    def load(self, session_id: str, version: int) -> dict[str, Any]:
        """One version, as `load_latest` returns it. Raises `SessionNotFound`, `VersionNotFound`."""
        return reading.load(self.store, session_id, version)

    def list_checkpoints(self, session_id: str, *, before: int | None = None, limit: int = 50) -> list[dict[str, Any]]:
        """The versions below `before`, newest first, without transcripts. Raises `SessionNotFound`."""
        return reading.list_checkpoints(self.store, session_id, before=before, limit=limit)

    def finish_session(self, session_id: str, status: str, result: Any = None) -> None:
        """End the session as `completed`, `failed` or `cancelled`. Its result is what a later resume returns.

        Raises `ReviewRequired` while a call is undecided, except for `cancelled`.
        """
        starting.finish(self.store, session_id, status, result)

    def fork_session(self, session_id: str, new_session_id: str, *, version: int | None = None) -> int:
        """Open a new session that goes on from `version` (None: the newest) of another one. Returns its version, 1.

        No message is copied. Calls that had an effect come along, so that the fork replays them instead of repeating
        the effect. Raises `SessionNotFound`, `VersionNotFound`, `SessionExists`.
        """
        return forking.fork(self.store, session_id, new_session_id, version=version)

    def export_session(self, session_id: str, path: str | Path) -> ExportedFile:
        """Write a session with everything of it to one file, at once or not at all. Raises `SessionNotFound`,
        `FileNotWritten`."""
        return exporting.export(self.store, session_id, path)

    def import_session(self, path: str | Path, *, session_id: str | None = None) -> ImportedSession:
        """Take a session over from a file that `export_session` wrote, in this database or another one.

        What may have happened since is undecided, as after a crash. Raises `FileNotReadable`, `FileDamaged`,
        `SchemaFromFuture`, `WrongSession` where it is not `session_id`, `WrongWorkspace`, `SessionExists`,
        `ImportConflict`; then nothing was imported.
        """
        return importing.import_file(self.store, path, session_id=session_id)

    def delete_checkpoint(self, session_id: str, version: int) -> Removed:
        """Remove one version; its number does not come back. Raises `VersionNotFound`, `StillNeeded`."""
        return pruning.delete_version(self.store, session_id, version)

    def prune(
        self,
        session_id: str,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        older_than: timedelta | None = None,
        dry_run: bool = False,
    ) -> Removed:
        """Remove versions, and the messages that no version reaches any more.

        What stays: the newest version, the last `keep_last`, every `keep_every`-th number, and what is not
        `older_than`. With `dry_run` nothing is removed. Raises `SessionNotFound`, `InvalidInput`.
        """
        retention = Retention(keep_last, keep_every, older_than)
        return pruning.prune(self.store, session_id, retention, dry_run=dry_run)

    def delete_session(self, session_id: str, *, dry_run: bool = False) -> Removed:
        """Remove a session and everything of it. Raises `StillNeeded` while a run drives it or a person has to
        decide."""
        return pruning.delete_session(self.store, session_id, dry_run=dry_run)

    # the tool-call log

    def record_tool_call_issued(
        self,
        session_id: str,
        call_id: str,
        tool_name: str,
        args: dict[str, Any],
        idempotency_key: str,
        *,
        side_effects: Iterable[str] = ("mutate",),
        step: int | None = None,
    ) -> None:
        """Log that a call is about to run; it is durable when this returns.

        Raises `CallInProgress`, `CallAlreadySettled`, `ReviewRequired` or `CallConflict` where the call or its key
        is already there, and then the call must not run.
        """
        wanted = intents.intent(call_id, tool_name, args, idempotency_key, side_effects=side_effects, step=step)
        call_log.record_issued(self.store, session_id, wanted)

    def record_tool_call_result(
        self, session_id: str, call_id: str, result_text: str, success: bool, *, step: int | None = None
    ) -> None:
        """Log how a call ended. Raises `CallNotFound`, and `LateResultRefused` where it can no longer count."""
        call_log.record_result(self.store, session_id, call_id, result_text, success, step=step)

    def find_completed_call(self, idempotency_key: str) -> dict[str, Any] | None:
        """The completed call of that key: call_id, tool_name, args_json, result_text, status and more; or None."""
        return calls.find_completed(self.store, idempotency_key)

    def pending_tool_calls(self, session_id: str) -> list[dict[str, Any]]:
        """Calls without an outcome: call_id, tool_name, args_json, started_at, status, reason, run_id, alive, step,
        attempt, revision. Raises `SessionNotFound`."""
        return calls.pending(self.store, session_id)

    # resuming

    def resume(
        self,
        session_id: str,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool = False,
    ) -> ResumePoint:
        """Own the session, pass the gate, and return where to go on.

        Read-only calls that were interrupted are discarded, verify hooks of `registry` settle what they can, and
        what remains unknown raises `ReviewRequired`; with `wait`, that only happens after `timeout` seconds (None:
        never). A finished session returns its result and runs nothing. Raises `SessionNotFound`, `SessionBusy`,
        `CheckpointCorrupted`, `SchemaFromFuture`.
        """
        if registry is not None:
            registry.bind(self, session_id)
        return flows.drive(gate.resume_flow(self.store, session_id, wait=wait, timeout=timeout, takeover=takeover))

    def resume_run(
        self,
        run_id: str | UUID,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool = False,
    ) -> ResumePoint:
        """`resume` for who has kept the id of a run: a new run, linked to the last one of its session, goes on with
        everything that was used up carried forward. Raises `RunNotFound`, and what `resume` raises."""
        session_id = gate.session_of(self.store, run_id)
        return self.resume(session_id, registry, wait=wait, timeout=timeout, takeover=takeover)

    def preview_resume(self, session_id: str) -> dict[str, Any]:
        """What a resume would do now: `version`, `finished`, `pending_response`, and the calls to `replay`, `run` and
        `ask` about. Changes nothing."""
        return gate.preview(self.store, session_id)

    def sweep_lost_runs(self, *, limit: int = sweeping.LIMIT) -> list[str]:
        """End runs of this workspace whose lease has run out, and interrupt what they had issued, so that people see it
        before anybody resumes. Returns the ids of their sessions. Any number of processes may do this at once."""
        return sweeping.sweep_lost_runs(self.store, limit=limit)

    # other agents

    def pause_for_peers(self, session_id: str, state: dict[str, Any], joins: Iterable[Join]) -> Paused:
        """Stop to wait for other agents: store `state`, the joins and their calls, and give the session up, in one
        transaction. Whichever process is there when a join is complete goes on with `take_paused`.

        Secrets in the state and in requests are sealed. Responses that came before are counted. Raises `NotOwner`,
        `OwnershipLost`, `PeerCallExists`, `SecretsLocked`, `CallInProgress`, `ReviewRequired`, `NotRepresentable`.
        """
        return pausing.pause(self.store, session_id, state, joins)

    def accept_response(
        self,
        peer_call_id: str,
        result: Any,
        *,
        session_id: str | None = None,
        peer: str | None = None,
        token: str | None = None,
    ) -> Answer:
        """Match another agent's response to its call, store and count it, in one transaction: `Accepted`, `Duplicate`,
        `Early`, `Late`, `Cancelled`, `Foreign` or `Unknown`.

        What is said of the sender is held against the call: its session, the agent it was made to, its token.
        """
        response = Response.of(peer_call_id, result, session_id, peer, token)
        return accepting.accept(self.store, response)

    def take_paused(
        self,
        session_id: str,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool = False,
    ) -> TakenTask:
        """Own a session whose join is complete, pass the gate as `resume` does, and get the answers.

        Until this run saves its next version or pauses again, another one can take the same after it was lost. Raises
        `StillWaiting`, `NotPaused`, `SecretsLocked`, and what `resume` raises.
        """
        if registry is not None:
            registry.bind(self, session_id)
        return flows.drive(taking.take_flow(self.store, session_id, wait=wait, timeout=timeout, takeover=takeover))

    def extend_deadline(self, peer_call_id: str, deadline: Deadline) -> datetime:
        """Wait for a call at least until `deadline` (seconds or a duration from now, or a moment); returns its deadline
        then. Raises `PeerCallNotFound`, `PeerCallOver`."""
        return deadlines.extend(self.store, peer_call_id, deadline)

    def cancel_paused(self, session_id: str, *, tell: Tell | None = None, reason: str = "") -> Told:
        """End a session that waits for other agents as cancelled, and tell each of them through `tell`.

        Who could not be told is told by `tell_peers`. Raises `NotPaused`, `SessionBusy`, `SessionFinished`.
        """
        return flows.drive(cancelling.cancel_flow(self.store, session_id, tell=tell, reason=reason))

    def tell_peers(self, tell: Tell, *, limit: int = telling.LIMIT) -> Told:
        """Tell other agents through `tell` what they have to know: requests of calls that were stored with
        `sent=False`, and that a call was cancelled or given up. Each at least once, by any number of processes."""
        return flows.drive(telling.tell_flow(self.store, tell, limit=limit))

    def sweep_deadlines(self, *, limit: int = deadlines.LIMIT) -> Swept:
        """Give up calls of this workspace whose deadline has passed. Any number of processes may do this at once."""
        return deadlines.sweep(self.store, limit=limit)

    def list_paused(
        self, *, ready: bool | None = None, agent: str | None = None, limit: int = listing.LIMIT
    ) -> list[dict[str, Any]]:
        """Sessions that wait for other agents or whose answers are not used yet: session_id, agent, ready, driven, and
        the joins that are `complete` and `open`. `ready=True`: those that `take_paused` can take now."""
        return listing.paused(self.store, ready=ready, agent=agent, limit=limit)

    def peer_calls(self, session_id: str) -> list[dict[str, Any]]:
        """The calls of a session to other agents, oldest first: call_id, peer, join_id, pause, status, created_at,
        deadline, settled_at, result_json, late_at, late_result_json, to_tell. Raises `SessionNotFound`."""
        return listing.calls_of(self.store, session_id)

    # workflows

    def workflow(self, session_id: str, workflow_id: str) -> SyncWorkflow:
        """Open the journal of a workflow, or begin one, in a session this checkpointer owns: one pass through it.

        Raises `NotOwner`, and `SchemaFromFuture` or `CheckpointCorrupted` where the journal cannot be read: then none
        of its steps runs.
        """
        return SyncWorkflow(self.store, session_id, workflow_id)

    # decisions

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


def check_pending(checkpointer: SyncCheckpointer, session_id: str) -> list[dict[str, Any]]:
    """The blocking twin of `check_pending_tool_calls`."""
    return checkpointer.pending_tool_calls(session_id)
