"""Known agents and labels of a workspace, for suggestions, and the labels of one session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from checkpoints.formats import parse_json
from checkpoints.models import Session
from checkpoints.sessions.session_list_filters import select_sessions_of_workspace

#: Number of newest sessions that are read.
_RECENT_SESSIONS = 200


@dataclass(frozen=True, slots=True)
class SessionFacets:
    """Known agents and labels of a workspace."""

    agents: tuple[str, ...]
    labels: tuple[str, ...]


def list_recent_agents_and_labels(workspace_id: int) -> SessionFacets:
    """List the agents and labels of the newest sessions, for suggestions."""
    rows = list(_select_recent_sessions(workspace_id))
    labels = {
        label for label_text in {label_text for _, label_text in rows} for label in deserialize_labels(label_text)
    }
    agents = {agent for agent, _ in rows if agent and isinstance(agent, str)}  # SQLite stores any type
    return SessionFacets(tuple(sorted(agents)), tuple(sorted(labels)))


def _select_recent_sessions(workspace_id: int) -> QuerySet[Session, tuple[str, str]]:
    return (
        select_sessions_of_workspace(workspace_id)
        .order_by("-updated_at", "-pk")
        .values_list("agent", "labels")[:_RECENT_SESSIONS]
    )


def deserialize_labels(label_text: str) -> tuple[str, ...]:
    """Parse the labels of a session from its column."""
    try:
        labels: Any = parse_json(label_text)
    except (TypeError, ValueError, RecursionError):
        return ()
    return tuple(label for label in labels if isinstance(label, str)) if isinstance(labels, list) else ()
