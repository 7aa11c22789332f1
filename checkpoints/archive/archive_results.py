"""Results of an export and of an import."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ExportedFile:
    """File that has been written.

    Attributes:
        path: Path of the file.
        session_id: Identifier of the session in it.
        version: Newest version of the session.
        size: Size in bytes.
        digest: Digest the file ends with.
    """

    path: Path
    session_id: str
    version: int
    size: int
    digest: str


@dataclass(frozen=True)
class ImportedSession:
    """Session that has been imported.

    Attributes:
        session_id: Identifier of the session.
        version: Its newest version.
        undecided: Number of calls a person has to decide about.
    """

    session_id: str
    version: int
    undecided: int
