"""Runner for unchanged agents: it guards their tools, and keeps what the model answered."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from agents import (
    Agent,
    InputGuardrailTripwireTriggered,
    ItemHelpers,
    Model,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunHooks,
    RunState,
    UserError,
)
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner

from checkpoints.adapters.openai_agents import unfinished_run_and_model_answer
from checkpoints.adapters.openai_agents.agent_guard import AgentGuard
from checkpoints.adapters.openai_agents.agent_session import ACTIVE_RUN, HarnessSession, RunContext
from checkpoints.adapters.openai_agents.durable_model import (
    DurableModel,
    DurableModelProvider,
    build_config_without_durable_models,
)
from checkpoints.calls import call_queries
from checkpoints.exceptions import CheckpointsError, InvalidInput, SessionNotFound
from checkpoints.store import look_up_and_lock_rows
from checkpoints.tools.foreign_tool_guard import ToolPolicies

T = TypeVar("T")


def use_harness(policies: ToolPolicies | None = None) -> HarnessRunner:
    """Let `Runner.run`, `run_sync` and `run_streamed` of this process guard the tools of every agent.

    Args:
        policies: Options of tools by patterns of their names. None: every tool mutates.

    Returns:
        The runner, which is the SDK's default from now on. `agents.run.set_default_agent_runner(None)` ends that.
    """
    runner = HarnessRunner(policies)
    set_default_agent_runner(runner)
    return runner


@dataclass(frozen=True)
class _PreparedRun:
    """Arguments for the SDK's own runner."""

    agent: Agent[Any]
    input: Any
    options: dict[str, Any]
    run: RunContext
    guard: AgentGuard
    is_inner: bool = False
    #: Provider of models that was created for this run, which has to be closed after it.
    provider: Any = None


class HarnessRunner(AgentRunner):
    """Runner whose agents can be killed at any time, and continue when the same program starts again.

    Needs a `HarnessSession`. A tool with side effects is logged before it runs. If a person has to decide about a call,
    the run ends with an interruption; after the decision, the next run with the same input or with the state of the
    SDK carries it out.
    """

    def __init__(self, policies: ToolPolicies | None = None) -> None:
        """Create a runner.

        Args:
            policies: Options of tools by patterns of their names. None: every tool mutates.
        """
        super().__init__()
        self._policies = policies or ToolPolicies()

    async def run(self, starting_agent: Any, input: Any, **options: Any) -> Any:
        """Run an agent as `agents.Runner.run` does, with its arguments and results.

        Raises:
            InvalidInput: The run has no session of this library, or its state is older than the session.
            ReviewRequired: A person has to decide about a call whose outcome became unknown.
            SessionBusy: A run of another process owns the session and is alive.
            OwnershipLost: Another run has finished the turn that this one continues.
        """
        outer = self._find_outer_run(options)
        if outer is not None:
            prepared = self._prepare_run_of_agent_tool(outer, starting_agent, input, options)
        else:
            prepared = await self._prepare_run(starting_agent, input, options)
        token = ACTIVE_RUN.set(prepared.run)
        try:
            return await self._run_and_record_end(
                prepared, super().run(prepared.agent, prepared.input, **prepared.options)
            )
        finally:
            ACTIVE_RUN.reset(token)

    def run_streamed(self, starting_agent: Any, input: Any, **options: Any) -> Any:
        """Run an agent as `agents.Runner.run_streamed` does. Errors are those of `run`, also while the events are
        read."""
        outer = self._find_outer_run(options)
        if outer is not None:
            prepared = self._prepare_run_of_agent_tool(outer, starting_agent, input, options)
        else:
            prepared = _run_coroutine_in_thread(self._prepare_run(starting_agent, input, options))
        token = ACTIVE_RUN.set(prepared.run)
        try:
            result = super().run_streamed(prepared.agent, prepared.input, **prepared.options)
            inner_task = result.run_loop_task
            result.run_loop_task = asyncio.create_task(
                self._run_and_record_end(prepared, _await_or_cancel_task(inner_task), lambda: result)
            )
        finally:
            ACTIVE_RUN.reset(token)
        return result

    # ---- before a run

    def _find_outer_run(self, options: dict[str, Any]) -> RunContext | None:
        return ACTIVE_RUN.get() if options.get("session") is None else None

    def _prepare_run_of_agent_tool(
        self, outer: RunContext, agent: Any, input: Any, options: dict[str, Any]
    ) -> _PreparedRun:
        """Prepare the run of an agent that is a tool: its calls are logged in the session of the outer agent."""
        guard = AgentGuard(outer.session, self._policies, run=outer, inner=True, guards_inner_agents=True)
        given = options.get("run_config")
        if isinstance(given, RunConfig):
            options = {**options, "run_config": build_config_without_durable_models(given)}
        return _PreparedRun(guard.get_or_create_guarded_clone(agent), input, options, outer, guard, is_inner=True)

    async def _prepare_run(self, agent: Any, input: Any, options: dict[str, Any]) -> _PreparedRun:
        session = options.get("session")
        if not isinstance(session, HarnessSession):
            raise InvalidInput(
                "A run with HarnessRunner needs session=HarnessSession(…), in which its tool calls are logged."
            )
        run = RunContext(session)
        guard = AgentGuard(session, self._policies, run=run, guards_inner_agents=get_default_agent_runner() is self)
        clone = guard.get_or_create_guarded_clone(agent)
        if isinstance(input, RunState):
            await session.client.run_database_work_to_end(partial(_require_state_not_resumed_before, session, input))
            state = await RunState.from_json(clone, input.to_json(), context_override=input._context)
            for item in state.get_interruptions():
                if await guard.try_register_call_decided_in_log(item):
                    state.approve(item)  # the log says whether the tool runs, and with which arguments
            run.is_begun = run.is_open = True
            return self._wrap_models_and_hooks_of_run(_PreparedRun(clone, state, options, run, guard))
        items = ItemHelpers.input_to_new_input_list(input)
        run.input_digest, run.agent = unfinished_run_and_model_answer.digest_run_input(items), clone.name
        open_run = await session.client.run_database_work_to_end(
            partial(unfinished_run_and_model_answer.find_open_run, session.client.store, session.session_id)
        )
        if open_run is not None:
            is_same = open_run.run.input_digest == run.input_digest
            if is_same:
                input, run.is_begun, run.is_open = [], True, True
            if open_run.answer:
                run.answer, run.answer_first = open_run.answer, open_run.run.first
                run.response = open_run.run.response
            if is_same or open_run.answer:
                run.own = open_run
                clone = guard.find_handoff_agent_or_first(clone, open_run.run.agent)
                run.agent = clone.name
                run.continued_from = open_run.run.start
        return self._wrap_models_and_hooks_of_run(_PreparedRun(clone, input, options, run, guard))

    def _wrap_models_and_hooks_of_run(self, prepared: _PreparedRun) -> _PreparedRun:
        """Let the SDK ask models whose answers are kept."""
        given, run = prepared.options.get("run_config"), prepared.run
        config = build_config_without_durable_models(
            RunConfig(**given) if isinstance(given, dict) else given or RunConfig()
        )
        is_own = given is None or (isinstance(given, dict) and "model_provider" not in given)
        changes: dict[str, Any] = {"model_provider": DurableModelProvider(config.model_provider, run)}
        if isinstance(config.model, Model):
            changes["model"] = DurableModel(config.model, run)
        hooks = _CurrentAgentHooks(run, prepared.options.get("hooks"))
        options = {**prepared.options, "run_config": replace(config, **changes), "hooks": hooks}
        return replace(prepared, options=options, provider=config.model_provider if is_own else None)

    # ---- after a run

    async def _run_and_record_end(
        self, prepared: _PreparedRun, work: Coroutine[Any, Any, Any], get_result: Callable[[], Any] | None = None
    ) -> Any:
        run = prepared.run
        try:
            returned = await work
            result = returned if get_result is None else get_result()
            if not prepared.is_inner and not result.interruptions:
                await run.record_run_end()
            return returned
        except (InputGuardrailTripwireTriggered, OutputGuardrailTripwireTriggered):
            if not prepared.is_inner:
                await run.record_run_end(discard_answer=True)
            raise
        except UserError as error:
            if isinstance(error.__cause__, CheckpointsError):
                raise error.__cause__ from None
            raise
        finally:
            if not prepared.is_inner:
                await prepared.guard.release_session_now_or_when_idle()
            if prepared.provider is not None:
                await prepared.provider.aclose()


class _CurrentAgentHooks(RunHooks[Any]):
    """Hooks that note whose turn it is, before those of the user."""

    def __init__(self, run: RunContext, hooks: Any) -> None:
        self._run, self._hooks = run, hooks or RunHooks()

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        self._run.agent = agent.name
        await self._hooks.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        await self._hooks.on_llm_end(context, agent, response)

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        await self._hooks.on_agent_start(context, agent)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        await self._hooks.on_agent_end(context, agent, output)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        self._run.agent = to_agent.name
        await self._hooks.on_handoff(context, from_agent, to_agent)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        await self._hooks.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        await self._hooks.on_tool_end(context, agent, tool, result)


def _require_state_not_resumed_before(session: HarnessSession, state: RunState[Any]) -> None:
    """Require that no call which a state waits for has a saved result. Raises `InvalidInput`.

    Such a state was resumed before: its calls would be new operations.
    """
    call_ids = {getattr(item.raw_item, "call_id", None) for item in state.get_interruptions()}
    store = session.client.store
    try:
        row = look_up_and_lock_rows.get_session(store, session.session_id)
    except SessionNotFound:
        return
    answered = call_queries.filter_call_ids_with_saved_result(
        store, row.pk, [call_id for call_id in call_ids if call_id]
    )
    if answered:
        raise InvalidInput(
            f"The state is older than session {session.session_id!r}: {', '.join(sorted(answered))} has a result."
        )


async def _await_or_cancel_task(task: asyncio.Task[Any]) -> Any:
    try:
        return await task
    except asyncio.CancelledError:
        task.cancel()
        raise


def _run_coroutine_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a thread and wait for it: the SDK starts a streamed run without awaiting anything."""
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1, thread_name_prefix="harness-prepare") as executor:
        return executor.submit(context.run, asyncio.run, work).result()
