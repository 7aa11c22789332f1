"""What a contender has to do."""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from typing import ClassVar, Self

from benchmarks.conversation import Conversation, Message
from benchmarks.databases import Database, Kind


class Contender(ABC):
    """One way to keep a session, in a database of its own."""

    #: Names its databases.
    key: ClassVar[str]
    title: ClassVar[str]
    #: False where each save writes everything again: it is not driven turn by turn to the last turns.
    linear: ClassVar[bool] = True

    def __init__(self, database: Database, conversation: Conversation) -> None:
        self.database = database
        self.conversation = conversation

    @property
    def kind(self) -> Kind:
        return self.database.kind

    @abstractmethod
    def begin(self, session: str) -> None:
        """Go on with a new session."""

    @abstractmethod
    def write(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        """Save turn `turn` durably. `whole` ends with `new`."""

    @abstractmethod
    def read(self) -> list[Message]:
        """The transcript of the newest version."""

    def tail(self, count: int) -> list[Message] | None:
        """Its last messages; None where it can only read everything."""
        return None

    def save(self, turn: int) -> float:
        """Save a turn. Returns the seconds it took."""
        new, whole = self.conversation.turn(turn), self.conversation.until(turn)
        start = time.perf_counter()
        self.write(turn, new, whole)
        return time.perf_counter() - start

    def load(self) -> float:
        """Read the newest version. Returns the seconds it took."""
        start = time.perf_counter()
        self.read()
        return time.perf_counter() - start

    def advance(self, turn: int) -> None:
        """Save a turn that is not measured."""
        self.save(turn)

    def jump(self, turn: int) -> None:
        """Go on with a new session that stands before `turn`, without the versions that lead there."""
        self.begin(f"at {turn}")

    def young(self) -> Self:
        """Another one in the same database, with a new session of its own."""
        other = copy.copy(self)
        other.begin("young")
        return other

    @abstractmethod
    def close(self) -> None:
        """Give everything back."""
