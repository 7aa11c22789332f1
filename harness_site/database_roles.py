"""Database roles for PostgreSQL: what an agent, the site and migrations may do, made from the models' own tables.

| role | may |
|---|---|
| agent | read and write the library's tables; nothing of accounts, sign-ins, notifications and search |
| site | read and write every table |
| migration | own the tables: change them, delete sessions and versions |

Neither an agent nor the site changes or deletes what was recorded: decisions, late results, entries of the audit trail.
The site gives those entries their place in the chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from django.apps import apps
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Model

from checkpoints.models import AuditChain, AuditEvent, Decision, EarlyResponse, LateResult, Workspace

_LIBRARY: Final = "checkpoints"
#: Written once.
_RECORDS: Final[tuple[type[Model], ...]] = (AuditEvent, Decision, LateResult)
#: What an agent reads and has no reason to write.
_READ_BY_AGENTS: Final[tuple[type[Model], ...]] = (Workspace, AuditChain)
#: What the library deletes in its daily work.
_DELETED: Final[tuple[type[Model], ...]] = (EarlyResponse,)


@dataclass(frozen=True, slots=True)
class RoleNames:
    agent: str = "harness_agent"
    site: str = "harness_site"
    migration: str = "harness_migration"


def statements(names: RoleNames) -> Iterator[str]:
    """SQL that makes the roles and gives them their rights; it may run any number of times, after each migration."""
    agent, site, migration = map(_quoted, (names.agent, names.site, names.migration))
    yield "BEGIN"
    for name in (names.agent, names.site, names.migration):
        yield _role(name)
    schema = "SCHEMA public"
    yield f"REVOKE CREATE ON {schema} FROM PUBLIC, {agent}, {site}"
    yield f"GRANT USAGE ON {schema} TO {agent}, {site}"
    yield f"GRANT USAGE, CREATE ON {schema} TO {migration}"
    for model in models():
        table = _quoted(model._meta.db_table)
        yield f"ALTER TABLE {table} OWNER TO {migration}"
        yield f"REVOKE ALL ON {table} FROM PUBLIC, {agent}, {site}"
        for role, rights in ((agent, agent_rights(model)), (site, site_rights(model))):
            if rights:
                yield f"GRANT {', '.join(rights)} ON {table} TO {role}"
    table = _quoted(MigrationRecorder.Migration._meta.db_table)
    yield f"ALTER TABLE {table} OWNER TO {migration}"
    yield f"REVOKE ALL ON {table} FROM PUBLIC, {agent}, {site}"
    yield f"GRANT SELECT ON {table} TO {agent}, {site}"
    yield "COMMIT"


def models() -> list[type[Model]]:
    """Every model with a table of its own, by table."""
    managed = [model for model in apps.get_models(include_auto_created=True) if model._meta.managed]
    return sorted(managed, key=lambda model: model._meta.db_table)


def agent_rights(model: type[Model]) -> list[str]:
    if model._meta.app_label != _LIBRARY:
        return []
    if model in _READ_BY_AGENTS:
        return ["SELECT"]
    return _library_rights(model)


def site_rights(model: type[Model]) -> list[str]:
    if model._meta.app_label != _LIBRARY:
        return ["SELECT", "INSERT", "UPDATE", "DELETE"]
    if model is AuditEvent:
        place = ", ".join(map(_quoted, ("number", "seal")))
        return ["SELECT", "INSERT", f"UPDATE ({place})"]
    if model is Decision:
        # The search index locks rows that it reads (FOR KEY SHARE), which takes the right to update some column.
        return ["SELECT", "INSERT", f"UPDATE ({_quoted('id')})"]
    return _library_rights(model)


def _library_rights(model: type[Model]) -> list[str]:
    rights = ["SELECT", "INSERT"]
    if model not in _RECORDS:
        rights.append("UPDATE")
    if model in _DELETED:
        rights.append("DELETE")
    return rights


def _role(name: str) -> str:
    literal = name.replace("'", "''")
    return (
        f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{literal}') "
        f"THEN CREATE ROLE {_quoted(name)} NOLOGIN; END IF; END $$"
    )


def _quoted(name: str) -> str:
    return connection.ops.quote_name(name)
