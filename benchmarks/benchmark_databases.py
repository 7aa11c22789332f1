"""Databases of one run: a throw-away PostgreSQL server and a folder of SQLite files, one database per contender."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import psycopg
from psycopg import sql

from tests.support.cluster import cluster

Kind = Literal["postgresql", "sqlite"]
KINDS: tuple[Kind, ...] = ("postgresql", "sqlite")
TITLES = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}

_SIZE = """
    SELECT sum(pg_total_relation_size(oid)) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""


_TABLE_SIZES = """
    SELECT relname, pg_total_relation_size(oid) - pg_indexes_size(oid), pg_indexes_size(oid) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname
"""


@dataclass(frozen=True)
class TableSize:
    """Bytes on disk of the rows of a table, and of its indexes; and the number of rows."""

    rows: int
    row_bytes: int
    index_bytes: int


@dataclass(frozen=True)
class Database:
    """Database of one contender, empty when it is created."""

    kind: Kind
    alias: str
    url: str  #: URL for PostgreSQL, path for SQLite

    def measure_bytes_on_disk(self) -> int:
        """Return the bytes on disk of tables, indexes and TOAST data, without the write-ahead log."""
        if self.kind == "postgresql":
            with psycopg.connect(self.url, autocommit=True) as connection:
                row = connection.execute(_SIZE).fetchone()
            return int(row[0] or 0) if row else 0
        with closing(sqlite3.connect(self.url)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return Path(self.url).stat().st_size

    def get_postgresql_table_sizes(self) -> dict[str, TableSize]:
        """Return the size of each table of a PostgreSQL database."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return {
                name: TableSize(self._count_rows(connection, name), row_bytes, index_bytes)
                for name, row_bytes, index_bytes in connection.execute(_TABLE_SIZES).fetchall()
            }

    @staticmethod
    def _count_rows(connection: psycopg.Connection[tuple[Any, ...]], table: str) -> int:
        query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
        return int(connection.execute(query).fetchall()[0][0])


class DatabaseFactory:
    def __init__(self, server: str, directory: Path) -> None:
        self._server = server
        self._directory = directory

    def create_empty_database(self, kind: Kind, name: str) -> Database:
        """Create an empty database. Its Django alias is `postgresql_name` or `sqlite_name`."""
        alias = build_django_alias(kind, name)
        if kind == "sqlite":
            return Database(kind, alias, self.build_sqlite_path(name))
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return Database(kind, alias, self.build_postgresql_url(name))

    def build_postgresql_url(self, name: str) -> str:
        return f"{self._server.rpartition('/')[0]}/{name}"

    def build_sqlite_path(self, name: str) -> str:
        return str(self._directory / f"{name}.db")

    def build_urls_by_alias(self, names: Sequence[str]) -> dict[str, str]:
        """Return the URLs of the databases of these names, on both kinds of server, by alias."""
        paths = {build_django_alias("sqlite", name): self.build_sqlite_path(name) for name in names}
        return paths | {build_django_alias("postgresql", name): self.build_postgresql_url(name) for name in names}

    def get_postgresql_version(self) -> str:
        with psycopg.connect(self._server) as connection:
            return connection.execute("SHOW server_version").fetchall()[0][0].split()[0]  # type: ignore[no-any-return]


def build_django_alias(kind: Kind, name: str) -> str:
    return f"{kind}_{name}"


@contextmanager
def run_temporary_postgresql_and_sqlite_folder() -> Iterator[DatabaseFactory]:
    """Create databases for the length of a `with` block, on a server and file system with durable writes."""
    with cluster() as server, TemporaryDirectory(prefix="harness-benchmarks-") as directory:
        yield DatabaseFactory(server, Path(directory))
