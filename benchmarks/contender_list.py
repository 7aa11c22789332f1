"""Contenders of the benchmarks, in the order of the tables."""

from __future__ import annotations

from benchmarks.agent_groups.agent_group import AgentGroup
from benchmarks.agent_groups.langgraph_agents import LangGraphAgents
from benchmarks.agent_groups.library_agents import LibraryAgents
from benchmarks.agent_groups.raw_sql_agents import RawSqlAgents
from benchmarks.benchmark_databases import DatabaseFactory, Kind
from benchmarks.call_costs import CallLogger
from benchmarks.contenders import langgraph_django
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.full_copy_checkpointer import FullCopyContender
from benchmarks.contenders.langgraph_django import LangGraphDjangoContender
from benchmarks.contenders.langgraph_savers import LangGraphDefaultChannelContender, LangGraphDeltaChannelContender
from benchmarks.contenders.plain_orm import PlainOrmContender
from benchmarks.contenders.raw_sql import RawDriverContender, RawSqlContender
from benchmarks.contenders.this_library import (
    AppendContender,
    AsyncAppendContender,
    CheckpointerCallLogger,
    RegistryCallLogger,
    SaveContender,
)
from benchmarks.generated_conversation import Conversation

CONTENDERS: tuple[type[Contender], ...] = (
    AppendContender,
    SaveContender,
    AsyncAppendContender,
    RawSqlContender,
    RawDriverContender,
    PlainOrmContender,
    LangGraphDeltaChannelContender,
    LangGraphDefaultChannelContender,
    LangGraphDjangoContender,
    FullCopyContender,
)
AGENT_GROUPS: tuple[type[AgentGroup], ...] = (LibraryAgents, RawSqlAgents, LangGraphAgents)
CALLERS = {
    "log": "**record_tool_call_issued + record_tool_call_result**",
    "dispatch": "**registry.dispatch**",
    "statement": "hand-written SQL over Django's connection",
    "full_copy": "full copy in every version",
}


def map_missing_contenders_to_reasons() -> dict[str, str]:
    """Map the titles of contenders that cannot be measured here to the reason."""
    return (
        {LangGraphDjangoContender.title: langgraph_django.get_reason_not_measurable_or_empty()}
        if langgraph_django.get_reason_not_measurable_or_empty()
        else {}
    )


def create_contenders_in_new_databases(
    databases: DatabaseFactory, kind: Kind, conversation: Conversation
) -> list[Contender]:
    missing_titles = map_missing_contenders_to_reasons()
    return [
        contender_class(databases.create_empty_database(kind, contender_class.key), conversation)
        for contender_class in CONTENDERS
        if contender_class.title not in missing_titles
    ]


def create_agent_groups_in_new_databases(
    databases: DatabaseFactory, kind: Kind, conversation: Conversation
) -> list[AgentGroup]:
    return [
        group_class(databases.create_empty_database(kind, f"agents_{group_class.key}"), conversation)
        for group_class in AGENT_GROUPS
    ]


def create_call_loggers_by_key(lineup: list[Contender]) -> dict[str, CallLogger]:
    """Create the call loggers, in the databases of their contenders."""
    callers: dict[str, CallLogger] = {}
    for contender in lineup:
        if isinstance(contender, AppendContender) and not isinstance(contender, SaveContender):
            alias = contender.database.alias
            callers |= {"log": CheckpointerCallLogger(alias), "dispatch": RegistryCallLogger(alias)}
        elif isinstance(contender, RawSqlContender | FullCopyContender):
            callers[contender.key] = contender
    return callers
