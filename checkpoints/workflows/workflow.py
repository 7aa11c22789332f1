"""Workflow: named steps that each run once, however often their process dies.

A step is a call of the session's log. It is written before it runs and settled after, it holds the session at the
gate if its outcome is unknown, and the same people decide about it on the same page.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from checkpoints import sync_and_async_flow_runners
from checkpoints.enums import CallStatus
from checkpoints.exceptions import DuplicateStep, InvalidArguments, ReviewRequired
from checkpoints.formats.canonical_json import parse_json, to_canonical_json
from checkpoints.store.call_intent_and_outcome_types import CallOutcome
from checkpoints.store.checkpointer_state import CheckpointerState
from checkpoints.sync_and_async_flow_runners import Flow, copy_docstring_from
from checkpoints.tools import run_call_and_record_outcome
from checkpoints.tools.run_call_and_record_outcome import Execution, WaitOptions
from checkpoints.tools.tool import Tool
from checkpoints.workflows.step_log_protocol import StepLog, StepValue
from checkpoints.workflows.step_request import BoundStepRequest, StepRequest


class WorkflowJournal:
    """Common part of the blocking and the async workflow. One object is one pass through the steps."""

    def __init__(self, state: CheckpointerState, step_log: StepLog, session_id: str, workflow_id: str) -> None:
        """Begin a pass.

        Args:
            state: State of the client.
            step_log: Log of the workflow's steps.
            session_id: Identifier of a session the client owns.
            workflow_id: Identifier of the workflow in the session.
        """
        self.state = state
        self.session_id = session_id
        self.workflow_id = workflow_id
        self._step_log = step_log
        self._tools: dict[str, Tool] = {}
        self._begun: set[str] = set()
        self._lock = threading.Lock()
        state.add_verify_hook_provider(self)

    def knows_tool(self, tool: str) -> bool:
        """Return whether a step of this workflow is logged as this tool.

        Args:
            tool: Name of the tool.

        Returns:
            True if there is such a step.
        """
        return tool in self._tools

    def get_verify_hook(self, tool: str) -> Any | None:
        """Return the verify hook of a tool.

        Args:
            tool: Name of the tool.

        Returns:
            The hook; None where the tool has none or no step has used it.
        """
        known_tool = self._tools.get(tool)
        return None if known_tool is None else known_tool.verify

    def _run_or_replay_step_flow(self, request: BoundStepRequest) -> Flow[Any]:
        """Run one step from its request to its value, for blocking and async drivers."""
        with self._begin_step_once_per_pass(request.step_id):
            self._tools[request.tool.name] = request.tool
            issued = yield from self._issue_step_or_ask_hook_and_retry_flow(request)
            if isinstance(issued, StepValue):
                return issued.value
            try:
                return (yield from self._run_issued_step_and_record_outcome_flow(request, issued))
            finally:
                issued.mark_execution_as_ended(answered=False)

    @contextmanager
    def _begin_step_once_per_pass(self, step_id: str) -> Iterator[None]:
        """Require that a step is requested once in a pass; again only if it ended with an error."""
        with self._lock:
            if step_id in self._begun:
                raise DuplicateStep(self.session_id, self.workflow_id, step_id)
            self._begun.add(step_id)
        try:
            yield
        except BaseException:
            self._begun.discard(step_id)
            raise

    def _issue_step_or_ask_hook_and_retry_flow(self, request: StepRequest) -> Flow[Execution | StepValue]:
        """Log the step's intent, or return its value. A verify hook is asked before a person."""
        try:
            return (yield from self._step_log.issue_or_answer_step_flow(request, WaitOptions()))
        except ReviewRequired as error:
            if not (yield from self._step_log.ask_hook_and_record_answer_if_interrupted_flow(request)):
                raise error
        return (yield from self._step_log.issue_or_answer_step_flow(request, WaitOptions()))

    def _run_issued_step_and_record_outcome_flow(self, request: BoundStepRequest, execution: Execution) -> Flow[Any]:
        try:
            invoke = run_call_and_record_outcome.build_tool_invocation(
                execution, request.build_callable_with_bound_args(execution.issued_call.args), {}
            )
        except InvalidArguments as error:
            yield from run_call_and_record_outcome.record_outcome_with_retries_flow(
                execution, run_call_and_record_outcome.build_invalid_arguments_outcome(error), str(error)
            )
            raise
        try:
            value = yield invoke
        except GeneratorExit:
            raise
        except BaseException as error:
            found = yield from run_call_and_record_outcome.record_error_outcome_and_ask_verify_hook_flow(
                execution, error, started=invoke.started
            )
            if found is None or found.is_error:
                raise
            return (yield from self._step_log.load_step_value_found_by_hook_flow(request, execution.issued_call))
        content = _encode_step_value_or_its_text(value)
        yield from run_call_and_record_outcome.record_outcome_with_retries_flow(
            execution, CallOutcome(CallStatus.COMPLETED, content), content
        )
        return parse_json(content)


def _encode_step_value_or_its_text(value: Any) -> str:
    """Encode a step's value for the log. The step has happened, so this never fails."""
    try:
        return to_canonical_json(value, "result")
    except Exception:  # no exact JSON form
        return to_canonical_json(run_call_and_record_outcome.to_model_content(value), "result")


class SyncWorkflow(WorkflowJournal):
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
        return sync_and_async_flow_runners.run_flow(
            self._run_or_replay_step_flow(BoundStepRequest.from_arguments(step_id, function, args, kwargs, version))
        )

    def journal(self) -> list[dict[str, Any]]:
        """List the steps in the order in which they were first requested.

        Returns:
            One dict per step: step_id, function, version, status, attempts, call_id, result, started_at. `status` is
            that of the call; None for a step that was never begun.
        """
        return self._step_log.list_steps()


class Workflow(WorkflowJournal):
    """Steps of one workflow, async. Made by `Checkpointer.workflow`.

    Steps may run concurrently: `asyncio.gather` them.
    """

    def __init__(
        self,
        state: CheckpointerState,
        step_log: StepLog,
        session_id: str,
        workflow_id: str,
        run_blocking: sync_and_async_flow_runners.RunBlocking,
    ) -> None:
        """Begin a pass.

        Args:
            state: State of the client.
            step_log: Log of the workflow's steps.
            session_id: Identifier of a session the client owns.
            workflow_id: Identifier of the workflow in the session.
            run_blocking: Function that takes work with the log to a thread.
        """
        super().__init__(state, step_log, session_id, workflow_id)
        self._run_blocking = run_blocking

    @copy_docstring_from(SyncWorkflow.step)
    async def step(
        self, step_id: str, function: Callable[..., Any] | Tool, /, *args: Any, version: int | str = 1, **kwargs: Any
    ) -> Any:
        return await sync_and_async_flow_runners.run_flow_async(
            self._run_or_replay_step_flow(BoundStepRequest.from_arguments(step_id, function, args, kwargs, version)),
            self._run_blocking,
        )

    @copy_docstring_from(SyncWorkflow.journal)
    async def journal(self) -> list[dict[str, Any]]:
        return await self._run_blocking(self._step_log.list_steps)  # type: ignore[no-any-return]
