"""Targets, and the check whether a run reached them, independent of any known result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.benchmark_databases import TITLES, Kind
from benchmarks.loading import TAIL
from benchmarks.result_types import DatabaseResults, RunResults
from benchmarks.saving import SaveCosts


@dataclass(frozen=True)
class TargetVerdict:
    """Measured value compared with its limit."""

    target: str
    what: str
    kind: Kind
    value: float
    limit: float
    #: True if the limit is a minimum instead of a maximum.
    at_least: bool = False
    unit: str = "×"
    #: Value of the plain SQL contender against the same peer: a practical optimum for the same amount of data.
    bare: float | None = None

    @property
    def is_reached(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def database_title(self) -> str:
        return TITLES[self.kind]


def compute_target_verdicts(results: RunResults) -> list[TargetVerdict]:
    return [
        verdict
        for kind, measured in results.measured.items()
        for verdict in _iterate_database_target_verdicts(results, kind, measured)
    ]


def _iterate_database_target_verdicts(
    results: RunResults, kind: Kind, measured: DatabaseResults
) -> Iterator[TargetVerdict]:
    for key, name in (("append", "append_checkpoint"), ("save", "save_checkpoint")):
        yield from _iterate_save_verdicts(results, kind, measured.saving, key, name)
    if kind == "postgresql":
        share = measured.saving.bytes_on_disk["append"] / results.said
        yield TargetVerdict("2 bytes", f"on disk, to what was said in {results.plan.together} turns", kind, share, 1.3)
    yield from _iterate_load_verdicts(results, kind, measured)
    bare = measured.calls["statement"].median_ms
    for key, name in (("log", "intent + result by the log"), ("dispatch", "intent + result by dispatch")):
        yield TargetVerdict(
            "4 call log", f"{name}, to two bare commits", kind, measured.calls[key].median_ms / bare, 1.5
        )
    yield from _iterate_agent_rate_verdicts(results, kind, measured)
    ratio = measured.fresh["save"].median_ms / measured.fresh["setup"].median_ms
    yield TargetVerdict("8 import", "import + first save, to `django.setup()`", kind, ratio, 2.0)


def _iterate_save_verdicts(
    results: RunResults, kind: Kind, saving: SaveCosts, key: str, name: str
) -> Iterator[TargetVerdict]:
    turns, together = results.plan.turns, results.plan.together
    early = [turn for turn in turns if turn <= together]
    flat = saving.get_median_ms(key, turns[-1]) / saving.young[key].median_ms
    yield TargetVerdict("1 save", f"{name}: turn {turns[-1]:,} to the first turns of a new session", kind, flat, 1.2)
    floor = (
        saving.merge_samples_of_turns(key, turns).median_ms
        / saving.merge_samples_of_turns("statement", turns).median_ms
    )
    yield TargetVerdict("1 save", f"{name}: to the hand-written statement, all turns", kind, floor, 1.3)
    delta = (
        saving.merge_samples_of_turns(key, early).median_ms / saving.merge_samples_of_turns("delta", early).median_ms
    )
    bare = (
        saving.merge_samples_of_turns("statement", early).median_ms
        / saving.merge_samples_of_turns("delta", early).median_ms
    )
    description = f"{name}: to LangGraph's delta channel, to turn {together}"
    yield TargetVerdict("1 save", description, kind, delta, 1.0, bare=bare)
    faster = saving.get_median_ms("langgraph", together) / saving.get_median_ms(key, together)
    description = f"{name}: times faster than LangGraph's default at turn {together}"
    bare = saving.get_median_ms("langgraph", together) / saving.get_median_ms("statement", together)
    yield TargetVerdict("1 save", description, kind, faster, 30.0, at_least=True, bare=bare)


def _iterate_load_verdicts(results: RunResults, kind: Kind, measured: DatabaseResults) -> Iterator[TargetVerdict]:
    count = results.plan.turns[-1] * 3
    ratio = measured.loading.whole["append"].median_ms / measured.loading.whole["statement"].median_ms
    yield TargetVerdict("3 load", f"{count:,} messages, to fetching and parsing them", kind, ratio, 1.3)
    tail = measured.loading.tails["append"].median_ms
    yield TargetVerdict("3 load", f"last {TAIL} of {count:,} messages", kind, tail, 3.0, unit=" ms")


def _iterate_agent_rate_verdicts(results: RunResults, kind: Kind, measured: DatabaseResults) -> Iterator[TargetVerdict]:
    agents, processes = max(results.plan.agents), results.plan.processes
    share = measured.agents.get_median_ratio("library", "statement", agents)
    description = f"{agents} agents in one process, of the raw rate"
    yield TargetVerdict("5 many sessions", description, kind, share, 0.7, at_least=True)
    share = measured.processes.get_median_ratio("library", "statement", processes)
    description = f"{processes} processes, of the raw rate of {processes}"
    yield TargetVerdict("5 many sessions", description, kind, share, 0.7, at_least=True)
