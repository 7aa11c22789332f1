"""PostgreSQL roles for agents, the site and migrations, derived from the models' tables.

| role | may |
|---|---|
| agent | read and write the library's tables; nothing of accounts, sign-ins, notifications and search |
| site | read and write every table |
| migration | own the tables: change them, delete sessions and versions |

Neither an agent nor the site changes or deletes recorded decisions, late results or audit entries. The site adds the
position in the chain to audit entries.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from django.apps import apps
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Model

from checkpoints.constants import PREPARE_THRESHOLD
from checkpoints.models import AuditChain, AuditEvent, Decision, EarlyResponse, LateResult, Workspace

_LIBRARY: Final = "checkpoints"
#: Hosts of a server on this machine, whose administrator signs in as the user postgres without a password.
_LOCAL_SERVERS: Final = frozenset({"", "localhost", "127.0.0.1", "::1"})
#: Folders of sockets in which psql looks by itself.
_DEFAULT_SOCKET_FOLDERS: Final = frozenset({"/run/postgresql", "/var/run/postgresql"})
#: Append-only tables.
_RECORDS: Final[tuple[type[Model], ...]] = (AuditEvent, Decision, LateResult)
#: Tables that agents only read.
_READ_BY_AGENTS: Final[tuple[type[Model], ...]] = (Workspace, AuditChain)
#: Tables from which the library deletes rows in its daily work.
_DELETED: Final[tuple[type[Model], ...]] = (EarlyResponse,)

#: Options of the site's connections that are not those of an agent's.
_OPTIONS_OF_SITE: Final = frozenset({"pool", "server_side_binding", "options", "sslcert", "sslkey"})


@dataclass(frozen=True, slots=True)
class RoleNames:
    agent: str = "harness_agent"
    site: str = "harness_site"
    migration: str = "harness_migration"


def generate_role_statements(names: RoleNames) -> Iterator[str]:
    """Generate SQL that creates the roles and grants their rights; repeatable, and to be run after each migration."""
    agent, site, migration = map(_quote_identifier, (names.agent, names.site, names.migration))
    yield "BEGIN"
    for name in (names.agent, names.site, names.migration):
        yield _build_create_role_statement(name)
    schema = "SCHEMA public"
    yield f"REVOKE CREATE ON {schema} FROM PUBLIC, {agent}, {site}"
    yield f"GRANT USAGE ON {schema} TO {agent}, {site}"
    yield f"GRANT USAGE, CREATE ON {schema} TO {migration}"
    for model in list_models_sorted_by_table():
        table = _quote_identifier(model._meta.db_table)
        yield f"ALTER TABLE {table} OWNER TO {migration}"
        yield f"REVOKE ALL ON {table} FROM PUBLIC, {agent}, {site}"
        for role, rights in (
            (agent, list_agent_table_privileges(model)),
            (site, list_site_table_privileges(model)),
        ):
            if rights:
                yield f"GRANT {', '.join(rights)} ON {table} TO {role}"
    table = _quote_identifier(MigrationRecorder.Migration._meta.db_table)
    yield f"ALTER TABLE {table} OWNER TO {migration}"
    yield f"REVOKE ALL ON {table} FROM PUBLIC, {agent}, {site}"
    yield f"GRANT SELECT ON {table} TO {agent}, {site}"
    yield "COMMIT"


def generate_agent_role_statements(role: str) -> Iterator[str]:
    """Generate SQL that creates the agents' role and grants its rights; repeatable. The tables keep their owner."""
    agent = _quote_identifier(role)
    yield _build_create_role_statement(role)
    yield f"GRANT USAGE ON SCHEMA public TO {agent}"
    for model in list_models_sorted_by_table():
        if rights := list_agent_table_privileges(model):
            table = _quote_identifier(model._meta.db_table)
            yield f"REVOKE ALL ON {table} FROM {agent}"
            yield f"GRANT {', '.join(rights)} ON {table} TO {agent}"
    yield f"GRANT SELECT ON {_quote_identifier(MigrationRecorder.Migration._meta.db_table)} TO {agent}"


def generate_agent_login_statements(login: str, password: str, role: str) -> Iterator[str]:
    """Generate SQL that creates a login in the agents' role. It fails if there is a role `login` already."""
    literal = password.replace("'", "''")
    yield f"CREATE ROLE {_quote_identifier(login)} LOGIN PASSWORD '{literal}' IN ROLE {_quote_identifier(role)}"


def build_database_url_for_login(user: str, password: str) -> str:
    """Build the URL of this site's PostgreSQL database for a login, with the options of the site's connections.

    The site's own login and its client certificate are not in it.
    """
    database = connection.settings_dict
    host = quote(str(database["HOST"] or "localhost"), safe="")
    port = f":{database['PORT']}" if database["PORT"] else ""
    options = {
        name: "none" if value is None else value
        for name, value in database["OPTIONS"].items()
        if name not in _OPTIONS_OF_SITE and (name, value) != ("prepare_threshold", PREPARE_THRESHOLD)
    }
    query = f"?{urlencode(options)}" if options else ""
    name = quote(str(database["NAME"]))
    return f"postgresql://{quote(user, safe='')}:{quote(password, safe='')}@{host}{port}/{name}{query}"


def may_create_roles() -> bool:
    """Return whether the login of this site may create roles on its PostgreSQL server."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user")
        return bool(cursor.fetchone()[0])


def format_psql_command_of_administrator() -> str:
    """Format the command that opens this site's database as an administrator of the PostgreSQL server."""
    database = connection.settings_dict
    host, port = str(database["HOST"]), str(database["PORT"])
    options = f" -h {shlex.quote(host)}" if host.startswith("/") and host not in _DEFAULT_SOCKET_FOLDERS else ""
    options += f" -p {port}" if port not in ("", "5432") else ""
    name = shlex.quote(str(database["NAME"]))
    if host in _LOCAL_SERVERS or host.startswith("/"):
        return f"sudo -u postgres psql -q{options} {name}"
    return f"psql -q -h {shlex.quote(host)}{options} -U postgres {name}"


def validate_role_name(name: str) -> None:
    """Refuse a name that needs quotes somewhere. Raises `InvalidRoleName`."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", name):
        raise InvalidRoleName(f"{name!r} is no name for a role: use letters, digits and _.")


class InvalidRoleName(ValueError):
    """The name of a role has other characters than letters, digits and underscores."""


def list_models_sorted_by_table() -> list[type[Model]]:
    """List all models with a table of their own, sorted by table name."""
    managed_models = [model for model in apps.get_models(include_auto_created=True) if model._meta.managed]
    return sorted(managed_models, key=lambda model: model._meta.db_table)


def list_agent_table_privileges(model: type[Model]) -> list[str]:
    if model._meta.app_label != _LIBRARY:
        return []
    if model in _READ_BY_AGENTS:
        return ["SELECT"]
    return _list_library_table_privileges(model)


def list_site_table_privileges(model: type[Model]) -> list[str]:
    if model._meta.app_label != _LIBRARY:
        return ["SELECT", "INSERT", "UPDATE", "DELETE"]
    if model is AuditEvent:
        return ["SELECT", "INSERT", _build_column_update_privilege("number", "seal")]
    if model is Decision:
        # The search index locks rows that it reads (FOR KEY SHARE), which needs the right to update some column.
        return ["SELECT", "INSERT", _build_column_update_privilege("id", "row_seal")]
    return _list_library_table_privileges(model)


def _list_library_table_privileges(model: type[Model]) -> list[str]:
    rights = ["SELECT", "INSERT"]
    if model not in _RECORDS:
        rights.append("UPDATE")
    elif model is not AuditEvent:
        # Their seal covers the time that the database gave them, so it is written after the row.
        rights.append(_build_column_update_privilege("row_seal"))
    if model in _DELETED:
        rights.append("DELETE")
    return rights


def _build_column_update_privilege(*columns: str) -> str:
    return f"UPDATE ({', '.join(map(_quote_identifier, columns))})"


def _build_create_role_statement(name: str) -> str:
    literal = name.replace("'", "''")
    return (
        f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{literal}') "
        f"THEN CREATE ROLE {_quote_identifier(name)} NOLOGIN; END IF; END $$"
    )


def _quote_identifier(name: str) -> str:
    return connection.ops.quote_name(name)
