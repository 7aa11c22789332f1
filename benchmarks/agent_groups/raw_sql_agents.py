"""Agents for the raw rate: threads that run the plain SQL statements, each on its own connection."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from django.db import connections

from benchmarks.agent_groups.agent_group import AgentGroup
from benchmarks.benchmark_databases import Database
from benchmarks.contenders import raw_sql
from benchmarks.django_setup import create_plain_tables
from benchmarks.generated_conversation import Conversation
from checkpoints.constants import POOL_SIZE


class RawSqlAgents(AgentGroup):
    key: ClassVar[str] = "statement"
    title: ClassVar[str] = "hand-written SQL over Django's connections, in threads"

    def __init__(self, database: Database, conversation: Conversation) -> None:
        create_plain_tables(database.alias)
        self.alias = database.alias
        self.conversation = conversation
        self.executor = ThreadPoolExecutor(POOL_SIZE)
        self.threads: list[int] = []

    def begin_session_for_each_agent(self, agents: int) -> None:
        self.threads = [self.executor.submit(self._insert_thread_row).result() for _ in range(agents)]

    def _insert_thread_row(self) -> int:
        with connections[self.alias].cursor() as cursor:
            cursor.execute(raw_sql.OPEN)
            return int(cursor.fetchone()[0])

    def save_turns_of_all_agents(self, turns: int) -> None:
        for future in [self.executor.submit(self._save_turns_of_agent, thread, turns) for thread in self.threads]:
            future.result()

    def _save_turns_of_agent(self, thread: int, turns: int) -> None:
        for turn in range(1, turns + 1):
            raw_sql.append_turn_over_django_connection(self.alias, thread, self.conversation.get_messages_of_turn(turn))

    def close(self) -> None:
        self.executor.shutdown()
