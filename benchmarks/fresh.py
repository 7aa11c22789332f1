"""How long a fresh process needs until its first save is durable."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.databases import Databases, Kind
from benchmarks.django_setup import create_library_tables
from benchmarks.plan import Plan
from benchmarks.samples import Samples

WAYS = ("setup", "save")


def measure(databases: Databases, kind: Kind, plan: Plan) -> dict[str, Samples]:
    """`setup`: only `django.setup()`. `save`: import, open, begin a session, save. Alternating."""
    database = databases.new(kind, "fresh")
    create_library_tables(database.alias)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(plan.fresh_processes + 1):
        for way in WAYS:
            command = [sys.executable, "-m", "benchmarks.workers.fresh", way, database.url]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            seconds[way].append(float(said))
    return {way: Samples(values[1:]) for way, values in seconds.items()}  # the first one fills the caches
