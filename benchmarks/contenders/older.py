"""`langgraph-checkpoint-django`, in a process of its own with the older packages it needs."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, ClassVar

from benchmarks.contenders.contender import Contender
from benchmarks.conversation import MESSAGES_PER_TURN, Conversation, Message
from benchmarks.databases import Database


def missing() -> str:
    """Why it cannot be measured; empty where it can."""
    return os.environ.get("BENCHMARKS_OLDER_MISSING", "")


class DjangoSaver(Contender):
    key: ClassVar[str] = "older"
    title: ClassVar[str] = "langgraph-checkpoint-django: `put`"
    linear: ClassVar[bool] = False

    def __init__(self, database: Database, conversation: Conversation) -> None:
        super().__init__(database, conversation)
        self.process = subprocess.Popen(
            [
                os.environ["BENCHMARKS_OLDER_PYTHON"],
                "-m",
                "benchmarks.workers.older",
                database.kind,
                database.url,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ask("turns", len(conversation.messages) // MESSAGES_PER_TURN)

    def begin(self, session: str) -> None:
        self._ask("begin", session)

    def write(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        self.save(turn)

    def save(self, turn: int) -> float:
        seconds: float = self._ask("save", turn)
        return seconds

    def load(self) -> float:
        seconds: float = self._ask("load", None)
        return seconds

    def read(self) -> list[Message]:
        messages: list[Message] = self._ask("read", None)
        return messages

    def _ask(self, what: str, about: Any) -> Any:
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("The process has no pipes.")
        self.process.stdin.write(json.dumps([what, about]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"The process of langgraph-checkpoint-django ended with {self.process.wait()}.")
        return json.loads(answer)

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()
