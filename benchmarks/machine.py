"""Description of the machine: cores and versions, nothing that identifies it."""

from __future__ import annotations

import os
import platform
import sqlite3
from importlib.metadata import version

from benchmarks.databases import Databases

PACKAGES = ("Django", "psycopg", "langgraph-checkpoint", "langgraph-checkpoint-postgres", "langgraph-checkpoint-sqlite")


def describe_machine(databases: Databases) -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = [f"{package} {version(package)}" for package in PACKAGES]
    return (
        f"{cores} cores, {platform.system()}, Python {platform.python_version()}, "
        f"PostgreSQL {databases.get_server_version()} (fsync on), SQLite {sqlite3.sqlite_version} (WAL, "
        "synchronous FULL), " + ", ".join(versions)
    )
