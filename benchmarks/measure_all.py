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
from benchmarks.benchmark_databases import KINDS, TITLES, DatabaseFactory, Kind
from benchmarks.concurrent_saves import SaveRates
from benchmarks.full_and_quick_run_sizes import MeasurementPlan
from benchmarks.generated_conversation import Conversation, build_conversation
from benchmarks.result_types import DatabaseResults, RunResults
from benchmarks.usable_core_count import format_usable_core_count

PACKAGES = ("Django", "psycopg", "langgraph-checkpoint", "langgraph-checkpoint-postgres", "langgraph-checkpoint-sqlite")


def measure_all(databases: DatabaseFactory, plan: MeasurementPlan, say: Callable[[str], None]) -> RunResults:
    conversation = build_conversation(plan.turns[-1])
    gc.collect()
    gc.freeze()  # so that the garbage collector does not traverse the conversation during a save
    return RunResults(
        plan=plan,
        machine=describe_machine(databases),
        day=datetime.now(UTC).date(),
        said=conversation.compute_json_bytes_through_turn(plan.together),
        contenders={entry.key: entry.title for entry in contender_list.CONTENDERS},
        agent_groups={entry.key: entry.title for entry in contender_list.AGENT_GROUPS},
        callers=contender_list.CALLERS,
        missing=contender_list.map_missing_contenders_to_reasons(),
        measured={
            kind: _run_all_benchmarks_on_database_kind(databases, kind, conversation, plan, say) for kind in KINDS
        },
    )


def _run_all_benchmarks_on_database_kind(
    databases: DatabaseFactory,
    kind: Kind,
    conversation: Conversation,
    plan: MeasurementPlan,
    say: Callable[[str], None],
) -> DatabaseResults:
    title = TITLES[kind]
    with ExitStack() as stack:
        contenders = contender_list.create_contenders_in_new_databases(databases, kind, conversation)
        for contender in contenders:
            stack.callback(contender.close)
        say(f"{title}: saving")
        saving_results = saving.measure_saving(contenders, plan)
        say(f"{title}: loading")
        loading_results = loading.measure_loading(contenders, plan)
        say(f"{title}: tool calls")
        call_samples = call_costs.measure_call_logging(contender_list.create_call_loggers_by_key(contenders), plan)
    say(f"{title}: many agents")
    agent_rates = _measure_agent_groups(databases, kind, conversation, plan)
    say(f"{title}: many processes")
    process_rates = concurrent_saves.measure_save_rates_of_processes(databases, kind, plan)
    say(f"{title}: fresh processes")
    return DatabaseResults(
        saving_results,
        loading_results,
        call_samples,
        agent_rates,
        process_rates,
        cold_start.measure_setup_and_save_in_fresh_processes(databases, kind, plan),
    )


def _measure_agent_groups(
    databases: DatabaseFactory, kind: Kind, conversation: Conversation, plan: MeasurementPlan
) -> SaveRates:
    with ExitStack() as stack:
        groups = contender_list.create_agent_groups_in_new_databases(databases, kind, conversation)
        for group in groups:
            stack.callback(group.close)
        return concurrent_saves.measure_save_rates_of_agents(groups, plan)


def describe_machine(databases: DatabaseFactory) -> str:
    """Describe the machine: cores and versions, nothing that identifies it."""
    versions = [f"{package} {version(package)}" for package in PACKAGES]
    return (
        f"{format_usable_core_count()}, {platform.system()}, Python {platform.python_version()}, "
        f"PostgreSQL {databases.get_postgresql_version()} (fsync on), SQLite {sqlite3.sqlite_version} (WAL, "
        "synchronous FULL), " + ", ".join(versions)
    )
