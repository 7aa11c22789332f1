"""Agents of LangGraph: asyncio tasks that share one asynchronous saver with the delta channel."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar
from uuid import uuid4

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from benchmarks.agent_groups.agent_group import AgentGroup
from benchmarks.benchmark_databases import Database
from benchmarks.generated_conversation import PLAN, SPENT_USD, Conversation
from checkpoints.constants import POOL_SIZE


class LangGraphAgents(AgentGroup):
    key: ClassVar[str] = "delta"
    title: ClassVar[str] = "LangGraph async saver, delta channel, one task per agent"

    def __init__(self, database: Database, conversation: Conversation) -> None:
        self.conversation = conversation
        self.loop = asyncio.Runner()
        self.resources: list[Any] = []
        self.saver: Any = self.loop.run(self._open_saver_and_create_tables(database))
        self.sessions: list[str] = []

    async def _open_saver_and_create_tables(self, database: Database) -> Any:
        if database.kind == "postgresql":
            from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
            from psycopg.rows import dict_row
            from psycopg_pool import AsyncConnectionPool

            options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
            pool: Any = AsyncConnectionPool(database.url, max_size=POOL_SIZE, open=False, kwargs=options)
            await pool.open()
            self.resources.append(pool)
            saver: Any = AsyncPostgresSaver(pool)
        else:
            import aiosqlite
            from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

            connection = await aiosqlite.connect(database.url)
            await connection.execute("PRAGMA synchronous=FULL")
            self.resources.append(connection)
            saver = AsyncSqliteSaver(connection)
        await saver.setup()
        return saver

    def begin_session_for_each_agent(self, agents: int) -> None:
        self.sessions = [uuid4().hex for _ in range(agents)]

    def save_turns_of_all_agents(self, turns: int) -> None:
        self.loop.run(self._save_turns_concurrently(turns))

    async def _save_turns_concurrently(self, turns: int) -> None:
        await asyncio.gather(*(self._save_turns_of_agent(session, turns) for session in self.sessions))

    async def _save_turns_of_agent(self, session: str, turns: int) -> None:
        config: Any = {"configurable": {"thread_id": session, "checkpoint_ns": "", "checkpoint_id": str(uuid6())}}
        version = None
        for turn in range(1, turns + 1):
            writes = [("messages", self.conversation.get_messages_of_turn(turn))]
            await self.saver.aput_writes(config, writes, str(uuid4()), "~__pregel_pull, agent")
            version = self.saver.get_next_version(version, None)
            checkpoint = empty_checkpoint() | {"id": str(uuid6()), "channel_versions": {"messages": version}}
            checkpoint["channel_values"] = {"plan": PLAN, "spent": SPENT_USD}
            metadata = {"source": "loop", "step": turn, "counters_since_delta_snapshot": {"messages": (turn, turn)}}
            config = await self.saver.aput(config, checkpoint, metadata, {"messages": version})

    def close(self) -> None:
        for resource in self.resources:
            self.loop.run(resource.close())
        self.loop.close()
