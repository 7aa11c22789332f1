"""Interface of a group of agents that save at the same time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from benchmarks.benchmark_databases import Database
from benchmarks.generated_conversation import Conversation


class AgentGroup(ABC):
    key: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    def __init__(self, database: Database, conversation: Conversation) -> None: ...

    @abstractmethod
    def begin_session_for_each_agent(self, agents: int) -> None:
        """Start a new session for each agent."""

    @abstractmethod
    def save_turns_of_all_agents(self, turns: int) -> None:
        """Let every agent save this many turns, all at the same time."""

    @abstractmethod
    def close(self) -> None: ...
