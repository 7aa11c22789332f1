"""Contenders that use this library."""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar

from benchmarks.benchmark_databases import Database
from benchmarks.contenders.contender import Contender
from benchmarks.django_setup import create_library_tables
from benchmarks.generated_conversation import PLAN, SPENT_USD, Conversation, Message
from checkpoints import Checkpointer, SyncCheckpointer, ToolRegistry
from checkpoints.versions import load_version

CALL_SESSION = "calls"


class AppendContender(Contender):
    key: ClassVar[str] = "append"
    title: ClassVar[str] = "**append_checkpoint**"

    def __init__(self, database: Database, conversation: Conversation) -> None:
        super().__init__(database, conversation)
        create_library_tables(database.alias)
        self.checkpointer = SyncCheckpointer(using=database.alias)
        self.session = ""
        self.version = 0

    def begin_session(self, session: str) -> None:
        self.session, self.version = session, 0
        self.checkpointer.start_session(session)

    def write_turn(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        self.version = self.checkpointer.append_checkpoint(
            self.session, new, expected_version=self.version, plan=PLAN, budget_spent_usd=SPENT_USD
        )

    def read_transcript(self) -> list[Message]:
        version = self.checkpointer.load_latest(self.session)
        return version["transcript"] if version else []

    def read_last_messages_or_none(self, count: int) -> list[Message] | None:
        version = load_version.load_latest_version_with_last_messages(self.checkpointer.store, self.session, count)
        return version["transcript"] if version else []

    def close(self) -> None:
        self.checkpointer.close()


class SaveContender(AppendContender):
    key: ClassVar[str] = "save"
    title: ClassVar[str] = "**save_checkpoint**, whole transcript given"

    def write_turn(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        self.version = self.checkpointer.save_checkpoint(self.session, whole, PLAN, SPENT_USD)

    def save_turn_unmeasured(self, turn: int) -> None:
        super().write_turn(turn, self.conversation.get_messages_of_turn(turn), [])


class AsyncAppendContender(Contender):
    key: ClassVar[str] = "async"
    title: ClassVar[str] = "**append_checkpoint**, async"

    def __init__(self, database: Database, conversation: Conversation) -> None:
        super().__init__(database, conversation)
        create_library_tables(database.alias)
        self.loop = asyncio.Runner()
        self.checkpointer = Checkpointer(using=database.alias)
        self.session = ""
        self.version = 0

    def begin_session(self, session: str) -> None:
        self.session, self.version = session, 0
        self.loop.run(self.checkpointer.start_session(session))

    def write_turn(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        self.loop.run(self._append_and_measure(new))

    def measure_save(self, turn: int) -> float:
        return self.loop.run(self._append_and_measure(self.conversation.get_messages_of_turn(turn)))

    async def _append_and_measure(self, new: list[Message]) -> float:
        """Append a turn inside a running loop; return the seconds it took."""
        start = time.perf_counter()
        self.version = await self.checkpointer.append_checkpoint(
            self.session, new, expected_version=self.version, plan=PLAN, budget_spent_usd=SPENT_USD
        )
        return time.perf_counter() - start

    def read_transcript(self) -> list[Message]:
        version = self.loop.run(self.checkpointer.load_latest(self.session))
        return version["transcript"] if version else []

    def close(self) -> None:
        self.loop.run(self.checkpointer.close())
        self.loop.close()


class CheckpointerCallLogger:
    """Tool calls by the call log's own methods."""

    def __init__(self, alias: str) -> None:
        self.checkpointer = SyncCheckpointer(using=alias)
        self.checkpointer.start_session(CALL_SESSION)

    def log_intent_and_result(self, number: int, args: dict[str, Any], result: str) -> None:
        self.checkpointer.record_tool_call_issued(CALL_SESSION, f"call_{number}", "charge", args, f"key {number}")
        self.checkpointer.record_tool_call_result(CALL_SESSION, f"call_{number}", result, True)


class RegistryCallLogger:
    """Tool calls by a registry."""

    def __init__(self, alias: str) -> None:
        self.checkpointer = SyncCheckpointer(using=alias)
        self.checkpointer.start_session(f"{CALL_SESSION} dispatched")
        self.registry = ToolRegistry(checkpointer=self.checkpointer, session_id=f"{CALL_SESSION} dispatched")
        self.registry.tool(name="charge")(self.simulate_charge)
        self.result = ""

    def simulate_charge(self, order: int, amount: str, note: str) -> str:
        return self.result

    def log_intent_and_result(self, number: int, args: dict[str, Any], result: str) -> None:
        self.result = result
        answer = self.registry.dispatch("charge", args, f"call_{number}")
        if answer.is_error or answer.replayed:
            raise RuntimeError(f"The call was not made: {answer.content}")
