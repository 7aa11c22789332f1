"""The raw rate: threads that run the hand-written statements in a loop, without an event loop, a connection each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from django.db import connections

from benchmarks.contenders import statements
from benchmarks.conversation import Conversation
from benchmarks.crowds.crowd import Crowd
from benchmarks.databases import Database
from benchmarks.django_setup import create_plain_tables
from checkpoints.conf import POOL_SIZE


class Statements(Crowd):
    key: ClassVar[str] = "statement"
    title: ClassVar[str] = "hand-written SQL over Django's connections, in threads"

    def __init__(self, database: Database, conversation: Conversation) -> None:
        create_plain_tables(database.alias)
        self.alias = database.alias
        self.conversation = conversation
        self.executor = ThreadPoolExecutor(POOL_SIZE)
        self.threads: list[int] = []

    def begin(self, agents: int) -> None:
        self.threads = [self.executor.submit(self._open).result() for _ in range(agents)]

    def _open(self) -> int:
        with connections[self.alias].cursor() as cursor:
            cursor.execute(statements.OPEN)
            return int(cursor.fetchone()[0])

    def run(self, turns: int) -> None:
        for agent in [self.executor.submit(self._agent, thread, turns) for thread in self.threads]:
            agent.result()

    def _agent(self, thread: int, turns: int) -> None:
        for turn in range(1, turns + 1):
            statements.save(self.alias, thread, self.conversation.turn(turn))

    def close(self) -> None:
        self.executor.shutdown()
