"""This library."""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar

from benchmarks.contenders.contender import Contender
from benchmarks.conversation import PLAN, SPENT_USD, Conversation, Message
from benchmarks.databases import Database
from benchmarks.django_setup import create_library_tables
from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.saving import reading


class Append(Contender):
    key: ClassVar[str] = "append"
    title: ClassVar[str] = "**append_checkpoint**"

    def __init__(self, database: Database, conversation: Conversation) -> None:
        super().__init__(database, conversation)
        create_library_tables(database.alias)
        self.checkpointer = SyncCheckpointer(using=database.alias)
        self.session = ""
        self.version = 0

    def begin(self, session: str) -> None:
        self.session, self.version = session, 0
        self.checkpointer.start_session(session)

    def write(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        self.version = self.checkpointer.append_checkpoint(
            self.session, new, expected_version=self.version, plan=PLAN, budget_spent_usd=SPENT_USD
        )

    def read(self) -> list[Message]:
        loaded = self.checkpointer.load_latest(self.session)
        return loaded["transcript"] if loaded else []

    def tail(self, count: int) -> list[Message] | None:
        loaded = reading.load_tail(self.checkpointer.store, self.session, count)
        return loaded["transcript"] if loaded else []

    def close(self) -> None:
        self.checkpointer.close()


class Save(Append):
    key: ClassVar[str] = "save"
    title: ClassVar[str] = "**save_checkpoint**, whole transcript given"

    def write(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        self.version = self.checkpointer.save_checkpoint(self.session, whole, PLAN, SPENT_USD)

    def advance(self, turn: int) -> None:
        super().write(turn, self.conversation.turn(turn), [])


class AsyncAppend(Contender):
    key: ClassVar[str] = "async"
    title: ClassVar[str] = "**append_checkpoint**, async"

    def __init__(self, database: Database, conversation: Conversation) -> None:
        super().__init__(database, conversation)
        create_library_tables(database.alias)
        self.loop = asyncio.Runner()
        self.checkpointer = Checkpointer(using=database.alias)
        self.session = ""
        self.version = 0

    def begin(self, session: str) -> None:
        self.session, self.version = session, 0
        self.loop.run(self.checkpointer.start_session(session))

    def write(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        self.loop.run(self._append(new))

    def save(self, turn: int) -> float:
        return self.loop.run(self._append(self.conversation.turn(turn)))

    async def _append(self, new: list[Message]) -> float:
        """The seconds of one save inside a running loop."""
        start = time.perf_counter()
        self.version = await self.checkpointer.append_checkpoint(
            self.session, new, expected_version=self.version, plan=PLAN, budget_spent_usd=SPENT_USD
        )
        return time.perf_counter() - start

    def read(self) -> list[Message]:
        loaded = self.loop.run(self.checkpointer.load_latest(self.session))
        return loaded["transcript"] if loaded else []

    def close(self) -> None:
        self.loop.run(self.checkpointer.close())
        self.loop.close()
