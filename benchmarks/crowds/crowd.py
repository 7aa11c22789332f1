"""What a crowd has to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from benchmarks.conversation import Conversation
from benchmarks.databases import Database


class Crowd(ABC):
    key: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    def __init__(self, database: Database, conversation: Conversation) -> None: ...

    @abstractmethod
    def begin(self, agents: int) -> None:
        """A new session for each agent."""

    @abstractmethod
    def run(self, turns: int) -> None:
        """Every agent saves so many turns, all at the same time."""

    @abstractmethod
    def close(self) -> None: ...
