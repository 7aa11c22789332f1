"""Known agents and labels of a workspace, for suggestions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from django.db import connections
from django.db.models import QuerySet

from checkpoints.db.sql_names_and_values import quote_column, quote_table
from checkpoints.enums import SessionStatus
from checkpoints.models import Session
from checkpoints.models.session import deserialize_labels
from checkpoints.sessions.session_list_filters_and_sorting import select_sessions_of_workspace

#: Number of newest sessions that are read.
_RECENT_SESSIONS: Final = 200
#: Largest number of agents of finished sessions of any age.
_MAX_AGENTS: Final = 500


@dataclass(frozen=True, slots=True)
class SessionFacets:
    """Known agents and labels of a workspace."""

    agents: tuple[str, ...]
    labels: tuple[str, ...]


def list_recent_agents_and_labels(workspace_id: int) -> SessionFacets:
    """List the agents and labels of the newest sessions, and the agents of finished ones of any age, for suggestions.

    The transcripts of imported sessions are often older than the newest sessions.
    """
    rows = list(_select_agents_and_labels_of_recent_sessions(workspace_id))
    labels = {
        label for label_text in {label_text for _, label_text in rows} for label in deserialize_labels(label_text)
    }
    agents = {*(agent for agent, _ in rows), *_list_agents_of_finished_sessions(workspace_id)}
    names = (agent for agent in agents if agent and isinstance(agent, str))  # SQLite stores any type
    return SessionFacets(tuple(sorted(names)), tuple(sorted(labels)))


def _list_agents_of_finished_sessions(workspace_id: int) -> list[Any]:
    """List the agents of the sessions that are not active with one look into their index for each agent."""
    with connections[Session.objects.db].cursor() as cursor:
        cursor.execute(_build_agents_of_finished_sessions_sql(), [workspace_id, workspace_id, _MAX_AGENTS])
        return [agent for (agent,) in cursor.fetchall()]


@cache
def _build_agents_of_finished_sessions_sql() -> str:
    agent = quote_column(Session, "agent")
    finished = (
        f"SELECT MIN({agent}) FROM {quote_table(Session)} WHERE {quote_column(Session, 'workspace')} = %s"
        f" AND NOT ({quote_column(Session, 'status')} = '{SessionStatus.ACTIVE.value}')"
    )
    return f"""
        WITH RECURSIVE agents(name) AS (
            {finished}
            UNION ALL
            SELECT ({finished} AND {agent} > agents.name) FROM agents WHERE agents.name IS NOT NULL
        )
        SELECT name FROM agents WHERE name IS NOT NULL LIMIT %s"""


def _select_agents_and_labels_of_recent_sessions(workspace_id: int) -> QuerySet[Session, tuple[str, str]]:
    return (
        select_sessions_of_workspace(workspace_id)
        .order_by("-updated_at", "-pk")
        .values_list("agent", "labels")[:_RECENT_SESSIONS]
    )
