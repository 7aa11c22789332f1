"""Worker that saves with `langgraph-checkpoint-django`. Runs in the older environment.

    python -m benchmarks.workers.langgraph_django_worker postgresql|sqlite ADDRESS

Reads one JSON list `[method, argument]` per line and answers each with one line of JSON.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.management import call_command

from benchmarks.generated_conversation import PLAN, SPENT_USD, Conversation, build_conversation


def main(kind: str, address: str) -> None:
    logging.captureWarnings(True)  # warnings of old packages
    settings.configure(
        DATABASES={"default": _build_database_settings(kind, address)},
        INSTALLED_APPS=["langgraph.checkpoint.django.checkpoint"],
        USE_TZ=True,
    )
    django.setup()
    call_command("migrate", verbosity=0)
    worker = LangGraphDjangoWorker()
    for line in sys.stdin:
        method, argument = json.loads(line)
        print(json.dumps(getattr(worker, method)(argument)), flush=True)


class LangGraphDjangoWorker:
    def __init__(self) -> None:
        from langgraph.checkpoint.django.saver import DjangoSaver

        self.saver = DjangoSaver()
        self.config: Any = {}
        self.channel_version: Any = None
        self.conversation = Conversation([])

    def prepare_conversation(self, count: int) -> None:
        self.conversation = build_conversation(count)

    def begin_session(self, session: str) -> None:
        self.config = {"configurable": {"thread_id": session, "checkpoint_ns": ""}}
        self.channel_version = None

    def measure_save(self, turn: int) -> float:
        from langgraph.checkpoint.base import empty_checkpoint

        messages = self.conversation.get_messages_through_turn(turn)
        start = time.perf_counter()
        self.channel_version = self.saver.get_next_version(self.channel_version, None)
        versions = {"messages": self.channel_version}
        checkpoint = empty_checkpoint()
        checkpoint["channel_versions"] = versions
        checkpoint["channel_values"] = {"messages": messages, "plan": PLAN, "spent": SPENT_USD}
        self.config = self.saver.put(self.config, checkpoint, {"source": "loop", "step": turn}, versions)
        return time.perf_counter() - start

    def measure_load(self, _: None) -> float:
        start = time.perf_counter()
        self.read_transcript(None)
        return time.perf_counter() - start

    def read_transcript(self, _: None) -> list[Any]:
        thread_id = self.config["configurable"]["thread_id"]
        checkpoint = self.saver.get_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
        messages: list[Any] = checkpoint.checkpoint["channel_values"]["messages"]
        return messages


def _build_database_settings(kind: str, address: str) -> dict[str, Any]:
    """Build settings with the same durability as the other contenders, and a persistent connection."""
    if kind == "sqlite":
        pragmas = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
        options = {"transaction_mode": "IMMEDIATE", "timeout": 30, "init_command": pragmas}
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": address, "OPTIONS": options}
    parts = urlsplit(address)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "USER": parts.username,
        "PASSWORD": parts.password,
        "HOST": parts.hostname,
        "PORT": parts.port,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
