"""Benchmark of a fresh process: time until its first save is durable."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.benchmark_databases import DatabaseFactory, Kind
from benchmarks.django_setup import create_library_tables
from benchmarks.duration_samples import DurationSamples
from benchmarks.full_and_quick_run_sizes import MeasurementPlan

WAYS = ("setup", "save")


def measure_setup_and_save_in_fresh_processes(
    databases: DatabaseFactory, kind: Kind, plan: MeasurementPlan
) -> dict[str, DurationSamples]:
    """Measure `setup` (only `django.setup()`) and `save` (import, open, start a session, save), alternating."""
    database = databases.create_empty_database(kind, "fresh")
    create_library_tables(database.alias)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(plan.fresh_processes + 1):
        for way in WAYS:
            command = [sys.executable, "-m", "benchmarks.workers.cold_start_worker", way, database.url]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            seconds[way].append(float(output))
    return {way: DurationSamples(values[1:]) for way, values in seconds.items()}  # the first one fills the caches
