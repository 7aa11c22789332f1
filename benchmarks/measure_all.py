"""Run of all benchmarks on both kinds of database. Needs a configured Django."""

from __future__ import annotations

import gc
import platform
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version

from benchmarks import call_costs, cold_start, concurrent_saves, contender_list, loading, saving
from benchmarks.benchmark_databases import KINDS, TITLES, Databases, Kind
from benchmarks.concurrent_saves import Rates
from benchmarks.describe_cpu_cores import describe_cores
from benchmarks.full_and_quick_run_sizes import Plan
from benchmarks.generated_conversation import Conversation, build_conversation
from benchmarks.result_types import Measured, Results

PACKAGES = ("Django", "psycopg", "langgraph-checkpoint", "langgraph-checkpoint-postgres", "langgraph-checkpoint-sqlite")


def measure_all(databases: Databases, plan: Plan, say: Callable[[str], None]) -> Results:
    conversation = build_conversation(plan.turns[-1])
    gc.collect()
    gc.freeze()  # so that the garbage collector does not traverse the conversation during a save
    return Results(
        plan=plan,
        machine=describe_machine(databases),
        day=datetime.now(UTC).date(),
        said=conversation.get_json_size_until(plan.together),
        contenders={entry.key: entry.title for entry in contender_list.CONTENDERS},
        agent_groups={entry.key: entry.title for entry in contender_list.AGENT_GROUPS},
        callers=contender_list.CALLERS,
        missing=contender_list.map_missing_contenders_to_reasons(),
        measured={kind: _measure_database(databases, kind, conversation, plan, say) for kind in KINDS},
    )


def _measure_database(
    databases: Databases, kind: Kind, conversation: Conversation, plan: Plan, say: Callable[[str], None]
) -> Measured:
    title = TITLES[kind]
    with ExitStack() as stack:
        contenders = contender_list.create_contenders(databases, kind, conversation)
        for contender in contenders:
            stack.callback(contender.close)
        say(f"{title}: saving")
        saving_results = saving.measure_saving(contenders, plan)
        say(f"{title}: loading")
        loading_results = loading.measure_loading(contenders, plan)
        say(f"{title}: tool calls")
        call_samples = call_costs.measure_calls(contender_list.create_call_loggers_by_key(contenders), plan)
    say(f"{title}: many agents")
    agent_rates = _measure_agent_groups(databases, kind, conversation, plan)
    say(f"{title}: many processes")
    process_rates = concurrent_saves.measure_processes(databases, kind, plan)
    say(f"{title}: fresh processes")
    return Measured(
        saving_results,
        loading_results,
        call_samples,
        agent_rates,
        process_rates,
        cold_start.measure_fresh_processes(databases, kind, plan),
    )


def _measure_agent_groups(databases: Databases, kind: Kind, conversation: Conversation, plan: Plan) -> Rates:
    with ExitStack() as stack:
        groups = contender_list.create_agent_groups(databases, kind, conversation)
        for group in groups:
            stack.callback(group.close)
        return concurrent_saves.measure_agents(groups, plan)


def describe_machine(databases: Databases) -> str:
    """Describe the machine: cores and versions, nothing that identifies it."""
    versions = [f"{package} {version(package)}" for package in PACKAGES]
    return (
        f"{describe_cores()}, {platform.system()}, Python {platform.python_version()}, "
        f"PostgreSQL {databases.get_server_version()} (fsync on), SQLite {sqlite3.sqlite_version} (WAL, "
        "synchronous FULL), " + ", ".join(versions)
    )
