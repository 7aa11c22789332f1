"""Rule for the versions to keep, and the counts of what a removal removed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from checkpoints.exceptions import InvalidInput


@dataclass(frozen=True)
class RetentionRule:
    """Rule for the versions to keep: the last `keep_last`, every `keep_every`-th number, and those younger than
    `older_than`.

    At least one has to be given; the newest version is always kept.
    """

    keep_last: int | None = None
    keep_every: int | None = None
    older_than: timedelta | None = None

    def __post_init__(self) -> None:
        if self.keep_last is None and self.keep_every is None and self.older_than is None:
            raise InvalidInput("Say what to keep: keep_last, keep_every or older_than.")
        for name in ("keep_last", "keep_every"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InvalidInput(f"{name} is {value!r}; it has to be a whole number from 1.")
        if self.older_than is not None and self.older_than < timedelta(0):
            raise InvalidInput("older_than cannot be negative.")


@dataclass(frozen=True)
class RemovalCounts:
    """Counts of removed rows; with a dry run, of the rows that would be removed.

    Attributes:
        versions: Number of versions.
        messages: Number of messages.
        dry_run: Whether nothing was removed.
    """

    versions: int
    messages: int
    dry_run: bool = False
