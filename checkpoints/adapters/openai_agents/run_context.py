"""Context of the current run of an agent, shared by its session, model and tools."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from checkpoints.adapters.openai_agents import durable_turns
from checkpoints.adapters.openai_agents.durable_turns import OpenRun
from checkpoints.sessions.create_finish_release import SessionDescription

if TYPE_CHECKING:
    from checkpoints.adapters.openai_agents.agent_guard import AgentGuard
    from checkpoints.adapters.openai_agents.agent_session import HarnessSession

Item = dict[str, Any]


@dataclass(eq=False)
class RunContext:
    """State of a run that is in progress.

    Attributes:
        session: Session that it is stored in.
        input_digest: Digest of its input; empty for a run that continues a state of the SDK.
        agent: Name of the agent whose turn it is.
        is_begun: Whether its input is stored.
        is_open: Whether the session says that a run is open.
        answer: Stored answer of the model that the run still has to get. None: the model is asked.
        answer_first: Position of that answer in the transcript.
        response: Identifier and usage of that answer.
        inner_calls: Identifiers of the finished calls of inner agents since the last saved turn.
    """

    session: HarnessSession
    input_digest: str = ""
    agent: str = ""
    is_begun: bool = False
    is_open: bool = False
    answer: list[Item] | None = None
    answer_first: int = 0
    response: dict[str, Any] = field(default_factory=dict)
    inner_calls: list[str] = field(default_factory=list)
    guard: AgentGuard | None = None

    async def save_items(self, items: list[Item], description: SessionDescription) -> None:
        """Store what the SDK saves: the input of the run, or the items of a turn.

        Args:
            items: Items, oldest first.
            description: Description of the session if it does not exist.
        """
        store, session_id = self.session.client.store, self.session.session_id
        if not self.is_begun:
            run = OpenRun(self.input_digest, self.agent)
            await self.session.run_exclusive_change(
                partial(durable_turns.append_input_and_open_run, store, session_id, items, run, description)
            )
            self.is_begun = self.is_open = True
            return
        answered, self.inner_calls = self.inner_calls, []
        self.is_open = await self.session.run_exclusive_change(
            partial(
                durable_turns.add_items,
                store,
                session_id,
                items,
                description,
                agent=self.agent,
                answered=answered,
            )
        )

    async def store_model_answer(self, items: list[Item], response: dict[str, Any]) -> None:
        """Store an answer of the model before anything of it is carried out.

        Args:
            items: Items of the answer.
            response: Identifier and usage of the answer.
        """
        await self.session.run_exclusive_change(
            partial(
                durable_turns.store_model_answer,
                self.session.client.store,
                self.session.session_id,
                items,
                self.agent,
                response,
                self.session.build_description(),
            )
        )
        self.is_open = True

    async def end_run(self, *, discard: bool = False) -> None:
        """Store that the run has ended.

        Args:
            discard: Whether to remove an answer whose turn was not saved.
        """
        if self.is_open:
            await self.session.run_exclusive_change(
                partial(
                    durable_turns.end_run,
                    self.session.client.store,
                    self.session.session_id,
                    self.session.build_description(),
                    discard=discard,
                )
            )
            self.is_open = False


#: Run of the current task and those that it has started.
ACTIVE_RUN: ContextVar[RunContext | None] = ContextVar("harness_openai_agents_run", default=None)


def find_run_context(session: object) -> RunContext | None:
    """Find the run that uses a session in this task.

    Args:
        session: The session.

    Returns:
        The run; None if there is none, or if it uses another session.
    """
    run = ACTIVE_RUN.get()
    return run if run is not None and run.session is session else None
