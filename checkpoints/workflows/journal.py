"""A workflow: named steps that are each done once, however often the process that does them dies.

A step is a call of the session's log. It is written before it runs and settled after, it holds the session at the
gate when nobody knows whether it happened, and the same people decide about it on the same page.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from checkpoints import flows
from checkpoints.enums import CallStatus, KeyPolicy
from checkpoints.exceptions import DuplicateStep, InvalidArguments, ReviewRequired, StepRejected
from checkpoints.flows import Flow, Invoke, Transact, documented_by
from checkpoints.models import ToolCall, WorkflowStep
from checkpoints.resuming import verification
from checkpoints.saving import lookup
from checkpoints.saving.intents import Intent, Issued, Outcome
from checkpoints.saving.store import Held, Store
from checkpoints.serde.canonical import canonical, parse
from checkpoints.tools import dispatch
from checkpoints.tools.dispatch import Waiting
from checkpoints.tools.registry import Tool
from checkpoints.workflows import steps
from checkpoints.workflows.steps import Asked


class Journal:
    """Common part of the blocking and the async workflow. One object is one pass through the steps."""

    def __init__(self, store: Store, session_id: str, workflow_id: str) -> None:
        """Open the journal.

        Args:
            store: State of the client.
            session_id: Identifier of a session the client owns.
            workflow_id: Identifier of the workflow in the session.

        Raises:
            NotOwner: The client does not own the session.
            SchemaFromFuture: A newer version of this library wrote the journal.
            CheckpointCorrupted: The journal cannot be read.
        """
        self.store = store
        self.session_id = session_id
        self.workflow_id = workflow_id
        self._row = steps.opened(store, lookup.owned(store, session_id), workflow_id)
        self._tools: dict[str, Tool] = {}
        self._begun: set[str] = set()
        self._lock = threading.Lock()
        store.add_registry(self)

    def knows_tool(self, tool: str) -> bool:
        return tool in self._tools

    def verify_hook(self, tool: str) -> Any | None:
        """Return the verify hook of a tool.

        Args:
            tool: Name of the tool.

        Returns:
            The hook; None where the tool has none or no step has used it.
        """
        known = self._tools.get(tool)
        return None if known is None else known.verify

    def _step_flow(self, asked: Asked) -> Flow[Any]:
        """The whole life of one step, for blocking and async drivers."""
        store = self.store
        with self._once(asked.step_id):
            self._tools[asked.tool.name] = asked.tool
            held: Held = yield Transact(lambda: lookup.owned(store, self.session_id))
            step: WorkflowStep = yield Transact(lambda: steps.entered(store, held, self._row, asked))
            found = yield from self._issued(held, step, asked)
            if isinstance(found, ToolCall):
                return (yield Transact(partial(self._stored, step, found)))
            try:
                return (yield from self._run(held, asked, found))
            finally:
                store.executing.discard(found.pk)

    @contextmanager
    def _once(self, step_id: str) -> Iterator[None]:
        """A step is asked for once in a pass; again only where it ended with an error."""
        with self._lock:
            if step_id in self._begun:
                raise DuplicateStep(self.session_id, self.workflow_id, step_id)
            self._begun.add(step_id)
        try:
            yield
        except BaseException:
            self._begun.discard(step_id)
            raise

    def _issued(self, held: Held, step: WorkflowStep, asked: Asked) -> Flow[Issued | ToolCall]:
        """The step's intent, or the call that answers it. A hook is asked before a person is."""
        wanted = _intent(step, asked)
        try:
            return (yield from dispatch.issue(self.store, held, wanted, Waiting()))
        except ReviewRequired as error:
            undecided = error
        unknown: ToolCall | None = yield Transact(lambda: steps.live_call(self.store, held, step))
        probe = None
        if unknown is not None and unknown.status == CallStatus.INTERRUPTED and unknown.session_id == held.pk:
            probe = verification.probe_with(asked.tool.verify, self.session_id, unknown)
        if probe is None:
            raise undecided
        yield from verification.probe_flow(self.store, probe)
        return (yield from dispatch.issue(self.store, held, wanted, Waiting()))

    def _run(self, held: Held, asked: Asked, issued: Issued) -> Flow[Any]:
        try:
            invoke = Invoke(asked.run(issued.args), timeout=asked.tool.timeout)
        except InvalidArguments as error:
            outcome = Outcome(CallStatus.FAILED, canonical(str(error)), type(error).__name__)
            yield from dispatch.record(self.store, held, issued, outcome, str(error))
            raise
        try:
            value = yield invoke
        except GeneratorExit:
            raise
        except BaseException as error:
            call = yield from dispatch.record_error(self.store, held, asked.tool, issued, error, started=invoke.started)
            if call is None or call.status != CallStatus.COMPLETED:
                raise
            return (yield Transact(partial(steps.value_of, self.store, call)))
        kept = _kept(value)
        yield from dispatch.record(self.store, held, issued, Outcome(CallStatus.COMPLETED, kept), kept)
        return parse(kept)

    def _stored(self, step: WorkflowStep, call: ToolCall) -> Any:
        if call.status == CallStatus.REJECTED:
            raise StepRejected(self.session_id, self.workflow_id, step.step_id, call.result_text or "")
        return steps.value_of(self.store, call)


def _intent(step: WorkflowStep, asked: Asked) -> Intent:
    args = parse(asked.args)
    return dispatch.intent_of(asked.tool, args, asked.args, KeyPolicy.STEP, step.idempotency_key, step.call_id, None)


def _kept(value: Any) -> str:
    """What is kept of a step's value. The step has happened, so this never fails."""
    try:
        return canonical(value, "result")
    except Exception:  # no exact JSON form
        return canonical(dispatch.content_of(value), "result")


class SyncWorkflow(Journal):
    """Steps of one workflow, blocking. Made by `SyncCheckpointer.workflow`."""

    def step(
        self, step_id: str, function: Callable[..., Any] | Tool, /, *args: Any, version: int | str = 1, **kwargs: Any
    ) -> Any:
        """Run `function(*args, **kwargs)` once in the life of this workflow, and return its result.

        A step that has completed returns what it returned then. An error of the function is raised as it is, and the
        step runs again in the next pass.

        Args:
            step_id: Identifier of the step, unique in one pass.
            function: Function, or a `Tool` that says what it does to the world and how to find out whether it did. A
                bare function is taken to change something.
            args: Positional arguments, JSON values.
            version: Version of the step's code: another one is another step.
            kwargs: Keyword arguments, JSON values.

        Returns:
            The result as JSON has it, the first time too; one that has no JSON form comes back as text.

        Raises:
            StepIdentityChanged: The step that happened had another function, arguments or version.
            DuplicateStep: The step was requested twice in this pass.
            StepRejected: A person has rejected the step.
            ReviewRequired: It is unknown whether the step happened; a person has to decide first.
            InvalidArguments: The arguments do not fit the function.
            NotRepresentable: An argument has no exact JSON form.
            OwnershipLost: Another run has taken the session over.
        """
        return flows.drive(self._step_flow(Asked.of(step_id, function, args, kwargs, version)))

    def journal(self) -> list[dict[str, Any]]:
        """List the steps in the order in which they were first requested.

        Returns:
            One dict per step: step_id, function, version, status, attempts, call_id, result, started_at. `status` is
            that of the call; None for a step that was never begun.
        """
        return steps.listed(self.store, self._row)


class Workflow(Journal):
    """Steps of one workflow, async. Made by `Checkpointer.workflow`.

    Steps may run concurrently: `asyncio.gather` them.
    """

    def __init__(self, store: Store, session_id: str, workflow_id: str, hop: flows.Hop) -> None:
        """Open the journal.

        Args:
            store: State of the client.
            session_id: Identifier of a session the client owns.
            workflow_id: Identifier of the workflow in the session.
            hop: Function that takes database work to a thread.

        Raises:
            NotOwner: The client does not own the session.
            SchemaFromFuture: A newer version of this library wrote the journal.
            CheckpointCorrupted: The journal cannot be read.
        """
        super().__init__(store, session_id, workflow_id)
        self._hop = hop

    @documented_by(SyncWorkflow.step)
    async def step(
        self, step_id: str, function: Callable[..., Any] | Tool, /, *args: Any, version: int | str = 1, **kwargs: Any
    ) -> Any:
        return await flows.adrive(self._step_flow(Asked.of(step_id, function, args, kwargs, version)), self._hop)

    @documented_by(SyncWorkflow.journal)
    async def journal(self) -> list[dict[str, Any]]:
        return await self._hop(lambda: steps.listed(self.store, self._row))  # type: ignore[no-any-return]
