"""Snapshots that wait to be written, and the queue of them that each session has."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from checkpoints.exceptions import FileError
from checkpoints.formats.canonical_json import parse_json
from checkpoints.store.version_state_types import VersionState
from checkpoints.versions import new_messages_and_segments, validate_and_digest_transcript

#: Seconds until the next attempt after a transient error: at first and at most.
FIRST_RETRY_PAUSE, LONGEST_RETRY_PAUSE = 0.05, 2.0


@dataclass(frozen=True)
class FrozenTranscript:
    """Copy of a transcript at one moment, for a later save. Only new messages are copied."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    snapshot: list[Any] = field(default_factory=list, repr=False)

    def freeze_transcript(self, transcript: Sequence[dict[str, Any]]) -> FrozenTranscript:
        """Freeze `transcript` as it is now, whether or not it continues this one. Raises `NotRepresentable`,
        `TooLarge`."""
        is_continuation = isinstance(
            transcript, list | tuple
        ) and new_messages_and_segments.starts_with_copied_messages(self.snapshot, transcript)
        keep = len(self.snapshot) if is_continuation else 0
        prepared = validate_and_digest_transcript.encode_and_digest_transcript(
            transcript[keep:] if keep else transcript, first=keep
        )
        new_messages = [parse_json(body) for body in prepared.bodies]
        return FrozenTranscript(
            self.messages[:keep] + new_messages,
            self.snapshot[:keep] + new_messages_and_segments.copy_json_value_for_comparison(new_messages),
        )


@dataclass(eq=False)
class Ticket:
    """Receipt for a snapshot that was handed in.

    Attributes:
        session_id: Identifier of the session.
        version: Number of the version. None until it, or a newer one in its place, is durable.
    """

    session_id: str
    version: int | None = None

    @property
    def durable(self) -> bool:
        """Whether the snapshot, or a newer one in its place, is saved."""
        return self.version is not None


@dataclass(frozen=True)
class SnapshotRequest:
    """Snapshot to hand in. If `transcript` is None, it is the one handed in last.

    A `light` one has only the details of a phase, so it cannot replace the snapshot before it.
    """

    session_id: str
    transcript: Sequence[dict[str, Any]] | None
    state: VersionState
    step: int | None = None
    light: bool = False


@dataclass(eq=False)
class QueueEntry:
    session_id: str
    frozen: FrozenTranscript
    state: VersionState
    step: int | None
    light: bool
    tickets: list[Ticket]
    since: float = field(default_factory=time.monotonic)

    def to_dict(self) -> dict[str, Any]:
        return {
            "session_id": self.session_id,
            "phase": str(self.state.phase),
            "step": self.step,
            "messages": len(self.frozen.messages),
            "waited_seconds": time.monotonic() - self.since,
        }


@dataclass(eq=False)
class SessionQueue:
    """Waiting snapshots of one session, oldest first; the last one may be held back until it is due."""

    entries: deque[QueueEntry] = field(default_factory=deque)
    kept_back: bool = False
    writing: bool = False
    turns: int = 0
    #: Snapshot that was handed in last, and the version that was written last.
    newest: FrozenTranscript = field(default_factory=FrozenTranscript)
    state: VersionState | None = None
    version: int | None = None
    #: Earliest time of the next attempt after a transient error.
    not_before: float = 0.0
    pause: float = FIRST_RETRY_PAUSE
    last_error: Exception | None = None
    #: Error that stopped this queue for good, and an error of the copy in a file.
    trouble: Exception | None = None
    complaint: FileError | None = None

    def to_dicts(self) -> list[dict[str, Any]]:
        """List the snapshots that are not durable, oldest first."""
        last = len(self.entries) - 1
        return [
            entry.to_dict() | {"kept_back": self.kept_back and index == last}
            for index, entry in enumerate(self.entries)
        ]

    def is_first_entry_writable(self) -> bool:
        """Return whether the first snapshot may be written."""
        return self.trouble is None and len(self.entries) > self.kept_back
