"""Contenders of the benchmarks, in the order of the tables."""

from __future__ import annotations

from benchmarks.agent_groups.agent_group import AgentGroup
from benchmarks.agent_groups.langgraph_agents import LangGraph
from benchmarks.agent_groups.library_agents import Library
from benchmarks.agent_groups.raw_sql_agents import RawSqlAgents
from benchmarks.benchmark_databases import Databases, Kind
from benchmarks.call_costs import CallLogger
from benchmarks.contenders import langgraph_django
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.full_copy_checkpointer import FullCopy
from benchmarks.contenders.langgraph_django import DjangoSaver
from benchmarks.contenders.langgraph_savers import DefaultChannel, DeltaChannel
from benchmarks.contenders.plain_orm import PlainOrm
from benchmarks.contenders.raw_sql import RawDriverContender, RawSqlContender
from benchmarks.contenders.this_library import Append, AsyncAppend, CallDispatch, CallLog, Save
from benchmarks.generated_conversation import Conversation

CONTENDERS: tuple[type[Contender], ...] = (
    Append,
    Save,
    AsyncAppend,
    RawSqlContender,
    RawDriverContender,
    PlainOrm,
    DeltaChannel,
    DefaultChannel,
    DjangoSaver,
    FullCopy,
)
AGENT_GROUPS: tuple[type[AgentGroup], ...] = (Library, RawSqlAgents, LangGraph)
CALLERS = {
    "log": "**record_tool_call_issued + record_tool_call_result**",
    "dispatch": "**registry.dispatch**",
    "statement": "hand-written SQL over Django's connection",
    "full_copy": "full copy in every version",
}


def map_missing_contenders_to_reasons() -> dict[str, str]:
    """Map the titles of contenders that cannot be measured here to the reason."""
    return (
        {DjangoSaver.title: langgraph_django.explain_why_not_measurable()}
        if langgraph_django.explain_why_not_measurable()
        else {}
    )


def create_contenders(databases: Databases, kind: Kind, conversation: Conversation) -> list[Contender]:
    missing_titles = map_missing_contenders_to_reasons()
    return [
        contender_class(databases.create_database(kind, contender_class.key), conversation)
        for contender_class in CONTENDERS
        if contender_class.title not in missing_titles
    ]


def create_agent_groups(databases: Databases, kind: Kind, conversation: Conversation) -> list[AgentGroup]:
    return [
        group_class(databases.create_database(kind, f"agents_{group_class.key}"), conversation)
        for group_class in AGENT_GROUPS
    ]


def create_call_loggers_by_key(lineup: list[Contender]) -> dict[str, CallLogger]:
    """Create the call loggers, in the databases of their contenders."""
    callers: dict[str, CallLogger] = {}
    for contender in lineup:
        if isinstance(contender, Append) and not isinstance(contender, Save):
            alias = contender.database.alias
            callers |= {"log": CallLog(alias), "dispatch": CallDispatch(alias)}
        elif isinstance(contender, RawSqlContender | FullCopy):
            callers[contender.key] = contender
    return callers
