"""What an import read, what it added, and what it could not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

#: So many damaged lines are kept with their text; more are only counted.
DAMAGED_KEPT = 1000
#: Characters of a damaged line that are kept.
EXCERPT = 400


@dataclass(frozen=True, slots=True)
class Damaged:
    """A place that could not be read. `line` counts from 1; `text` is its beginning."""

    path: str
    line: int
    why: str
    text: str


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """How far an import has come, in files and bytes. `report` is what it has found so far."""

    path: Path
    file: int
    files: int
    read: int
    total: int
    report: ImportReport


Progress = Callable[[ImportProgress], None]


@dataclass
class ImportReport:
    """What was read in all files together. The `new_` numbers are what this import added to the store.

    `unanswered` counts calls whose result the transcript does not have; `repeated` lines that stand there twice;
    `unknown` the types this library does not know, which are kept as they are.
    """

    files: int = 0
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
    empty: list[str] = field(default_factory=list)
    session_ids: list[str] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    damaged: list[Damaged] = field(default_factory=list)

    def damage(self, path: Path, line: int, why: str, text: str) -> None:
        """Tell of something that is left out of the transcript."""
        self.skipped += 1
        if len(self.damaged) < DAMAGED_KEPT:
            shown = text if len(text) <= EXCERPT else f"{text[:EXCERPT]}… ({len(text):,} characters)"
            self.damaged.append(Damaged(str(path), line, why, shown))

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "unknown": dict(sorted(self.unknown.items()))}
