"""Benchmark baseline: messages appended with the Django ORM in one transaction."""

from __future__ import annotations

import json
from typing import ClassVar

from django.db import connections, transaction
from django.db.models import F
from django.db.models.functions import Now

from benchmarks.benchmark_databases import Database
from benchmarks.contenders.contender import Contender
from benchmarks.django_setup import create_plain_tables
from benchmarks.generated_conversation import PLAN, SPENT_USD, Conversation, Message, to_compact_json
from benchmarks.plain_tables.models import Entry, Thread, Version


class PlainOrmContender(Contender):
    key: ClassVar[str] = "orm"
    title: ClassVar[str] = "append by plain ORM, one `atomic`"

    def __init__(self, database: Database, conversation: Conversation) -> None:
        super().__init__(database, conversation)
        create_plain_tables(database.alias)
        self.thread = 0

    def begin_session(self, session: str) -> None:
        self.thread = Thread.objects.using(self.database.alias).create().pk

    def write_turn(self, turn: int, new: list[Message], whole: list[Message]) -> None:
        alias = self.database.alias
        with transaction.atomic(using=alias):
            thread = Thread.objects.using(alias).select_for_update().get(pk=self.thread)
            Entry.objects.using(alias).bulk_create(
                Entry(
                    thread=thread, position=thread.length + offset, role=message["role"], body=to_compact_json(message)
                )
                for offset, message in enumerate(new)
            )
            Thread.objects.using(alias).filter(pk=self.thread).update(
                version=F("version") + 1, length=F("length") + len(new), updated_at=Now()
            )
            Version.objects.using(alias).create(
                thread=thread,
                number=thread.version + 1,
                length=thread.length + len(new),
                plan=to_compact_json(PLAN),
                budget_spent_usd=str(SPENT_USD),
            )

    def read_transcript(self) -> list[Message]:
        entries = Entry.objects.using(self.database.alias).filter(thread_id=self.thread).order_by("position")
        return [json.loads(body) for body in entries.values_list("body", flat=True)]

    def close(self) -> None:
        connections[self.database.alias].close()
