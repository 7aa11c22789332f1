"""Everything one run has measured."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from benchmarks.databases import Kind
from benchmarks.loading import Loading
from benchmarks.plan import Plan
from benchmarks.rates import Rates
from benchmarks.samples import Samples
from benchmarks.saving import Saving


@dataclass(frozen=True)
class Measured:
    """What was measured on one kind of database."""

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
    #: Bytes of compact JSON of the conversation up to the turn whose bytes on disk were taken.
    said: int
    #: Titles by key, in the order they are shown.
    contenders: dict[str, str]
    crowds: dict[str, str]
    callers: dict[str, str]
    #: Why something could not be measured, by title.
    missing: dict[str, str]
    measured: dict[Kind, Measured]
