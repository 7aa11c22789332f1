"""The one thing that every async method does: take blocking work to a thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from checkpoints.checkpointer import SyncCheckpointer
from checkpoints.saving.store import Store

T = TypeVar("T")


class Hopping(ABC):
    sync: SyncCheckpointer

    @property
    def store(self) -> Store:
        return self.sync.store

    @abstractmethod
    async def hop(self, work: Callable[[], T]) -> T:
        """Run blocking work on this checkpointer's executor. Once begun it is finished, also when the
        caller is cancelled."""
