from pathlib import Path
from typing import Any

import pytest

from checkpoints.database_url import database_from_url
from checkpoints.exceptions import InvalidDatabaseUrl
from tests.unit.checkpoints.test_names import in_a_fresh_process


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:////srv/agent.db", "/srv/agent.db"),
        ("sqlite:///agent.db", str(Path("agent.db").absolute())),
        ("sqlite:///with%20space%3F.db", str(Path("with space?.db").absolute())),
        ("sqlite:///sub/agent.db", str(Path("sub/agent.db").absolute())),
        (".harness/sessions.db", str(Path(".harness/sessions.db").absolute())),
        ("/srv/agent.db", "/srv/agent.db"),
        ("100%.db", str(Path("100%.db").absolute())),
    ],
)
def test_sqlite_file_of_a_url_or_path(url: str, path: str) -> None:
    database = database_from_url(url)

    assert (database["ENGINE"], database["NAME"]) == ("django.db.backends.sqlite3", path)


def test_sqlite_transactions_begin_immediate() -> None:
    options = database_from_url("agent.db")["OPTIONS"]

    assert (options["transaction_mode"], options["timeout"]) == ("IMMEDIATE", 30)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://u:p@h:5433/n", ("n", "u", "p", "h", "5433")),
        ("postgres://h/n", ("n", "", "", "h", "")),
        ("postgresql:///n", ("n", "", "", "", "")),
        ("postgresql://u%40x:p%3A%2F@h/my%20db", ("my db", "u@x", "p:/", "h", "")),
        ("postgresql://u@[::1]:5432/n", ("n", "u", "", "::1", "5432")),
    ],
)
def test_postgresql_parts_of_a_url(url: str, expected: tuple[str, ...]) -> None:
    database = database_from_url(url)

    assert tuple(database[key] for key in ("NAME", "USER", "PASSWORD", "HOST", "PORT")) == expected


def test_postgresql_parameters_become_options() -> None:
    options: dict[str, Any] = database_from_url("postgresql://h/n?sslmode=require&application_name=desk")["OPTIONS"]

    assert (options["sslmode"], options["application_name"], options["pool"]["max_size"]) == ("require", "desk", 8)


@pytest.mark.parametrize(
    ("query", "expected"),
    [("", 3), ("?prepare_threshold=none", None), ("?prepare_threshold=0", 0), ("?prepare_threshold=10", 10)],
)
def test_statements_are_prepared_unless_the_url_disables_it(query: str, expected: int | None) -> None:
    options: dict[str, Any] = database_from_url(f"postgresql://h/n{query}")["OPTIONS"]

    assert (options["server_side_binding"], options["prepare_threshold"]) == (True, expected)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "sqlite://agent.db",
        "sqlite:///",
        "sqlite://",
        "mysql://h/n",
        "https://harness.example",
        "postgresql://h",
        "postgresql://h/",
        "postgresql://h:port/n",
        "postgresql://h:99999/n",
        "postgresql://h/n?prepare_threshold=often",
        "postgresql://[::1/n",
        "://x",
    ],
)
def test_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidDatabaseUrl):
        database_from_url(url)


FIND_ALIASES_ON_THREADS = """
import json, time
from concurrent.futures import ThreadPoolExecutor
from checkpoints import configure_django_on_import, database_url
get_identity = database_url._get_database_identity
def get_identity_slowly(database):
    time.sleep(0.01)
    return get_identity(database)
database_url._get_database_identity = get_identity_slowly
with ThreadPoolExecutor(8) as threads:
    aliases = list(threads.map(database_url.get_or_register_connection_alias, 2 * ["a.db", "b.db", "c.db", "d.db"]))
print(json.dumps([len(set(aliases)), aliases[:4] == aliases[4:]]))
"""


def test_threads_that_open_databases_at_one_time_find_one_alias_of_each() -> None:
    assert in_a_fresh_process(FIND_ALIASES_ON_THREADS) == [4, True]


@pytest.mark.parametrize("password", ["sec/ret", "sec#ret", "sec?ret", "s@c/ret"])
def test_characters_that_have_to_be_escaped_are_named_without_the_password(password: str) -> None:
    with pytest.raises(InvalidDatabaseUrl, match="/ is written as %2F, @ as %40") as refused:
        database_from_url(f"postgresql://harness:{password}@127.0.0.1:5432/harness")
    assert "sec" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgres:/harness",
        "postgresql:harness",
        "sqlite:/srv/agent.db",
        "agent:secret@db.internal/harness",
        "db.internal:5432/harness",
        "/",
        ".",
        "harness/",
        "sqlite:///.",
        "sqlite:////srv/",
    ],
)
def test_address_that_is_no_file_and_no_url_says_what_to_write(url: str) -> None:
    advice = r"(colon|folder).* Use sqlite:///file\.db, a path, or postgresql://"
    with pytest.raises(InvalidDatabaseUrl, match=advice) as refusal:
        database_from_url(url)

    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("path", ["C:/agents.db", "./desk:1.db", "sqlite:///desk:1.db"])
def test_colon_in_a_path_is_allowed_where_it_is_clear(path: str) -> None:
    assert database_from_url(path)["ENGINE"] == "django.db.backends.sqlite3"
