"""Agents of this library: asyncio tasks that share one checkpointer."""

from __future__ import annotations

import asyncio
from typing import ClassVar
from uuid import uuid4

from benchmarks.agent_groups.agent_group import AgentGroup
from benchmarks.benchmark_databases import Database
from benchmarks.django_setup import create_library_tables
from benchmarks.generated_conversation import PLAN, SPENT_USD, Conversation
from checkpoints import Checkpointer


class LibraryAgents(AgentGroup):
    key: ClassVar[str] = "library"
    title: ClassVar[str] = "**append_checkpoint**, async, one task per agent"

    def __init__(self, database: Database, conversation: Conversation) -> None:
        create_library_tables(database.alias)
        self.conversation = conversation
        self.loop = asyncio.Runner()
        self.checkpointer = Checkpointer(using=database.alias)
        self.sessions: list[str] = []

    def begin_session_for_each_agent(self, agents: int) -> None:
        self.sessions = [uuid4().hex for _ in range(agents)]
        for session in self.sessions:
            self.loop.run(self.checkpointer.start_session(session))

    def save_turns_of_all_agents(self, turns: int) -> None:
        self.loop.run(self._save_turns_concurrently(turns))

    async def _save_turns_concurrently(self, turns: int) -> None:
        await asyncio.gather(*(self._save_turns_of_agent(session, turns) for session in self.sessions))

    async def _save_turns_of_agent(self, session: str, turns: int) -> None:
        version = 0
        for turn in range(1, turns + 1):
            version = await self.checkpointer.append_checkpoint(
                session,
                self.conversation.get_messages_of_turn(turn),
                expected_version=version,
                plan=PLAN,
                budget_spent_usd=SPENT_USD,
            )

    def close(self) -> None:
        self.loop.run(self.checkpointer.close())
        self.loop.close()
