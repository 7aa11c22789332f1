"""The databases of one run: a throw-away PostgreSQL server and a directory of SQLite files, one for each contender."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import psycopg

from tests.support.cluster import cluster

Kind = Literal["postgresql", "sqlite"]
KINDS: tuple[Kind, ...] = ("postgresql", "sqlite")
TITLES = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}

_SIZE = """
    SELECT sum(pg_total_relation_size(oid)) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""


@dataclass(frozen=True)
class Database:
    """One database of one contender, empty when it is made."""

    kind: Kind
    alias: str
    url: str  #: for PostgreSQL an address, for SQLite a path

    def size(self) -> int:
        """Bytes on disk: tables, indexes and what is stored out of line. The write-ahead log does not count."""
        if self.kind == "postgresql":
            with psycopg.connect(self.url, autocommit=True) as connection:
                row = connection.execute(_SIZE).fetchone()
            return int(row[0] or 0) if row else 0
        with closing(sqlite3.connect(self.url)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return Path(self.url).stat().st_size


class Databases:
    def __init__(self, server: str, directory: Path) -> None:
        self._server = server
        self._directory = directory

    def new(self, kind: Kind, name: str) -> Database:
        """A new and empty database. Its Django connection is called `postgresql_name` or `sqlite_name`."""
        alias = alias_of(kind, name)
        if kind == "sqlite":
            return Database(kind, alias, self.sqlite_path(name))
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return Database(kind, alias, self.address(name))

    def address(self, name: str) -> str:
        return f"{self._server.rpartition('/')[0]}/{name}"

    def sqlite_path(self, name: str) -> str:
        return str(self._directory / f"{name}.db")

    def urls(self, names: Sequence[str]) -> dict[str, str]:
        """The address of every database of these names, on both kinds of server, by alias."""
        paths = {alias_of("sqlite", name): self.sqlite_path(name) for name in names}
        return paths | {alias_of("postgresql", name): self.address(name) for name in names}

    def server_version(self) -> str:
        with psycopg.connect(self._server) as connection:
            return connection.execute("SHOW server_version").fetchall()[0][0].split()[0]  # type: ignore[no-any-return]


def alias_of(kind: Kind, name: str) -> str:
    return f"{kind}_{name}"


@contextmanager
def throw_away() -> Iterator[Databases]:
    """Databases for the length of a `with` block, on a server and a file system that write to disk for good."""
    with cluster() as server, TemporaryDirectory(prefix="harness-benchmarks-") as directory:
        yield Databases(server, Path(directory))
