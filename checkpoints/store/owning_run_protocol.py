"""Run that owns a session, as a client of a database or of a server knows it."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol
from uuid import UUID


class SessionOfRun(Protocol):
    """Session of a run."""

    @property
    def session_id(self) -> str:
        """Identifier of the session."""


class OwningRun(Protocol):
    """One process that drives a session. A resumed run is a new run, linked to the one before it."""

    @property
    def id(self) -> UUID:
        """Identifier of the run."""

    @property
    def pk(self) -> UUID:
        """The same as `id`."""

    @property
    def session(self) -> SessionOfRun:
        """Session that the run owns."""

    @property
    def number(self) -> int:
        """Number of the run in its session, from 1."""

    @property
    def fence(self) -> int:
        """Number that every write of the run names; a later owner has a higher one."""

    @property
    def resumed_from_id(self) -> UUID | None:
        """Identifier of the run that this one continues; None for the first."""

    @property
    def status(self) -> str:
        """Value of `RunStatus`."""

    @property
    def started_at(self) -> datetime:
        """Time of the start, by the clock of the database."""

    @property
    def host(self) -> str:
        """Name of the machine."""

    @property
    def pid(self) -> int:
        """Identifier of the process on its machine."""
