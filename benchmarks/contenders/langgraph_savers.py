"""LangGraph's savers for PostgreSQL and SQLite, called as its loop calls them at the end of a step.

With the default channel a checkpoint is put with the whole list of messages. With the delta channel the new messages
are put as writes of the checkpoint before, then a checkpoint without them; every 100th holds the whole list.
"""

from __future__ import annotations

import sqlite3
from typing import Any, ClassVar
from uuid import uuid4

import psycopg
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.checkpoint.sqlite import SqliteSaver
from psycopg.rows import dict_row

from benchmarks.contenders.contender import Contender
from benchmarks.conversation import PLAN, SPENT_USD, Conversation, Message
from benchmarks.databases import Database

#: How often the delta channel writes the whole list when nothing else is said: once in so many updates.
SNAPSHOT_EVERY = 100


class DefaultChannel(Contender):
    key: ClassVar[str] = "langgraph"
    title: ClassVar[str] = "LangGraph saver, default channel: `put`"
    linear: ClassVar[bool] = False

    def __init__(self, database: Database, conversation: Conversation) -> None:
        super().__init__(database, conversation)
        self.connection = _connected(database)
        self.saver = PostgresSaver(self.connection) if self.kind == "postgresql" else SqliteSaver(self.connection)
        self.saver.setup()
        self.config: Any = {}
        self.channel_version: Any = None

    def begin(self, session: str) -> None:
        self.config = {"configurable": {"thread_id": session, "checkpoint_ns": ""}}
        self.channel_version = None

    def write(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        self.put(turn, whole)

    def put(self, turn: int, messages: Any, **metadata: Any) -> None:
        """Put the checkpoint of a turn; `messages` None leaves the channel out."""
        self.channel_version = self.saver.get_next_version(self.channel_version, None)
        versions = {"messages": self.channel_version}
        checkpoint = empty_checkpoint() | {"id": str(uuid6()), "channel_versions": versions}
        checkpoint["channel_values"] = {"plan": PLAN, "spent": SPENT_USD}
        if messages is not None:
            checkpoint["channel_values"]["messages"] = messages
        self.config = self.saver.put(self.config, checkpoint, {"source": "loop", "step": turn, **metadata}, versions)

    def read(self) -> list[Message]:
        messages: list[Message] = self.saver.get_tuple(self._latest()).checkpoint["channel_values"]["messages"]
        return messages

    def _latest(self) -> Any:
        thread_id = self.config["configurable"]["thread_id"]
        return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}

    def close(self) -> None:
        self.connection.close()


class DeltaChannel(DefaultChannel):
    key: ClassVar[str] = "delta"
    title: ClassVar[str] = "LangGraph saver, delta channel: `put_writes` + `put`"

    def begin(self, session: str) -> None:
        super().begin(session)
        self.updates = 0
        self.put(0, None)

    def write(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        self.saver.put_writes(self.config, [("messages", new)], str(uuid4()), "~__pregel_pull, agent")
        self.updates = (self.updates + 1) % SNAPSHOT_EVERY
        if self.updates:
            counters = {"messages": (self.updates, self.updates)}
            self.put(turn, None, counters_since_delta_snapshot=counters)
        else:
            self.put(turn, _DeltaSnapshot(whole))

    def jump(self, turn: int) -> None:
        super().jump(turn)
        self.put(turn - 1, _DeltaSnapshot(self.conversation.until(turn - 1)))

    def read(self) -> list[Message]:
        newest = self.saver.get_tuple(self._latest())
        found = newest.checkpoint["channel_values"].get("messages")
        if found is not None:
            return list(found.value)
        history = self.saver.get_delta_channel_history(config=newest.config, channels=["messages"])["messages"]
        messages: list[Message] = list(history["seed"].value) if "seed" in history else []
        for _, _, new in history["writes"]:
            messages += new
        return messages


def _connected(database: Database) -> Any:
    """A connection as the savers' own `from_conn_string` opens it."""
    if database.kind == "postgresql":
        return psycopg.connect(database.url, autocommit=True, prepare_threshold=0, row_factory=dict_row)
    connection = sqlite3.connect(database.url, check_same_thread=False)
    connection.execute("PRAGMA synchronous=FULL")
    return connection
