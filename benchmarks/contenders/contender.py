"""Interface of the contenders."""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from typing import ClassVar, Self

from benchmarks.benchmark_databases import Database, Kind
from benchmarks.generated_conversation import Conversation, Message


class Contender(ABC):
    """Store of a session, in a database of its own."""

    #: Part of the names of its databases.
    key: ClassVar[str]
    title: ClassVar[str]
    #: False if each save rewrites everything: such a contender skips most turns before the last ones.
    linear: ClassVar[bool] = True

    def __init__(self, database: Database, conversation: Conversation) -> None:
        self.database = database
        self.conversation = conversation

    @property
    def database_kind(self) -> Kind:
        return self.database.kind

    @abstractmethod
    def begin_session(self, session: str) -> None:
        """Start a new session."""

    @abstractmethod
    def write_turn(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        """Save turn `turn` durably. `whole` ends with `new`."""

    @abstractmethod
    def read_transcript(self) -> list[Message]:
        """Return the transcript of the newest version."""

    def read_last_messages_or_none(self, count: int) -> list[Message] | None:
        """Return the last messages, or None if only the whole transcript can be read."""
        return None

    def measure_save(self, turn: int) -> float:
        """Save a turn; return the seconds it took."""
        new_messages, all_messages = (
            self.conversation.get_messages_of_turn(turn),
            self.conversation.get_messages_through_turn(turn),
        )
        start = time.perf_counter()
        self.write_turn(turn, new_messages, all_messages)
        return time.perf_counter() - start

    def measure_load(self) -> float:
        """Read the newest version; return the seconds it took."""
        start = time.perf_counter()
        self.read_transcript()
        return time.perf_counter() - start

    def save_turn_unmeasured(self, turn: int) -> None:
        """Save a turn that is not measured."""
        self.measure_save(turn)

    def begin_session_at_turn_without_earlier_versions(self, turn: int) -> None:
        """Start a new session in the state before `turn`, without the versions of earlier turns."""
        self.begin_session(f"at {turn}")

    def copy_and_begin_own_session(self) -> Self:
        """Return a copy for the same database, with a new session of its own."""
        other = copy.copy(self)
        other.begin_session("young")
        return other

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""
