"""`manage.py create_agent_login`: create a PostgreSQL login role for agents, with only the rights that they need.

It is no account of the dashboard, and no API token.
"""

import secrets
from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection, transaction

from checkpoints.models import AuditChain
from harness_site.core.management_command_as_typed import prefix_management_command_with_program
from harness_site.postgresql_role_statements import (
    InvalidRoleName,
    RoleNames,
    build_database_url_for_login,
    format_psql_command_of_administrator,
    generate_agent_login_statements,
    generate_agent_role_statements,
    validate_role_name,
)


class Command(BaseCommand):
    help = "Create a PostgreSQL login role for agents, with only the rights they need, and print the URL to use."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("login", nargs="?", default="my_agent", help="name of the login (default: my_agent)")
        parser.add_argument("--role", default=RoleNames().agent, help="role of all agents (default: harness_agent)")
        parser.add_argument(
            "--print-sql",
            action="store_true",
            help="print the SQL for psql instead of running it",
        )
        parser.add_argument(
            "--rights-only", action="store_true", help="create no login: grant the rights again, after an upgrade"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        login, role = options["login"], options["role"]
        if connection.vendor != "postgresql":
            raise CommandError("SQLite has no logins: agents open the file itself. Use PostgreSQL.")
        for name in (login, role):
            try:
                validate_role_name(name)
            except InvalidRoleName as error:
                raise CommandError(str(error)) from error
        _require_tables_of_library()
        password = secrets.token_urlsafe(24)
        statements = [*generate_agent_role_statements(role)]
        if not options["rights_only"]:
            statements += generate_agent_login_statements(login, password, role)
        if options["print_sql"]:
            self.stdout.write("".join(f"{statement};\n" for statement in ("BEGIN", *statements, "COMMIT")), ending="")
        else:
            _refuse_role_with_login_or_tables(role)
            if not options["rights_only"]:
                _refuse_existing_role(login)
            arguments = "--rights-only" if options["rights_only"] else login
            _run_statements(statements, arguments if role == RoleNames().agent else f"{arguments} --role {role}")
        if options["rights_only"]:
            self.stderr.write(f"The role {role} has the rights that this version needs.")
            return
        line = f"export HARNESS_DATABASE_URL='{build_database_url_for_login(login, password)}'"
        (self.stderr if options["print_sql"] else self.stdout).write(line)


def _require_tables_of_library() -> None:
    """Require the tables whose rights are granted: without them, no administrator could run the SQL either."""
    if AuditChain._meta.db_table not in connection.introspection.table_names():
        command = prefix_management_command_with_program("migrate")
        raise CommandError(f"The tables of the library are missing in this database. Run {command} first.")


def _refuse_existing_role(login: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolname FROM pg_roles WHERE rolname = %s", [login])
        if cursor.fetchone() is not None:
            raise CommandError(f"There is a role {login} already, and it stays as it is. Choose another name.")


def _refuse_role_with_login_or_tables(role: str) -> None:
    """Refuse a role whose rights would be taken away, or which may do more than agents may."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT rolsuper OR rolcanlogin OR rolname = current_user
                OR EXISTS (SELECT FROM pg_class WHERE relowner = pg_roles.oid AND relkind = 'r')
            FROM pg_roles WHERE rolname = %s
            """,
            [role],
        )
        row = cursor.fetchone()
    if row is not None and row[0]:
        raise CommandError(f"The role {role} is a login or owns tables. Choose a role that only agents have.")


def _run_statements(statements: Iterable[str], command_arguments: str) -> None:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
    except DatabaseError as error:
        reason = str(error).strip().splitlines()[0]
        command = prefix_management_command_with_program(f"create_agent_login {command_arguments} --print-sql")
        raise CommandError(
            f"The database refused it: {reason}. Let an administrator of the database run the SQL: "
            f"{command} | {format_psql_command_of_administrator()}"
        ) from error
