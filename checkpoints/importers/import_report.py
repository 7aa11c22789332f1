"""Report of an import: what was read, what was added, and what could not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from checkpoints.importers.escape_non_utf8_path import format_path

#: Number of damaged lines that are reported with their text; more are only counted.
MAX_DAMAGED_KEPT = 1000
#: Fields of a report that are lists.
LISTS: Final = ("empty", "helpers", "refused", "session_ids", "damaged")
#: Characters of a damaged line that are reported.
EXCERPT_LENGTH = 400


@dataclass(frozen=True, slots=True)
class DamagedPlace:
    """Place in a file that could not be read.

    Attributes:
        path: Path of the file.
        line: Number of the line, from 1.
        why: Reason.
        text: Beginning of the line.
    """

    path: str
    line: int
    why: str
    text: str


@dataclass(frozen=True, slots=True)
class RefusedFile:
    """File that was not imported.

    Attributes:
        path: Path of the file.
        why: Reason, as a sentence.
        is_temporary: Whether the same file may be imported later: the database failed, or another process was in the
            way.
    """

    path: str
    why: str
    is_temporary: bool = False


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """Progress of an import.

    Attributes:
        path: File that is read now.
        file: Its number, from 1.
        files: Number of files.
        read: Bytes read so far in all files.
        total: Bytes of all files.
        report: Counts so far.
    """

    path: Path
    file: int
    files: int
    read: int
    total: int
    report: ImportReport


Progress = Callable[[ImportProgress], None]


@dataclass
class ImportReport:
    """Counts of what was read in all files together; the `new_` numbers are what this import added.

    Attributes:
        files: Number of files that were read.
        unchanged: Number of files that were not read again, because they have not changed.
        lines: Number of lines.
        sessions: Number of sessions.
        new_sessions: Number of sessions that were added.
        messages: Number of messages.
        new_messages: Number of messages that were added.
        calls: Number of tool calls.
        new_calls: Number of tool calls that were added.
        unanswered: Number of calls whose result the transcript does not have.
        new_versions: Number of versions that were added.
        repeated: Number of lines that occur twice.
        skipped: Number of places that were left out because they could not be read.
        formats: Number of files of each format.
        empty: Files without a conversation.
        helpers: Files of the program's own helpers, such as the one that summarises; they are not imported.
        refused: Files that were not imported, with the reason.
        session_ids: Identifiers of the sessions.
        unknown: Types this library does not know, with their numbers; they are stored as they are.
        damaged: The first of the places that could not be read.
    """

    files: int = 0
    unchanged: int = 0
    lines: int = 0
    sessions: int = 0
    new_sessions: int = 0
    messages: int = 0
    new_messages: int = 0
    calls: int = 0
    new_calls: int = 0
    unanswered: int = 0
    new_versions: int = 0
    repeated: int = 0
    skipped: int = 0
    formats: Counter[str] = field(default_factory=Counter)
    empty: list[str] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)
    refused: list[RefusedFile] = field(default_factory=list)
    session_ids: list[str] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    damaged: list[DamagedPlace] = field(default_factory=list)

    def add_damaged_place(self, path: Path, line: int, why: str, text: str) -> None:
        """Count a place that is left out of the transcript.

        Args:
            path: Path of the file.
            line: Number of the line, from 1.
            why: Reason.
            text: Text of the line.
        """
        self.skipped += 1
        if len(self.damaged) < MAX_DAMAGED_KEPT:
            excerpt = text if len(text) <= EXCERPT_LENGTH else f"{text[:EXCERPT_LENGTH]}… ({len(text):,} characters)"
            self.damaged.append(DamagedPlace(format_path(path), line, why.rstrip("."), excerpt))

    def merge(self, other: ImportReport) -> None:
        """Add what another report counts and lists.

        Args:
            other: Report about other files.
        """
        for name, value in vars(other).items():
            own = getattr(self, name)
            if isinstance(own, list):
                own += value
            elif isinstance(own, Counter):
                own.update(value)
            else:
                setattr(self, name, own + value)
        del self.damaged[MAX_DAMAGED_KEPT:]

    def to_dict(self) -> dict[str, Any]:
        """Convert the report to a JSON object.

        Returns:
            The fields by name.
        """
        counters = {"unknown": self.unknown, "formats": self.formats}
        return {**asdict(self), **{name: dict(sorted(counts.items())) for name, counts in counters.items()}}
