"""Results of one run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from benchmarks.benchmark_databases import Kind
from benchmarks.concurrent_saves import Rates
from benchmarks.duration_samples import Samples
from benchmarks.full_and_quick_run_sizes import Plan
from benchmarks.loading import Loading
from benchmarks.saving import Saving


@dataclass(frozen=True)
class Measured:
    """Results on one kind of database."""

    saving: Saving
    loading: Loading
    calls: dict[str, Samples]
    agents: Rates
    processes: Rates
    fresh: dict[str, Samples]


@dataclass(frozen=True)
class Results:
    plan: Plan
    machine: str
    day: date
    #: Bytes of the conversation as compact JSON, up to the turn at which the bytes on disk were measured.
    said: int
    #: Titles by key, in the order of display.
    contenders: dict[str, str]
    agent_groups: dict[str, str]
    callers: dict[str, str]
    #: Reason why a contender was not measured, by title.
    missing: dict[str, str]
    measured: dict[Kind, Measured]
