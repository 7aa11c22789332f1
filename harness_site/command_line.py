"""Console script `harness`: Django's command line, for installations without a checkout and its `manage.py`."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from harness_site.command_overview import (
    does_command_need_database,
    does_command_need_site_packages,
    format_overview,
)
from harness_site.find_database_variable import find_database_variable

if TYPE_CHECKING:
    from django.db import DatabaseError

#: Packages that `harness_site.settings` needs beside Django; `pip install "harness-checkpoints[site]"` brings them.
SITE_PACKAGES = ("allauth", "channels", "django_htmx", "markdown_it", "nh3", "uvicorn", "whitenoise")


def main(arguments: list[str] | None = None) -> None:
    """Run one management command, such as `harness migrate` or `harness serve`.

    Settings come from `DJANGO_SETTINGS_MODULE` if it is set. Otherwise they are the site's if its packages are
    installed, and those of the library alone if not, on the database of `HARNESS_DATABASE_URL`. `harness mcp` needs
    neither settings nor a database, and `harness mcp-guard` no settings.

    If the reader of the output ends first, as `head` does, the process ends quietly, with the status of a program that
    SIGPIPE has ended.
    """
    with _exit_quietly_after_closed_output():
        _run_command([_get_program_name_as_called().split()[-1], *(sys.argv[1:] if arguments is None else arguments)])


@contextmanager
def _exit_quietly_after_closed_output() -> Iterator[None]:
    try:
        try:
            yield
        except SystemExit:  # after `--help` of a command
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except BrokenPipeError:
        if not _is_output_closed():
            raise  # it was another connection
        # What is still buffered goes nowhere, so that the interpreter does not complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(128 + signal.SIGPIPE) from None


def _get_program_name_as_called() -> str:
    """Return the program as it was called: a checkout has `manage.py`, and no `harness`."""
    return "python manage.py" if Path(sys.argv[0]).name == "manage.py" else "harness"


def _is_output_closed() -> bool:
    """Return whether the standard output is a pipe that nobody reads."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return bool(poll.poll(0))


def _run_command(command_line: list[str]) -> None:
    if command_line[1:] in (["version"], ["--version"]):
        from checkpoints import __version__

        print(__version__)
        return
    if command_line[1:] in ([], ["help"], ["--help"], ["-h"]):
        print(format_overview(_get_program_name_as_called(), is_site_installed=not list_missing_site_packages()))
        return
    if command_line[1:2] == ["help"] and command_line[2:] in (["mcp"], ["mcp-guard"]):
        command_line = [command_line[0], command_line[2], "--help"]
    if command_line[1:2] == ["mcp"]:
        _run_mcp_server(command_line[2:])
        return
    if command_line[1:2] == ["mcp-guard"]:
        _run_mcp_guard(command_line[2:])
        return
    if "DJANGO_SETTINGS_MODULE" not in os.environ:
        _configure_django_for_command(command_line[1])
    try:
        if does_command_need_database(command_line[1]) and not {"-h", "--help"} & set(command_line[2:]):
            _require_reachable_database()
        _execute_management_command(command_line)
    except Exception as error:
        problem = _describe_missing_settings_module(error) or _describe_configuration_error(error, command_line[1])
        if not problem or "--traceback" in command_line:
            raise
        raise SystemExit("\n".join(f"harness: {line}" for line in problem.splitlines())) from None


def _require_reachable_database() -> None:
    """Connect once to a PostgreSQL server, so that one which refuses says why at once.

    The pool of Django's connections would try again for seconds, with a line in the log each time. Raises
    `CheckpointsError`.
    """
    import django

    django.setup()
    from django.db import connection

    from checkpoints.db.connection import ensure_server_reachable

    if connection.vendor == "postgresql":
        ensure_server_reachable(connection)


def _execute_management_command(command_line: list[str]) -> None:
    """Execute a command of Django or of an app; the site's own `createsuperuser` takes the place of Django's."""
    from django.apps import apps
    from django.core.management import BaseCommand, ManagementUtility, execute_from_command_line

    if command_line[1] != "createsuperuser":
        execute_from_command_line(command_line)
        return

    class CreateSuperuserUtility(ManagementUtility):
        def fetch_command(self, subcommand: str) -> BaseCommand:
            if not apps.is_installed("harness_site.accounts"):
                return super().fetch_command(subcommand)
            from harness_site.accounts.create_superuser_command import Command

            return Command()

    CreateSuperuserUtility(command_line).execute()


def _describe_missing_tables(reason: str) -> str:
    command = f"{_get_program_name_as_called()} migrate"
    variable = find_database_variable()
    same = f"with the same {variable}" if variable else "as the user who runs the site"
    return f"The tables are missing ({reason}). Run {command} first, {same}."


def _describe_configuration_error(error: Exception, command: str) -> str:
    """Describe an error that a setting causes; empty for one that may be a fault of this program."""
    from django.core.exceptions import ImproperlyConfigured
    from django.db import OperationalError, ProgrammingError
    from django.db.migrations.exceptions import MigrationSchemaMissing

    from checkpoints.exceptions import CheckpointsError, MigrationsMissing

    if isinstance(error, MigrationsMissing):
        return _describe_missing_tables(str(error.__cause__ or error.what).strip().partition("\n")[0].rstrip("."))
    if isinstance(error, ImproperlyConfigured | CheckpointsError):
        return str(error)
    if command == "sendtestemail":
        from harness_site.mail_and_connection_error_sentences import describe_connection_error
        from harness_site.send_email import MAIL_ERRORS

        return describe_connection_error(error) if isinstance(error, MAIL_ERRORS) else ""
    if command == "migrate" and _does_error_name_table_of_accounts(error):
        return (
            "This database was migrated by a Django project with another user model, so it has no table auth_user. "
            "Give the site a database of its own, and open it in that project by the same URL."
        )
    if isinstance(error, OperationalError | ProgrammingError | MigrationSchemaMissing):
        return _describe_database_error(error)
    return ""


def _describe_database_error(error: DatabaseError) -> str:
    from django.db import OperationalError

    if type(error.__cause__).__name__ == "PoolTimeout":
        from django.db import connection

        from checkpoints.db.connection import find_reason_and_build_connection_failed_error

        return str(find_reason_and_build_connection_failed_error(connection, error))
    reason = str(error).strip().partition("\n")[0].rstrip(".")
    lowered = reason.lower()
    if "no such table" in lowered or ("relation" in lowered and "does not exist" in lowered):
        return _describe_missing_tables(reason)
    if "unable to open database file" in lowered:
        from django.db import connection

        return (
            f"The SQLite file {connection.settings_dict['NAME']} cannot be opened. Its folder has to exist, and this "
            "user has to be allowed to write to it. The URL of a PostgreSQL database begins with postgresql://"
        )
    if "permission denied" in lowered:
        return (
            f"The database refused it: {reason}. Run this command with a login in HARNESS_DATABASE_URL that owns the "
            "database and its tables, or, after `database_roles`, with one in the role harness_migration."
        )
    if not isinstance(error, OperationalError):
        return ""
    return f"The database does not answer: {reason}. Check HARNESS_DATABASE_URL, and that the server is running."


def _describe_missing_settings_module(error: Exception) -> str:
    """Describe that DJANGO_SETTINGS_MODULE names no module; empty for any other error."""
    name = os.environ.get("DJANGO_SETTINGS_MODULE", "")
    if not isinstance(error, ModuleNotFoundError) or not f"{name}.".startswith(f"{error.name}."):
        return ""
    return (
        f"DJANGO_SETTINGS_MODULE is {name!r}, and there is no module {error.name!r}. Run this command where Python "
        "finds it, or unset DJANGO_SETTINGS_MODULE to use the settings of the site."
    )


def _does_error_name_table_of_accounts(error: BaseException | None) -> bool:
    """Return whether the error, or one before it in a transaction that it broke, names the table of Django's users."""
    while error is not None:
        if isinstance(error, Exception) and "auth_user" in str(error):
            return True
        error = error.__context__
    return False


def _run_mcp_server(arguments: list[str]) -> None:
    _require_packages("mcp", "httpx", extra="mcp")
    from harness_site.mcp_server.stdio import run_stdio_server

    run_stdio_server(arguments)


def _run_mcp_guard(arguments: list[str]) -> None:
    _require_packages("mcp", "httpx", extra="mcp")
    from harness_site.mcp_guard.command import run_guard_and_exit

    run_guard_and_exit(arguments)


def _require_packages(*names: str, extra: str) -> None:
    """Exit with a hint unless the packages of an extra are installed."""
    if any(find_spec(name) is None for name in names):
        raise SystemExit(f'harness: this command needs more packages: pip install "harness-checkpoints[{extra}]"')


def list_missing_site_packages() -> list[str]:
    """List the packages of the site that are not installed."""
    return [name for name in SITE_PACKAGES if find_spec(name) is None]


def _configure_django_for_command(command: str) -> None:
    """Choose the settings of the site, or without its packages those of the library."""
    missing = list_missing_site_packages()
    if not missing:
        os.environ["DJANGO_SETTINGS_MODULE"] = "harness_site.settings"
    elif does_command_need_site_packages(command):
        raise SystemExit(
            f"harness: {command} is a command of the site, whose packages are not installed ({', '.join(missing)}): "
            'pip install "harness-checkpoints[site]"'
        )
    else:
        _configure_django_with_library_alone()


def _configure_django_with_library_alone() -> None:
    """Configure Django with the library alone, which needs an explicit database."""
    from django.conf import settings

    from checkpoints.database_url import database_from_url
    from checkpoints.django_configuration import build_library_settings
    from checkpoints.exceptions import InvalidDatabaseUrl

    url = os.environ.get("HARNESS_DATABASE_URL", "")
    try:
        database = database_from_url(url)
    except InvalidDatabaseUrl as error:
        raise SystemExit(
            f"harness: {error}\n"
            "Set HARNESS_DATABASE_URL to run the library's commands (migrate, pending, sweep, prune, …).\n"
            'The site brings more commands: pip install "harness-checkpoints[site]"'
        ) from None
    settings.configure(**build_library_settings(database))
