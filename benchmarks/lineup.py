"""Who takes part, in the order in which the tables show them."""

from __future__ import annotations

from benchmarks.calls import Caller
from benchmarks.contenders import library_calls, older
from benchmarks.contenders.chapter import Chapter
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.langgraph_savers import DefaultChannel, DeltaChannel
from benchmarks.contenders.library import Append, AsyncAppend, Save
from benchmarks.contenders.older import DjangoSaver
from benchmarks.contenders.plain_orm import PlainOrm
from benchmarks.contenders.statements import Driver, Statement
from benchmarks.conversation import Conversation
from benchmarks.crowds.crowd import Crowd
from benchmarks.crowds.langgraph_saver import LangGraph
from benchmarks.crowds.library import Library
from benchmarks.crowds.statements import Statements
from benchmarks.databases import Databases, Kind

CONTENDERS: tuple[type[Contender], ...] = (
    Append,
    Save,
    AsyncAppend,
    Statement,
    Driver,
    PlainOrm,
    DeltaChannel,
    DefaultChannel,
    DjangoSaver,
    Chapter,
)
CROWDS: tuple[type[Crowd], ...] = (Library, Statements, LangGraph)
CALLERS = {
    "log": "**record_tool_call_issued + record_tool_call_result**",
    "dispatch": "**registry.dispatch**",
    "statement": "hand-written SQL over Django's connection",
    "chapter": "the chapter's checkpointer",
}


def missing() -> dict[str, str]:
    """Contenders that cannot take part here, by title, and why."""
    return {DjangoSaver.title: older.missing()} if older.missing() else {}


def contenders(databases: Databases, kind: Kind, talk: Conversation) -> list[Contender]:
    absent = missing()
    return [each(databases.new(kind, each.key), talk) for each in CONTENDERS if each.title not in absent]


def crowds(databases: Databases, kind: Kind, talk: Conversation) -> list[Crowd]:
    return [each(databases.new(kind, f"crowd_{each.key}"), talk) for each in CROWDS]


def callers(lineup: list[Contender]) -> dict[str, Caller]:
    """The ways to log calls, in the databases of the contenders they belong to."""
    found: dict[str, Caller] = {}
    for contender in lineup:
        if isinstance(contender, Append) and not isinstance(contender, Save):
            alias = contender.database.alias
            found |= {"log": library_calls.Log(alias), "dispatch": library_calls.Dispatch(alias)}
        elif isinstance(contender, Statement | Chapter):
            found[contender.key] = contender
    return found
