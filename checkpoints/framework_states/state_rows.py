"""Rows of states and writes: read before a save and inserted by it, by SQL that is built once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache

from django.db import connections, models

from checkpoints.db.cached_row_sql import insert_rows, select_rows
from checkpoints.db.sql_quoting import make_placeholders, quote_column, quote_table
from checkpoints.models import FrameworkState, FrameworkWrite, Session
from checkpoints.seals.keys import get_seal_keys
from checkpoints.sessions import state_retention
from checkpoints.sessions.state_retention import Channels

#: Columns that the database or a seal fills.
_FILLED = frozenset({"id", "row_seal", "created_at"})


def create_rows(using: str, rows: Sequence[FrameworkState] | Sequence[FrameworkWrite]) -> None:
    """Insert states or writes of a locked session, with their seals if there is a key."""
    if not rows:
        return
    model = type(rows[0])
    if get_seal_keys() is not None:
        model._default_manager.using(using).bulk_create(rows, batch_size=200)  # type: ignore[arg-type]
        return
    fields = _get_given_fields(model)
    insert_rows(using, model, tuple(fields), [[getattr(row, name) for name in fields.values()] for row in rows])


@cache
def _get_given_fields(model: type[models.Model]) -> dict[str, str]:
    return {field.name: field.attname for field in model._meta.concrete_fields if field.name not in _FILLED}


def read_states(using: str, session: tuple[int, str], namespace: str, state_id: str) -> list[FrameworkState]:
    """Read the state of an identifier if it exists. `session` is the workspace and the identifier of its session."""
    return select_rows(using, FrameworkState, _build_state_conditions(), [namespace, state_id, *session])


@cache
def _build_state_conditions() -> str:
    place = " AND ".join(f"{quote_column(FrameworkState, name)} = %s" for name in ("namespace", "state_id"))
    named = " AND ".join(f"{quote_column(Session, name)} = %s" for name in ("workspace", "session_id"))
    session = f"SELECT {quote_column(Session, 'id')} FROM {quote_table(Session)} WHERE {named}"
    return f"WHERE {place} AND {quote_column(FrameworkState, 'session')} = ({session})"


def read_channels(using: str, session: Session, namespace: str, state_ids: Sequence[str]) -> dict[str, Channels]:
    """Read the channels of the states of these identifiers that exist."""
    with connections[using].cursor() as cursor:
        cursor.execute(_build_channels_query(len(state_ids)), [session.pk, namespace, *state_ids])
        found = cursor.fetchall()
    return {state_id: state_retention.parse_channels(session.session_id, text) for state_id, text in found}


@cache
def _build_channels_query(count: int) -> str:
    column = {name: quote_column(FrameworkState, name) for name in ("state_id", "channels", "session", "namespace")}
    return (
        f"SELECT {column['state_id']}, {column['channels']} FROM {quote_table(FrameworkState)} "
        f"WHERE {column['session']} = %s AND {column['namespace']} = %s "
        f"AND {column['state_id']} IN ({make_placeholders(count)})"
    )


def read_writes(
    using: str, session: Session, namespace: str, state_id: str, task_id: str, positions: Collection[int]
) -> dict[int, FrameworkWrite]:
    """Read what a task has written at these positions after a state."""
    if not positions:
        return {}
    params = [session.pk, namespace, state_id, task_id, *positions]
    rows = select_rows(using, FrameworkWrite, _build_write_conditions(len(positions)), params)
    return {row.position: row for row in rows}


@cache
def _build_write_conditions(count: int) -> str:
    place = " AND ".join(
        f"{quote_column(FrameworkWrite, name)} = %s" for name in ("session", "namespace", "state_id", "task_id")
    )
    return f"WHERE {place} AND {quote_column(FrameworkWrite, 'position')} IN ({make_placeholders(count)})"
