"""Benchmark of the frameworks' stores: what a turn costs and leaves on disk, beside each framework's own store.

python -m benchmarks.framework_store_costs

It needs the frameworks of the adapters, and the savers of LangGraph for both databases. A framework that has no durable
store of its own has one row. The stores of one framework save in turn, so that disturbances of the machine affect all
of them; those of another one do not, because a saver that writes megabytes in a turn disturbs the others. With
`--turns` and `--shared-turns` it takes less time, `--kinds` leaves a database out, and `--workers-only` all but the
ratios of the processes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import sqlite3
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import psycopg
from agents import SQLiteSession
from google.adk.events.event import Event
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from psycopg.rows import dict_row
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
from strands.types.content import Message
from strands.types.session import Session as StrandsSession
from strands.types.session import SessionAgent, SessionMessage, SessionType

from benchmarks.benchmark_databases import (
    KINDS,
    TITLES,
    Database,
    Kind,
    TableSize,
    run_temporary_postgresql_and_sqlite_folder,
)
from benchmarks.generated_conversation import build_conversation
from benchmarks.recorded_saver_calls import WRITING, RecordedCall, RecordedCallPlayer, RecordingSaver
from benchmarks.usable_core_count import format_usable_core_count
from benchmarks.virtual_environments import ROOT
from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.adapters.claude import HarnessSessionStore
from checkpoints.adapters.google_adk import HarnessSessionService
from checkpoints.adapters.langgraph import HarnessSaver
from checkpoints.adapters.openai_agents import HarnessSession
from checkpoints.adapters.pydantic_ai import HarnessConversationStore
from checkpoints.adapters.strands import HarnessSessionRepository

PAGE = ROOT / "docs" / "benchmarks-frameworks.md"
#: Number of turns at the beginning and at the end whose medians are compared.
WINDOW = 20
WORKERS = 8
#: Number of turns that a contender saves before the next one does.
TURNS_AT_A_TIME = 5
#: Processes that have imported the frameworks already when they start.
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Turn:
    """What a user says and what the agent answers; `text_bytes` is the number of bytes of both."""

    question: str
    answer: str

    @property
    def text_bytes(self) -> int:
        return len(self.question.encode()) + len(self.answer.encode())


def build_question_and_answer_turns(count: int) -> list[Turn]:
    """Build turns of 4.5 KB of text on average."""
    conversation = build_conversation(count)
    texts = []
    for number in range(1, count + 1):
        blocks = [message["blocks"][0] for message in conversation.get_messages_of_turn(number)]
        texts.append([block.get("text") or block.get("content") for block in blocks])
    return [Turn(first, second + third) for first, second, third in texts]


class FrameworkStore(ABC):
    """Store of one conversation of a framework, in a database of its own."""

    framework: ClassVar[str]
    title: ClassVar[str]
    kinds: ClassVar[Sequence[Kind]] = KINDS
    #: Number of writes of the framework in each turn.
    writes: ClassVar[int] = 1
    #: Store of the framework itself, beside which this one is shown.
    peer: ClassVar[str] = ""

    def __init__(self, database: Database) -> None:
        self.database = database

    @abstractmethod
    def measure_save(self, turn: Turn) -> float:
        """Save a turn as the framework does. Returns the seconds that the store took."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""


def _build_checkpointer_url(database: Database) -> str:
    return database.url if database.kind == "postgresql" else f"sqlite:///{database.url}"


class LangGraphSaver(FrameworkStore):
    framework = "LangGraph"
    title = "LangGraph's own saver"
    writes = 5

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.answer = ""
        self.saver = self.connect_and_set_up_saver()
        self.recorder = RecordingSaver(self.saver.get_next_version)
        self.player = RecordedCallPlayer(self.saver)
        self.config: Any = {"configurable": {"thread_id": str(uuid4())}}
        self.recorded_graph = self._compile_graph(self.recorder)

    def _compile_graph(self, saver: Any) -> Any:
        graph = StateGraph(MessagesState).add_node("answer", lambda state: {"messages": [AIMessage(self.answer)]})
        return graph.add_edge(START, "answer").compile(checkpointer=saver)

    def connect_and_set_up_saver(self) -> Any:
        """Connect, create the tables of the saver, and return it."""
        if self.database.kind == "postgresql":
            self.connection: Any = psycopg.connect(
                self.database.url, autocommit=True, prepare_threshold=0, row_factory=dict_row
            )
            saver: Any = PostgresSaver(self.connection)
        else:
            self.connection = sqlite3.connect(self.database.url, check_same_thread=False)
            self.connection.execute("PRAGMA synchronous=FULL")
            saver = SqliteSaver(self.connection)
        saver.setup()
        return saver

    def measure_save(self, turn: Turn) -> float:
        seconds = self.player.make_calls_and_measure_by_method(self.run_graph_and_record_saver_calls([turn]))
        return sum(seconds[name] for name in WRITING)

    def run_graph_and_record_saver_calls(self, turns: Sequence[Turn]) -> list[RecordedCall]:
        """Run the graph for turns that follow, and return the calls that it makes to its saver."""
        self.recorder.calls.clear()
        for turn in turns:
            self.answer = turn.answer
            self.recorded_graph.invoke({"messages": [HumanMessage(turn.question)]}, self.config, durability="sync")
        return list(self.recorder.calls)

    def save_earlier_turns_at_once(self, turns: Sequence[Turn]) -> None:
        """Save turns at once, as if they had been said before."""
        said = [each for turn in turns for each in (HumanMessage(turn.question), AIMessage(turn.answer))]
        self.answer = turns[-1].answer
        self.recorder.calls.clear()
        self.recorded_graph.invoke({"messages": said[:-1]}, self.config, durability="sync")
        self.player.make_calls_and_measure_by_method(self.recorder.calls)

    def run_graph_with_saver_itself(self, turns: Sequence[Turn]) -> None:
        """Run the graph with the saver itself."""
        graph = self._compile_graph(self.saver)
        for turn in turns:
            self.answer = turn.answer
            graph.invoke({"messages": [HumanMessage(turn.question)]}, self.config, durability="sync")

    def close(self) -> None:
        self.connection.close()


class HarnessLangGraphSaver(LangGraphSaver):
    title = "**HarnessSaver**"
    peer = "LangGraphSaver"

    def connect_and_set_up_saver(self) -> Any:
        self.connection = SyncCheckpointer(_build_checkpointer_url(self.database), migrate=True)
        return HarnessSaver(self.connection)


class OpenAISqliteSession(FrameworkStore):
    framework = "OpenAI Agents"
    title = "the SDK's own `SQLiteSession`"
    kinds: ClassVar[Sequence[Kind]] = ("sqlite",)

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.loop = asyncio.Runner()
        self.session: Any = self.open_session()

    def open_session(self) -> Any:
        return SQLiteSession("measured", self.database.url)

    def measure_save(self, turn: Turn) -> float:
        said = [{"role": "user", "content": turn.question}]
        text = {"type": "output_text", "text": turn.answer, "annotations": []}
        said.append({"type": "message", "role": "assistant", "status": "completed", "id": "msg", "content": [text]})  # type: ignore[dict-item]
        return self.loop.run(_await_and_measure_seconds(self.session.add_items(said)))

    def close(self) -> None:
        self.session.close()
        self.loop.close()


class HarnessOpenAISession(OpenAISqliteSession):
    title = "**HarnessSession**"
    peer = "OpenAISqliteSession"
    kinds = KINDS

    def open_session(self) -> Any:
        self.client = Checkpointer(_build_checkpointer_url(self.database), migrate=True)
        return HarnessSession("measured", self.client)

    def close(self) -> None:
        self.loop.run(self.client.close())
        self.loop.close()


class HarnessPydanticAIConversations(FrameworkStore):
    framework = "Pydantic AI"
    title = "**HarnessConversationStore**"

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.client, self.loop = Checkpointer(_build_checkpointer_url(database), migrate=True), asyncio.Runner()
        self.store = HarnessConversationStore(self.client)
        self.conversation = Conversation(conversation_id="measured", messages=[])

    def measure_save(self, turn: Turn) -> float:
        said = [ModelRequest(parts=[UserPromptPart(turn.question)]), ModelResponse(parts=[TextPart(turn.answer)])]
        self.conversation.messages.extend(said)
        return self.loop.run(_await_and_measure_seconds(self.store.save(self.conversation)))

    def close(self) -> None:
        self.loop.run(self.client.close())
        self.loop.close()


class HarnessClaudeTranscripts(FrameworkStore):
    framework = "Claude Agent SDK"
    title = "**HarnessSessionStore**"

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.client, self.loop = Checkpointer(_build_checkpointer_url(database), migrate=True), asyncio.Runner()
        self.store = HarnessSessionStore(self.client)
        self.parent: str | None = None

    def measure_save(self, turn: Turn) -> float:
        lines = [
            self._build_next_line("user", turn.question),
            self._build_next_line("assistant", [{"type": "text", "text": turn.answer}]),
        ]
        key: Any = {"project_key": "-srv-shop", "session_id": "5e55a0a0-0000-4000-8000-000000000000"}
        return self.loop.run(_await_and_measure_seconds(self.store.append(key, lines)))

    def _build_next_line(self, role: str, content: object) -> Any:
        line = {
            "type": role,
            "uuid": str(uuid4()),
            "parentUuid": self.parent,
            "sessionId": "5e55a0a0-0000-4000-8000-000000000000",
            "timestamp": datetime.now(UTC).isoformat(),
            "message": {"role": role, "content": content},
        }
        self.parent = str(line["uuid"])
        return line

    def close(self) -> None:
        self.loop.run(self.client.close())
        self.loop.close()


class HarnessStrandsRepository(FrameworkStore):
    framework = "Strands Agents"
    title = "**HarnessSessionRepository**"
    writes = 2

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.client = SyncCheckpointer(_build_checkpointer_url(database), migrate=True)
        self.repository = HarnessSessionRepository(self.client)
        self.repository.create_session(StrandsSession("measured", SessionType.AGENT))
        self.repository.create_agent("measured", SessionAgent("default", {}, {}))
        self.count = 0

    def measure_save(self, turn: Turn) -> float:
        said: list[Message] = [
            {"role": "user", "content": [{"text": turn.question}]},
            {"role": "assistant", "content": [{"text": turn.answer}]},
        ]
        records = [SessionMessage.from_message(each, number) for number, each in enumerate(said, self.count)]
        self.count += len(said)
        start = time.perf_counter()
        for record in records:
            self.repository.create_message("measured", "default", record)
        return time.perf_counter() - start

    def close(self) -> None:
        self.client.close()


class AdkSqliteSessions(FrameworkStore):
    framework = "Google ADK"
    title = "ADK's own `SqliteSessionService`"
    kinds: ClassVar[Sequence[Kind]] = ("sqlite",)
    writes = 2

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.loop = asyncio.Runner()
        self.service = self.loop.run(self.open_service())
        created = self.service.create_session(app_name="measured", user_id="u", session_id="s")
        self.session = self.loop.run(created)

    async def open_service(self) -> Any:
        return SqliteSessionService(self.database.url)

    def measure_save(self, turn: Turn) -> float:
        said = (("user", "user", turn.question), ("desk", "model", turn.answer))
        events = [
            Event(author=author, invocation_id="run", content=types.Content(role=role, parts=[types.Part(text=text)]))
            for author, role, text in said
        ]
        return self.loop.run(_await_and_measure_seconds(self._append(events)))

    async def _append(self, events: Sequence[Event]) -> None:
        for event in events:
            await self.service.append_event(self.session, event)

    def close(self) -> None:
        self.loop.run(self.service.close())
        self.loop.close()


class HarnessAdkSessions(AdkSqliteSessions):
    title = "**HarnessSessionService**"
    kinds: ClassVar[Sequence[Kind]] = KINDS
    peer = "AdkSqliteSessions"

    async def open_service(self) -> Any:
        self.client = Checkpointer(_build_checkpointer_url(self.database), migrate=True)
        return HarnessSessionService(self.client)

    def close(self) -> None:
        self.loop.run(self.client.close())
        self.loop.close()


STORES: Sequence[type[FrameworkStore]] = (
    HarnessLangGraphSaver,
    LangGraphSaver,
    HarnessOpenAISession,
    OpenAISqliteSession,
    HarnessPydanticAIConversations,
    HarnessClaudeTranscripts,
    HarnessStrandsRepository,
    HarnessAdkSessions,
    AdkSqliteSessions,
)


async def _await_and_measure_seconds(work: Any) -> float:
    start = time.perf_counter()
    await work
    return time.perf_counter() - start


@dataclass
class StoreCosts:
    """Seconds of a save in each turn, and the bytes that all of them left on disk for a byte of text."""

    seconds: list[float] = field(default_factory=list)
    size: float = 0
    #: Tables on PostgreSQL that the turns have made larger: rows, and bytes of rows and of indexes, of a turn.
    tables: dict[str, tuple[float, float, float]] = field(default_factory=dict)

    def get_early_median_ms(self) -> float:
        return statistics.median(self.seconds[:WINDOW]) * 1000

    def get_late_median_ms(self) -> float:
        return statistics.median(self.seconds[-WINDOW:]) * 1000


#: Results of each kind of database, by the names of the contenders.
Results = dict[Kind, dict[str, StoreCosts]]


def measure_stores_on_database_kind(databases: Any, kind: Kind, turns: Sequence[Turn]) -> dict[str, StoreCosts]:
    """Save all turns with all stores of a kind of database, those of one framework in turn."""
    results: dict[str, StoreCosts] = {}
    for framework in dict.fromkeys(each.framework for each in STORES):
        stores = [each for each in STORES if each.framework == framework and kind in each.kinds]
        results |= _measure_stores_alternating(databases, kind, stores, turns)
    return results


def _measure_stores_alternating(
    databases: Any, kind: Kind, contenders: Sequence[type[FrameworkStore]], turns: Sequence[Turn]
) -> dict[str, StoreCosts]:
    places = {each: databases.create_empty_database(kind, f"fw_{each.__name__.lower()}") for each in contenders}
    stores = {each: each(database) for each, database in places.items()}
    sizes = {each: database.measure_bytes_on_disk() for each, database in places.items()}
    tables = {each: database.get_postgresql_table_sizes() for each, database in places.items() if kind == "postgresql"}
    results = {each: StoreCosts() for each in stores}
    for number, start in enumerate(range(0, len(turns), TURNS_AT_A_TIME)):
        order = list(stores.items())
        for each, store in order[number % len(order) :] + order[: number % len(order)]:
            for turn in turns[start : start + TURNS_AT_A_TIME]:
                results[each].seconds.append(store.measure_save(turn) / each.writes)
    said = sum(turn.text_bytes for turn in turns)
    for each, store in stores.items():
        results[each].size = (places[each].measure_bytes_on_disk() - sizes[each]) / said
        if each in tables:
            results[each].tables = _compute_table_growth_per_turn(
                tables[each], places[each].get_postgresql_table_sizes(), len(turns)
            )
        store.close()
    return {each.__name__: result for each, result in results.items()}


def _compute_table_growth_per_turn(
    before: dict[str, TableSize], after: dict[str, TableSize], turns: int
) -> dict[str, tuple[float, float, float]]:
    grown = {
        name: (
            (size.rows - before[name].rows) / turns,
            (size.row_bytes - before[name].row_bytes) / turns,
            (size.index_bytes - before[name].index_bytes) / turns,
        )
        for name, size in after.items()
    }
    return {name: each for name, each in grown.items() if each[1] + each[2] >= 1}


@dataclass(frozen=True)
class WorkerRates:
    """Turns per second of eight processes with one saver: of the saver alone, and with a graph that uses it."""

    alone: float
    with_graph: float


def measure_saver_worker_rates(databases: Any, turns: int, shared: int) -> dict[str, WorkerRates]:
    """Measure eight processes on one PostgreSQL database, by the names of the savers.

    Each saves the last `shared` of `turns` turns, on a thread of its own that has the turns before them already.
    """
    savers = (HarnessLangGraphSaver, LangGraphSaver)
    alone, with_graph = (
        _measure_worker_rates_alternating(
            {each: SaverWorkers(databases, each, turns, shared, part) for each in savers}, WORKERS * shared
        )
        for part in ("calls", "graphs")
    )
    return {each.__name__: WorkerRates(alone[each], with_graph[each]) for each in savers}


def _measure_worker_rates_alternating(
    workers: dict[type[LangGraphSaver], SaverWorkers], turns: int
) -> dict[type[LangGraphSaver], float]:
    """Return the turns per second of the processes of each saver, which save `turns` turns, a few at a time."""
    seconds = dict.fromkeys(workers, 0.0)
    order = list(workers.items())
    while not order[0][1].is_done:
        for saver, processes in order:
            seconds[saver] += processes.measure_next_turns()
        order.reverse()
    for each in workers.values():
        each.close()
    return {saver: turns / seconds[saver] for saver in workers}


class SaverWorkers:
    """Processes with one saver on one PostgreSQL database, which save the same number of turns at the same time.

    Each has stored the turns before these when the object is made.

    Args:
        databases: Databases of the run.
        saver: Contender.
        turns: Number of turns of each process at the end.
        shared: Number of turns at the end that are measured; the others are saved before.
        part: Whether a process makes the recorded `calls` of a graph to the saver, or drives `graphs` with it.
    """

    def __init__(self, databases: Any, saver: type[LangGraphSaver], turns: int, shared: int, part: str) -> None:
        database = databases.create_empty_database("postgresql", f"{part}_{saver.__name__.lower()}")
        creation = _FORK.Process(target=_create_saver_tables, args=(saver, database))
        creation.start()
        creation.join()
        self.is_done = False
        self._pipes: list[Connection[None, bool]] = []
        self._processes = []
        for _ in range(WORKERS):
            pipe, other_end = _FORK.Pipe()
            process = _FORK.Process(target=_run_saver_worker, args=(saver, database, part, turns, shared, other_end))
            process.start()
            other_end.close()
            self._pipes.append(pipe)
            self._processes.append(process)
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        """Wait until each process is ready for its next turns, or done. Raises `EOFError` for one that has failed."""
        done = [pipe.recv() for pipe in self._pipes]
        self.is_done = all(done)

    def measure_next_turns(self) -> float:
        """Let each process save its next turns. Returns the seconds until all have."""
        start = time.perf_counter()
        for pipe in self._pipes:
            pipe.send(None)
        self._wait_until_ready()
        return time.perf_counter() - start

    def close(self) -> None:
        """Wait for the ends of the processes."""
        for process in self._processes:
            process.join()


def _create_saver_tables(saver: type[LangGraphSaver], database: Database) -> None:
    saver(database).close()


def _run_saver_worker(
    saver: type[LangGraphSaver], database: Database, part: str, count: int, shared: int, pipe: Connection[bool, None]
) -> None:
    """Fill a thread with turns, and save its last `shared` of `count` turns, a few whenever the pipe says so."""
    store, turns = saver(database), build_question_and_answer_turns(count)
    store.save_earlier_turns_at_once(turns[: count - shared])
    parts = [turns[start:count][:TURNS_AT_A_TIME] for start in range(count - shared, count, TURNS_AT_A_TIME)]
    recorded = [store.run_graph_and_record_saver_calls(each) for each in parts] if part == "calls" else []
    gc.collect()  # examines what the preparation has made, which would otherwise happen in the time of the saver
    for number, each in enumerate(parts):
        pipe.send(False)
        pipe.recv()
        if recorded:
            store.player.make_calls_and_measure_by_method(recorded[number])
        else:
            store.run_graph_with_saver_itself(each)
    pipe.send(True)
    store.close()


_INTRODUCTION = """\
# Benchmarks of the frameworks' stores

A conversation of {turns} turns, with {size:.1f} KB of text in each, saved as an unchanged framework saves it. Times are
those of one save by the store alone: medians of {window} turns, on {cores}, {day:%Y-%m-%d}. A turn of LangGraph
has five saves, one of Strands Agents or Google ADK two, one of the others one. LangGraph computes while its saver
works, so the calls of a graph to its saver are recorded, and made again to each saver without the graph. A store of a
framework saves {at_a_time} turns, then the next one does, each in a database of its own on the same server and disk:
ratios say more than milliseconds. Pydantic AI and the Claude Agent SDK have no durable store of their own; that of
Strands Agents writes a file for each message, and is not compared. ADK's own service for PostgreSQL needs SQLAlchemy,
and is not compared either.
`make benchmarks-frameworks` writes this page.
"""
_TARGET_HEADING = "## Targets\n\n| what | on | measured | wanted |  |\n|---|---|---|---|---|"
_HEADING = """\
| framework | store | a save in the first turns | a save in turn {turns} | bytes for a byte of text | time of the \
framework's own store | its bytes |
|---|---|---|---|---|---|---|"""
_TABLES = """\
## Where the bytes of a LangGraph turn are

Bytes of a turn of {size:.0f} bytes of text, in the tables and indexes of `HarnessSaver` on PostgreSQL. The turn has
three states, two versions, what two tasks wrote, and two messages. Old rows that are not yet removed count too.

| table | rows | bytes of rows | bytes of indexes |
|---|---|---|---|
{rows}
"""
_WORKERS = """\
## {workers} processes on one PostgreSQL

Each process saves the turns {first} to {turns} of a thread of its own; the turns before are stored already. The
contenders save {at_a_time} turns of each process in turn. *The savers alone*: a process makes the recorded calls of a
graph to its saver, the load of the thread (`get_tuple`) and each `put` and `put_writes`. *With the graph*: it runs the
graph, whose own computation is the same with each saver. Before it is measured, each process
collects its garbage once: to examine what its preparation has made, recorded calls and the modules of five frameworks,
takes as long as ten turns, and would fall to one contender or the other. The processes and the server share {cores}.

| store | turns a second, the savers alone | × HarnessSaver | turns a second with the graph | × HarnessSaver |
|---|---|---|---|---|
| **HarnessSaver** | {ours_alone:.1f} | 1.00 | {ours:.1f} | 1.00 |
| LangGraph's own saver | {own_alone:.1f} | {ratio_alone:.2f} | {own:.1f} | {ratio:.2f} |

Where the time of a turn of **HarnessSaver** goes, the savers alone, by samples of the stacks of the eight processes
(2026-11-26, 800 messages in a thread):

| part | share |
|---|---|
| PostgreSQL and the operating system | 21 % |
| driver: two reads, five writes, each with its commit | 15 % |
| a connection of Django's pool for each call | 4 % |
| LangGraph's serializer, of what is new | 2 % |
| compression | 4 % |
| copies of the loaded messages; garbage collection and freeing | 19 % |
| comparison with the saved messages, which notices those that were changed in place | 9 % |
| this library | 24 % |

LangGraph's own saver took 6.8 times as long then. If what is called "this library" took nothing, it would be 9. A
ratio of 10 at 800 messages needs loads that share their messages, or saves that do not notice changed ones. In one
process, which shares no cache of the processor, the ratio is 9.4 (CPU of process and server, 11.2 and 106 ms a turn).
"""
PACKAGES = (
    "langgraph",
    "langgraph-checkpoint-postgres",
    "langgraph-checkpoint-sqlite",
    "openai-agents",
    "pydantic-ai-slim",
    "strands-agents",
    "google-adk",
)
_MAX_SIZE, _MAX_MILLISECONDS, _MIN_RATE = 1.5, 2.0, 10.0


def format_page(turns: Sequence[Turn], results: Results, rates: dict[str, WorkerRates], shared: int) -> str:
    """Format docs/benchmarks-frameworks.md."""
    size, cores = sum(turn.text_bytes for turn in turns) / len(turns) / 1000, format_usable_core_count()
    parts = [
        _INTRODUCTION.format(
            at_a_time=TURNS_AT_A_TIME, turns=len(turns), size=size, window=WINDOW, cores=cores, day=datetime.now(UTC)
        ),
        "\n".join([_TARGET_HEADING, *_format_target_rows(len(turns), results, rates), ""]),
    ]
    for kind, measured in results.items():
        rows = [_format_store_row(store, measured) for store in STORES if store.__name__ in measured]
        parts.append("\n".join([f"## {TITLES[kind]}\n", _HEADING.format(turns=len(turns)), *rows, ""]))
    tables = results["postgresql"]["HarnessLangGraphSaver"].tables if "postgresql" in results else {}
    if tables:
        lines = [
            f"| {name.removeprefix('checkpoints_')} | {count:.1f} | {rows:,.0f} | {indexes:,.0f} |"
            for name, (count, rows, indexes) in sorted(tables.items(), key=lambda item: -sum(item[1][1:]))
        ]
        parts.append(_TABLES.format(size=size * 1000, rows="\n".join(lines)))
    if rates:
        ours, own = rates["HarnessLangGraphSaver"], rates["LangGraphSaver"]
        parts.append(
            _WORKERS.format(
                workers=WORKERS,
                cores=cores,
                turns=len(turns),
                first=len(turns) - shared + 1,
                at_a_time=TURNS_AT_A_TIME,
                ours=ours.with_graph,
                own=own.with_graph,
                ratio=own.with_graph / ours.with_graph,
                ours_alone=ours.alone,
                own_alone=own.alone,
                ratio_alone=own.alone / ours.alone,
            )
        )
    parts.append(", ".join(f"{name} {version(name)}" for name in PACKAGES) + ".\n")
    return "\n".join(parts)


def _format_target_rows(turns: int, results: Results, rates: dict[str, WorkerRates]) -> list[str]:
    """List the rows of the targets: bytes on both databases, and saves and workers on PostgreSQL."""
    rows = []
    for kind, measured in results.items():
        for store in STORES:
            if store.__name__ not in measured or not store.title.startswith("**"):
                continue
            result, place = measured[store.__name__], f"| {TITLES[kind]} |"
            what = f"{store.framework}: {{}}"
            rows.append(
                f"| {what.format(f'bytes on disk for a byte of text, {turns} turns')} {place} {result.size:.2f}× | "
                f"≤ {_MAX_SIZE}× | {_format_target_verdict(result.size <= _MAX_SIZE)} |"
            )
            if kind == "postgresql":
                late = result.get_late_median_ms()
                rows.append(
                    f"| {what.format(f'a save in turn {turns}')} {place} {late:.2f} ms | "
                    f"≤ {_MAX_MILLISECONDS:.0f} ms | {_format_target_verdict(late <= _MAX_MILLISECONDS)} |"
                )
    if rates:
        ours, own = rates["HarnessLangGraphSaver"], rates["LangGraphSaver"]
        ratios = {
            "the savers alone": ours.alone / own.alone,
            "with the graph's own computation": ours.with_graph / own.with_graph,
        }
        rows += [
            f"| LangGraph: {WORKERS} processes, turns a second to those of its own saver, {what} "
            f"| {TITLES['postgresql']} | {ratio:.2f}× | ≥ {_MIN_RATE:.0f}× | "
            f"{_format_target_verdict(ratio >= _MIN_RATE)} |"
            for what, ratio in ratios.items()
        ]
    return rows


def _format_target_verdict(is_reached: bool) -> str:
    return "reached" if is_reached else "**not reached**"


def _format_store_row(store: type[FrameworkStore], measured: dict[str, StoreCosts]) -> str:
    result, peer = measured[store.__name__], measured.get(store.peer)
    late = result.get_late_median_ms()
    ratios = ("", "")
    if peer is not None:
        ratios = (f"{peer.get_late_median_ms() / late:.2f}×", f"{peer.size / result.size:.2f}×")
    early = result.get_early_median_ms()
    return (
        f"| {store.framework} | {store.title} | {early:.2f} ms | {late:.2f} ms | {result.size:.2f} | "
        f"{ratios[0]} | {ratios[1]} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.framework_store_costs")
    parser.add_argument("--turns", type=int, default=400, help="number of turns of a conversation")
    parser.add_argument("--shared-turns", type=int, default=20, help="number of the last turns that processes share")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="kinds of databases")
    parser.add_argument("--workers-only", action="store_true", help="measure the processes alone, and print the ratios")
    parser.add_argument("--output", type=Path, default=PAGE, help="where the page goes")
    options = parser.parse_args()
    turns, rates = build_question_and_answer_turns(options.turns), dict[str, WorkerRates]()
    with run_temporary_postgresql_and_sqlite_folder() as databases:
        if options.workers_only:
            rates = measure_saver_worker_rates(databases, options.turns, options.shared_turns)
            print("\n".join(_format_target_rows(options.turns, {}, rates)))
            return
        if "postgresql" in options.kinds:
            rates = measure_saver_worker_rates(databases, options.turns, options.shared_turns)
        results = {kind: measure_stores_on_database_kind(databases, kind, turns) for kind in options.kinds}
    options.output.write_text(format_page(turns, results, rates, options.shared_turns))


if __name__ == "__main__":
    main()
