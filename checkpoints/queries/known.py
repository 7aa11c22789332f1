"""Agents and labels that there are, for suggestions, and the labels of one session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from checkpoints.models import Session
from checkpoints.queries.narrowing import of
from checkpoints.serde import parse

#: Of so many of the newest sessions.
_RECENT = 200


@dataclass(frozen=True, slots=True)
class Known:
    """Agents and labels that there are."""

    agents: tuple[str, ...]
    labels: tuple[str, ...]


def known(workspace_id: int) -> Known:
    """What the newest sessions have, for suggestions."""
    rows = list(_recent(workspace_id))
    labels = {label for stored in {stored for _, stored in rows} for label in labels_of(stored)}
    return Known(tuple(sorted({agent for agent, _ in rows if agent})), tuple(sorted(labels)))


def _recent(workspace_id: int) -> QuerySet[Session, tuple[str, str]]:
    return of(workspace_id).order_by("-updated_at", "-pk").values_list("agent", "labels")[:_RECENT]


def labels_of(stored: str) -> tuple[str, ...]:
    """The labels of a session as its row stores them."""
    try:
        labels: Any = parse(stored)
    except (ValueError, RecursionError):
        return ()
    return tuple(label for label in labels if isinstance(label, str)) if isinstance(labels, list) else ()
