"""Readiness of the database: whether it answers, and whether its tables are complete."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from typing import Final

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http.response import HttpResponseBase
from django.utils import translation
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from checkpoints.db.connection import ensure_server_reachable
from checkpoints.exceptions import CheckpointsError, ConnectionFailed
from harness_site.core.management_command_as_typed import is_standalone_site, prefix_management_command_with_program
from harness_site.find_database_variable import find_database_variable

logger = logging.getLogger(__name__)

#: Seconds after which a client may ask again that got status 503.
RETRY_SECONDS: Final = 5
#: Seconds between two looks at a database that is not ready.
_PAUSE_SECONDS: Final = 1.0


class StartupProblem(StrEnum):
    """Reason why no page can be served yet."""

    DATABASE = "database"
    MIGRATIONS = "migrations"

    @property
    def summary(self) -> str:
        return str(_SUMMARIES[self])

    @property
    def advice(self) -> str:
        """What an operator has to do."""
        if self is StartupProblem.DATABASE:
            if is_standalone_site():
                return gettext("Check that the database server is running, and that HARNESS_DATABASE_URL names it.")
            return gettext("Check that the database server is running, and that DATABASES in the settings names it.")
        values = {"command": prefix_management_command_with_program("migrate")}
        if is_standalone_site():
            values["variable"] = find_database_variable()
            if values["variable"]:
                return gettext("Run “%(command)s” with the same %(variable)s.") % values
            return gettext("Run “%(command)s” as the user who runs this site.") % values
        return gettext("Run “%(command)s” with the settings of this project.") % values


_SUMMARIES: Final[dict[StartupProblem, Promise]] = {
    StartupProblem.DATABASE: _("The database does not answer."),
    StartupProblem.MIGRATIONS: _("The tables of the database are missing or older than this version."),
}


@dataclass(frozen=True)
class SchemaState:
    """Numbers of applied migrations, and names of those that are missing or that this code does not know."""

    applied: int
    missing: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def is_current(self) -> bool:
        return not self.missing


def does_database_answer() -> bool:
    """Return whether the database answers a query; false after the timeout of the connection pool at the latest."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error:
        return False
    return True


def load_schema_state() -> SchemaState:
    """Compare the migrations of the installed apps with those that the database has. Raises `django.db.Error`."""
    executor = MigrationExecutor(connection)
    loader = executor.loader
    plan = executor.migration_plan(loader.graph.leaf_nodes())
    own_apps = loader.migrated_apps
    unknown = [
        f"{app}.{name}"
        for app, name in sorted(loader.applied_migrations)
        if app in own_apps and (app, name) not in loader.disk_migrations
    ]
    missing = tuple(f"{migration.app_label}.{migration.name}" for migration, _ in plan)
    return SchemaState(len(loader.applied_migrations), missing, tuple(unknown))


class SchemaProbe:
    """Answer whether the tables are complete; once they are, they are not looked at again."""

    def __init__(self) -> None:
        self._is_current = False
        self._lock = Lock()
        self._checked_at = float("-inf")
        self._problem: StartupProblem | None = None
        #: Sentence with what the database says, for the log alone: visitors of the page may be anybody.
        self._reason = ""
        self._waiting: list[Callable[[], None]] = []

    @property
    def are_tables_known_complete(self) -> bool:
        """Whether an earlier check found the tables complete. The database is not asked."""
        return self._is_current

    def find_problem(self) -> StartupProblem | None:
        """Return why no page can be served yet; None from the moment when the tables were complete once.

        The database is asked once a second at most, by any number of threads. The log gets one line when the problem
        changes.
        """
        if self.are_tables_known_complete:
            return None
        with self._lock:
            if self._is_current or time.monotonic() < self._checked_at + _PAUSE_SECONDS:
                return None if self._is_current else self._problem
            problem = self._check_tables_and_find_problem()
            if problem is not None and problem is not self._problem:
                with translation.override("en"):
                    words = " ".join(filter(None, (problem.summary, self._reason, problem.advice)))
                    logger.error("%s Until then, every page has status 503.", words)
            self._problem, self._checked_at = problem, time.monotonic()
            waiting, self._waiting = (self._waiting, []) if problem is None else ([], self._waiting)
        for function in waiting:
            function()
        return problem

    def call_now_or_once_tables_complete(self, function: Callable[[], None]) -> None:
        """Call `function` once `find_problem` has found the tables complete: now, or later in any thread."""
        with self._lock:
            if not self._is_current:
                self._waiting.append(function)
                return
        function()

    def _check_tables_and_find_problem(self) -> StartupProblem | None:
        self._reason = ""
        try:
            if (
                connection.vendor == "postgresql"
            ):  # the pool would try again for seconds, with a line in the log each time
                ensure_server_reachable(connection)
            self._is_current = load_schema_state().is_current
            return None if self._is_current else StartupProblem.MIGRATIONS
        except ConnectionFailed as error:
            self._reason = error.what
            return StartupProblem.DATABASE
        except (Error, CheckpointsError):
            return StartupProblem.DATABASE


probe = SchemaProbe()


def mark_response_as_logged(response: HttpResponseBase) -> None:
    """Stop Django from logging this response as it logs each one of status 500 or 503: its cause was logged once."""
    response._has_been_logged = True  # type: ignore[attr-defined]
