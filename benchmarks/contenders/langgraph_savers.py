"""LangGraph's savers for PostgreSQL and SQLite, called as its loop calls them at the end of a step.

With the default channel, a checkpoint is put with the whole list of messages. With the delta channel, the new messages
are put as writes of the previous checkpoint, then a checkpoint without them; every 100th holds the whole list.
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

from benchmarks.benchmark_databases import Database
from benchmarks.contenders.contender import Contender
from benchmarks.generated_conversation import PLAN, SPENT_USD, Conversation, Message

#: Default number of updates between two whole lists of the delta channel.
SNAPSHOT_EVERY = 100


class LangGraphDefaultChannelContender(Contender):
    key: ClassVar[str] = "langgraph"
    title: ClassVar[str] = "LangGraph saver, default channel: `put`"
    linear: ClassVar[bool] = False

    def __init__(self, database: Database, conversation: Conversation) -> None:
        super().__init__(database, conversation)
        self.connection = _open_saver_connection(database)
        self.saver = (
            PostgresSaver(self.connection) if self.database_kind == "postgresql" else SqliteSaver(self.connection)
        )
        self.saver.setup()
        self.config: Any = {}
        self.channel_version: Any = None

    def begin_session(self, session: str) -> None:
        self.config = {"configurable": {"thread_id": session, "checkpoint_ns": ""}}
        self.channel_version = None

    def write_turn(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        self.put_checkpoint(turn, whole)

    def put_checkpoint(self, turn: int, messages: Any, **metadata: Any) -> None:
        """Put the checkpoint of a turn; with `messages` None, without the channel."""
        self.channel_version = self.saver.get_next_version(self.channel_version, None)
        versions = {"messages": self.channel_version}
        checkpoint = empty_checkpoint() | {"id": str(uuid6()), "channel_versions": versions}
        checkpoint["channel_values"] = {"plan": PLAN, "spent": SPENT_USD}
        if messages is not None:
            checkpoint["channel_values"]["messages"] = messages
        self.config = self.saver.put(self.config, checkpoint, {"source": "loop", "step": turn, **metadata}, versions)

    def read_transcript(self) -> list[Message]:
        messages: list[Message] = self.saver.get_tuple(self._build_latest_checkpoint_config()).checkpoint[
            "channel_values"
        ]["messages"]
        return messages

    def _build_latest_checkpoint_config(self) -> Any:
        thread_id = self.config["configurable"]["thread_id"]
        return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}

    def close(self) -> None:
        self.connection.close()


class LangGraphDeltaChannelContender(LangGraphDefaultChannelContender):
    key: ClassVar[str] = "delta"
    title: ClassVar[str] = "LangGraph saver, delta channel: `put_writes` + `put`"

    def begin_session(self, session: str) -> None:
        super().begin_session(session)
        self.updates = 0
        self.put_checkpoint(0, None)

    def write_turn(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        self.saver.put_writes(self.config, [("messages", new)], str(uuid4()), "~__pregel_pull, agent")
        self.updates = (self.updates + 1) % SNAPSHOT_EVERY
        if self.updates:
            counters = {"messages": (self.updates, self.updates)}
            self.put_checkpoint(turn, None, counters_since_delta_snapshot=counters)
        else:
            self.put_checkpoint(turn, _DeltaSnapshot(whole))

    def begin_session_at_turn_without_earlier_versions(self, turn: int) -> None:
        super().begin_session_at_turn_without_earlier_versions(turn)
        self.put_checkpoint(turn - 1, _DeltaSnapshot(self.conversation.get_messages_through_turn(turn - 1)))

    def read_transcript(self) -> list[Message]:
        newest_checkpoint = self.saver.get_tuple(self._build_latest_checkpoint_config())
        snapshot = newest_checkpoint.checkpoint["channel_values"].get("messages")
        if snapshot is not None:
            return list(snapshot.value)
        history = self.saver.get_delta_channel_history(config=newest_checkpoint.config, channels=["messages"])[
            "messages"
        ]
        messages: list[Message] = list(history["seed"].value) if "seed" in history else []
        for _, _, new_messages in history["writes"]:
            messages += new_messages
        return messages


def _open_saver_connection(database: Database) -> Any:
    """Connect like `from_conn_string` of the savers."""
    if database.kind == "postgresql":
        return psycopg.connect(database.url, autocommit=True, prepare_threshold=0, row_factory=dict_row)
    connection = sqlite3.connect(database.url, check_same_thread=False)
    connection.execute("PRAGMA synchronous=FULL")
    return connection
