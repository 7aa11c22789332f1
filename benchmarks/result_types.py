"""Results of one run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from benchmarks.benchmark_databases import Kind
from benchmarks.concurrent_saves import SaveRates
from benchmarks.duration_samples import DurationSamples
from benchmarks.full_and_quick_run_sizes import MeasurementPlan
from benchmarks.loading import LoadTimes
from benchmarks.saving import SaveCosts


@dataclass(frozen=True)
class DatabaseResults:
    """Results on one kind of database."""

    saving: SaveCosts
    loading: LoadTimes
    calls: dict[str, DurationSamples]
    agents: SaveRates
    processes: SaveRates
    fresh: dict[str, DurationSamples]


@dataclass(frozen=True)
class RunResults:
    plan: MeasurementPlan
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
    measured: dict[Kind, DatabaseResults]
