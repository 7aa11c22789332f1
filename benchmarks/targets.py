"""The targets, and whether a run reached them. Nothing here knows a result beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.databases import TITLES, Kind
from benchmarks.loading import TAIL
from benchmarks.results import Measured, Results
from benchmarks.saving import Saving


@dataclass(frozen=True)
class Verdict:
    """A measured value held against its limit."""

    target: str
    what: str
    kind: Kind
    value: float
    limit: float
    #: Whether the value may not be below the limit, instead of not above it.
    at_least: bool = False
    unit: str = "×"
    #: What the hand-written statement reaches beside the same peer: nothing that writes as much can do much better.
    bare: float | None = None

    @property
    def reached(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def where(self) -> str:
        return TITLES[self.kind]


def verdicts(results: Results) -> list[Verdict]:
    return [verdict for kind, found in results.measured.items() for verdict in _of_one(results, kind, found)]


def _of_one(results: Results, kind: Kind, found: Measured) -> Iterator[Verdict]:
    for key, name in (("append", "append_checkpoint"), ("save", "save_checkpoint")):
        yield from _save(results, kind, found.saving, key, name)
    if kind == "postgresql":
        share = found.saving.bytes_on_disk["append"] / results.said
        yield Verdict("2 bytes", f"on disk, to what was said in {results.plan.together} turns", kind, share, 1.3)
    yield from _load(results, kind, found)
    bare = found.calls["statement"].median
    for key, name in (("log", "intent + result by the log"), ("dispatch", "intent + result by dispatch")):
        yield Verdict("4 call log", f"{name}, to two bare commits", kind, found.calls[key].median / bare, 1.5)
    yield from _crowds(results, kind, found)
    ratio = found.fresh["save"].median / found.fresh["setup"].median
    yield Verdict("8 import", "import + first save, to `django.setup()`", kind, ratio, 2.0)


def _save(results: Results, kind: Kind, saving: Saving, key: str, name: str) -> Iterator[Verdict]:
    turns, together = results.plan.turns, results.plan.together
    early = [turn for turn in turns if turn <= together]
    flat = saving.median(key, turns[-1]) / saving.young[key].median
    yield Verdict("1 save", f"{name}: turn {turns[-1]:,} to the first turns of a new session", kind, flat, 1.2)
    floor = saving.overall(key, turns).median / saving.overall("statement", turns).median
    yield Verdict("1 save", f"{name}: to the hand-written statement, all turns", kind, floor, 1.3)
    delta = saving.overall(key, early).median / saving.overall("delta", early).median
    bare = saving.overall("statement", early).median / saving.overall("delta", early).median
    what = f"{name}: to LangGraph's delta channel, to turn {together}"
    yield Verdict("1 save", what, kind, delta, 1.0, bare=bare)
    faster = saving.median("langgraph", together) / saving.median(key, together)
    what = f"{name}: times faster than LangGraph's default at turn {together}"
    bare = saving.median("langgraph", together) / saving.median("statement", together)
    yield Verdict("1 save", what, kind, faster, 30.0, at_least=True, bare=bare)


def _load(results: Results, kind: Kind, found: Measured) -> Iterator[Verdict]:
    count = results.plan.turns[-1] * 3
    ratio = found.loading.whole["append"].median / found.loading.whole["statement"].median
    yield Verdict("3 load", f"{count:,} messages, to fetching and parsing them", kind, ratio, 1.3)
    tail = found.loading.tails["append"].median
    yield Verdict("3 load", f"last {TAIL} of {count:,} messages", kind, tail, 3.0, unit=" ms")


def _crowds(results: Results, kind: Kind, found: Measured) -> Iterator[Verdict]:
    most, processes = max(results.plan.agents), results.plan.processes
    share = found.agents.share("library", "statement", most)
    what = f"{most} agents in one process, of the raw rate"
    yield Verdict("5 many sessions", what, kind, share, 0.7, at_least=True)
    share = found.processes.share("library", "statement", processes)
    what = f"{processes} processes, of the raw rate of {processes}"
    yield Verdict("5 many sessions", what, kind, share, 0.7, at_least=True)
