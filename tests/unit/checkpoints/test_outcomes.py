import asyncio
import http.client
import sqlite3
import ssl
import subprocess
import urllib.error
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing

import django.db
import psycopg
import pytest

from checkpoints.calls.ambiguous_errors import is_outcome_unknown


class ReadTimeout(Exception):  # as HTTP clients name theirs
    pass


class RemoteProtocolError(Exception):
    pass


class ServiceUnavailable(Exception):
    pass


class CardDeclined(Exception):
    pass


def raised_from(error: Exception, cause: BaseException) -> Exception:
    try:
        try:
            raise cause
        except BaseException as inner:
            raise error from inner
    except Exception as outer:
        return outer


def raised_while(error: Exception, context: BaseException) -> Exception:
    try:
        try:
            raise context
        except BaseException:
            raise error  # noqa: B904 - the context is what is tested
    except Exception as outer:
        return outer


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        TimeoutError(110, "Connection timed out"),
        ConnectionResetError(),
        BrokenPipeError(),
        asyncio.CancelledError(),
        asyncio.IncompleteReadError(b"", 4),
        http.client.RemoteDisconnected(""),
        http.client.IncompleteRead(b""),
        subprocess.TimeoutExpired("cmd", 1),
        BrokenProcessPool("a worker process has died"),
        ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
        EOFError(),
        django.db.OperationalError("server closed the connection unexpectedly"),
        django.db.InterfaceError("connection already closed"),
        sqlite3.OperationalError("disk I/O error"),
        KeyboardInterrupt(),
        SystemExit(),
        GeneratorExit(),
        ReadTimeout(),
        RemoteProtocolError(),
        ServiceUnavailable(),
        raised_from(ValueError("no answer"), TimeoutError()),
        raised_while(KeyError("answer"), ConnectionError()),
        raised_from(RuntimeError("outer"), raised_from(ValueError("middle"), ReadTimeout())),
        raised_from(urllib.error.URLError("timed out"), TimeoutError()),
        ExceptionGroup("tasks", [ValueError(), TimeoutError()]),
        ExceptionGroup("tasks", [ExceptionGroup("inner", [ReadTimeout()])]),
        raised_from(ValueError("tasks"), ExceptionGroup("tasks", [ConnectionError()])),
    ],
    ids=repr,
)
def test_error_leaves_the_effect_unknown(error: BaseException) -> None:
    assert is_outcome_unknown(error) is True


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such order"),
        KeyError("order"),
        CardDeclined(),
        ZeroDivisionError(),
        FileNotFoundError(),
        PermissionError(),
        django.db.IntegrityError("duplicate key"),
        django.db.DataError("value too long"),
        raised_from(ValueError("outer"), KeyError("inner")),
        ExceptionGroup("tasks", [ValueError(), KeyError()]),
    ],
    ids=repr,
)
def test_error_that_rules_out_an_effect(error: BaseException) -> None:
    assert is_outcome_unknown(error) is False


@pytest.mark.parametrize("statement", ["SELEC 1", "INSERT INTO nothing VALUES (1)"])
def test_statement_that_sqlite_refuses_had_no_effect(statement: str) -> None:
    with closing(sqlite3.connect(":memory:")) as database, pytest.raises(sqlite3.OperationalError) as refused:
        database.execute(statement)

    assert is_outcome_unknown(refused.value) is False
    assert is_outcome_unknown(raised_from(django.db.OperationalError(str(refused.value)), refused.value)) is False


@pytest.mark.parametrize(
    ("code", "unknown"),
    [
        (sqlite3.SQLITE_BUSY_SNAPSHOT, False),
        (sqlite3.SQLITE_LOCKED, False),
        (sqlite3.SQLITE_IOERR_FSYNC, True),
        (sqlite3.SQLITE_FULL, True),
    ],
)
def test_code_of_sqlite_says_whether_the_statement_was_refused(code: int, unknown: bool) -> None:
    error = sqlite3.OperationalError("an error of SQLite")
    error.sqlite_errorcode = code

    assert is_outcome_unknown(error) is unknown


@pytest.mark.parametrize(("state", "unknown"), [("40001", False), ("40P01", False), ("55P03", False), ("57P01", True)])
def test_state_of_postgresql_says_whether_the_transaction_was_rolled_back(state: str, unknown: bool) -> None:
    error = psycopg.errors.lookup(state)("an error of PostgreSQL")

    assert is_outcome_unknown(error) is unknown
    assert is_outcome_unknown(raised_from(django.db.OperationalError(str(error)), error)) is unknown


def test_suppressed_context_does_not_count() -> None:
    error = raised_while(ValueError("no such order"), TimeoutError())
    error.__suppress_context__ = True

    assert is_outcome_unknown(error) is False


def test_circular_chain_of_causes_is_read_once() -> None:
    first, second = ValueError("first"), KeyError("second")
    first.__cause__, second.__cause__ = second, first

    assert is_outcome_unknown(first) is False
