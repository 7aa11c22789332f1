"""Rows of states and writes: read before a save and inserted by it, by SQL that is built once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from django.db import connections, models

from checkpoints.db.execute_cached_row_sql import (
    DO_NOTHING,
    insert_rows_of_field_values,
    load_rows_where,
    load_rows_with_joined_rows,
)
from checkpoints.db.hot_statements import NewRows
from checkpoints.db.sql_names_and_values import make_placeholders, quote_column, quote_table
from checkpoints.models import FrameworkState, FrameworkWrite, Session
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.store import look_up_and_lock_rows
from checkpoints.versions import parse_state_channels_and_collect_digests
from checkpoints.versions.parse_state_channels_and_collect_digests import Channels

#: Model of states or of writes.
StateModel = FrameworkState | FrameworkWrite
#: Columns that the database, a seal or the statement fills.
_FILLED = frozenset({"id", "session", "row_seal", "created_at"})


def insert_rows_of_states_or_writes(
    using: str, session: Session, model: type[StateModel], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Insert states or writes of a locked session, with their seals if there is a key.

    Without a key, a write that is stored already stays as it is. The rest is as in `build_rows_of_states_or_writes`.
    """
    if not rows:
        return
    if get_seal_keys() is not None:
        sealed: list[Any] = [model(session=session, **row) for row in rows]
        model._default_manager.using(using).bulk_create(sealed, batch_size=200)
        return
    new = build_rows_of_states_or_writes(model, rows)
    values = [(session.pk, *row) for row in new.rows]
    insert_rows_of_field_values(using, model, ("session", *new.fields), values, on_conflict=new.on_conflict)


def build_rows_of_states_or_writes(model: type[StateModel], rows: Sequence[Mapping[str, Any]]) -> NewRows:
    """Build rows of states or writes of one session for a statement that inserts them without seals.

    Args:
        model: Model of the rows.
        rows: Values of all fields that neither the database nor the statement fills, by the names of the fields. An
            object of the model takes longer to create than the row to insert.
    """
    fields = _list_inserted_fields(model)
    return NewRows(
        model, fields, [[row[name] for name in fields] for row in rows], DO_NOTHING if model is FrameworkWrite else ""
    )


@cache
def _list_inserted_fields(model: type[models.Model]) -> tuple[str, ...]:
    return tuple(field.name for field in model._meta.concrete_fields if field.name not in _FILLED)


def list_state_by_id_or_newest(
    using: str, session: tuple[int, str], namespace: str, state_id: str | None
) -> list[FrameworkState]:
    """Read the state of an identifier, or the newest one, if it exists, with the columns of its session that name it.

    With a key of seals its session is read, too. Raises `IntegrityError` if that is altered, or has another name.

    Args:
        using: Connection alias.
        session: Workspace and identifier of the session.
        namespace: Part of the session.
        state_id: Identifier of the state. None: the newest one.
    """
    place = [namespace] if state_id is None else [namespace, state_id]
    found = load_rows_where(using, FrameworkState, _build_where_sql_of_one_state(state_id is None), [*place, *session])
    for row in found:
        _set_or_verify_session_of_state(using, row, session)
    return found


def _set_or_verify_session_of_state(using: str, row: FrameworkState, session: tuple[int, str]) -> None:
    if get_seal_keys() is None:
        row.session = Session.from_db(using, ["id", "workspace_id", "session_id"], [row.session_id, *session])
    else:
        look_up_and_lock_rows.verify_session_seal_and_name(row.session, session[1])


def list_state_with_writes_by_id_or_newest(
    using: str, session: tuple[int, str], namespace: str, state_id: str | None
) -> list[tuple[FrameworkState, list[FrameworkWrite]]]:
    """Read a state as `list_state_by_id_or_newest` does, with the writes after it; on PostgreSQL by one statement."""
    if connections[using].vendor != "postgresql":
        found = list_state_by_id_or_newest(using, session, namespace, state_id)
        writes = read_writes_of_states_in_any_namespace(using, found)
        return [(row, [write for write in writes if write.namespace == row.namespace]) for row in found]
    place = [namespace] if state_id is None else [namespace, state_id]
    source = _build_source_sql_of_one_state_with_writes(state_id is None)
    pairs = load_rows_with_joined_rows(using, FrameworkState, FrameworkWrite, source, [*place, *session])
    if not pairs:
        return []
    row = pairs[0][0]
    _set_or_verify_session_of_state(using, row, session)
    return [(row, [write for _, write in pairs if write is not None])]


@cache
def _build_source_sql_of_one_state_with_writes(is_newest: bool) -> str:
    state = f"SELECT * FROM {quote_table(FrameworkState)} {_build_where_sql_of_one_state(is_newest)}"
    place = " AND ".join(
        f"joined.{quote_column(FrameworkWrite, name)} = row.{quote_column(FrameworkState, name)}"
        for name in ("session", "namespace", "state_id")
    )
    return f"({state}) AS row LEFT JOIN {quote_table(FrameworkWrite)} AS joined ON {place}"


@cache
def _build_where_sql_of_one_state(is_newest: bool) -> str:
    given = ["namespace"] if is_newest else ["namespace", "state_id"]
    place = " AND ".join(f"{quote_column(FrameworkState, name)} = %s" for name in given)
    named = " AND ".join(f"{quote_column(Session, name)} = %s" for name in ("workspace", "session_id"))
    session = f"SELECT {quote_column(Session, 'id')} FROM {quote_table(Session)} WHERE {named}"
    order = f" ORDER BY {quote_column(FrameworkState, 'state_id')} DESC LIMIT 1" if is_newest else ""
    return f"WHERE {place} AND {quote_column(FrameworkState, 'session')} = ({session}){order}"


def read_channels_of_states(
    using: str, session: Session, namespace: str, state_ids: Sequence[str]
) -> dict[str, Channels]:
    """Read the channels of the states of these identifiers that exist."""
    where = _build_where_sql_of_states_by_id(len(state_ids))
    rows = load_rows_where(using, FrameworkState, where, [session.pk, namespace, *state_ids])
    return {
        row.state_id: parse_state_channels_and_collect_digests.parse_channels(session.session_id, row.channels)
        for row in rows
    }


@cache
def _build_where_sql_of_states_by_id(count: int) -> str:
    place = " AND ".join(f"{quote_column(FrameworkState, name)} = %s" for name in ("session", "namespace"))
    return f"WHERE {place} AND {quote_column(FrameworkState, 'state_id')} IN ({make_placeholders(count)})"


def read_task_writes_to_replace_or_keep(
    using: str, session: Session, namespace: str, state_id: str, task_id: str, positions: Collection[int]
) -> dict[int, FrameworkWrite]:
    """Read what a task has written at these positions after a state, where an insertion would replace or keep it.

    A write at a negative position is replaced; sealed rows are inserted only where there is none.
    """
    if get_seal_keys() is None:
        positions = [position for position in positions if position < 0]
    if not positions:
        return {}
    params = [session.pk, namespace, state_id, task_id, *positions]
    rows = load_rows_where(using, FrameworkWrite, _build_task_writes_where_sql(len(positions)), params)
    return {row.position: row for row in rows}


@cache
def _build_task_writes_where_sql(count: int) -> str:
    place = " AND ".join(
        f"{quote_column(FrameworkWrite, name)} = %s" for name in ("session", "namespace", "state_id", "task_id")
    )
    return f"WHERE {place} AND {quote_column(FrameworkWrite, 'position')} IN ({make_placeholders(count)})"


def read_writes_of_states_in_any_namespace(using: str, states: Sequence[FrameworkState]) -> list[FrameworkWrite]:
    """Read all writes after states, and those of states with the same identifiers in other namespaces."""
    sessions, names = sorted({row.session_id for row in states}), sorted({row.state_id for row in states})
    if not states:
        return []
    return load_rows_where(
        using, FrameworkWrite, _build_writes_of_states_where_sql(len(sessions), len(names)), [*sessions, *names]
    )


@cache
def _build_writes_of_states_where_sql(sessions: int, states: int) -> str:
    return (
        f"WHERE {quote_column(FrameworkWrite, 'session')} IN ({make_placeholders(sessions)}) "
        f"AND {quote_column(FrameworkWrite, 'state_id')} IN ({make_placeholders(states)})"
    )
