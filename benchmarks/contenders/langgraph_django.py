"""`langgraph-checkpoint-django`, in a process of its own with the older packages it needs."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, ClassVar

from benchmarks.benchmark_databases import Database
from benchmarks.contenders.contender import Contender
from benchmarks.generated_conversation import MESSAGES_PER_TURN, Conversation, Message


def get_reason_not_measurable_or_empty() -> str:
    """Describe why it cannot be measured; empty if it can."""
    return os.environ.get("BENCHMARKS_OLDER_MISSING", "")


class LangGraphDjangoContender(Contender):
    key: ClassVar[str] = "older"
    title: ClassVar[str] = "langgraph-checkpoint-django: `put`"
    linear: ClassVar[bool] = False

    def __init__(self, database: Database, conversation: Conversation) -> None:
        super().__init__(database, conversation)
        self.process = subprocess.Popen(
            [
                os.environ["BENCHMARKS_OLDER_PYTHON"],
                "-m",
                "benchmarks.workers.langgraph_django_worker",
                database.kind,
                database.url,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._call_worker_method("prepare_conversation", len(conversation.messages) // MESSAGES_PER_TURN)

    def begin_session(self, session: str) -> None:
        self._call_worker_method("begin_session", session)

    def write_turn(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        self.measure_save(turn)

    def measure_save(self, turn: int) -> float:
        seconds: float = self._call_worker_method("measure_save", turn)
        return seconds

    def measure_load(self) -> float:
        seconds: float = self._call_worker_method("measure_load", None)
        return seconds

    def read_transcript(self) -> list[Message]:
        messages: list[Message] = self._call_worker_method("read_transcript", None)
        return messages

    def _call_worker_method(self, method: str, argument: Any) -> Any:
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("The process has no pipes.")
        self.process.stdin.write(json.dumps([method, argument]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"The process of langgraph-checkpoint-django ended with {self.process.wait()}.")
        return json.loads(answer)

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()
