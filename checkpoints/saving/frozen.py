"""A transcript as it was at one moment, for a save that happens later. Only what is new in it is copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from checkpoints.saving import transcripts
from checkpoints.serde.canonical import parse


@dataclass(frozen=True)
class Frozen:
    messages: list[dict[str, Any]] = field(default_factory=list)
    snapshot: list[Any] = field(default_factory=list, repr=False)

    def followed_by(self, transcript: Sequence[dict[str, Any]]) -> Frozen:
        """`transcript` as it is now, whether or not it goes on from this one. Raises `NotRepresentable`, `TooLarge`."""
        same = isinstance(transcript, list | tuple) and transcripts.starts_with_copy(self.snapshot, transcript)
        keep = len(self.snapshot) if same else 0
        prepared = transcripts.prepare(transcript[keep:] if keep else transcript, first=keep)
        new = [parse(body) for body in prepared.bodies]
        return Frozen(self.messages[:keep] + new, self.snapshot[:keep] + transcripts.copy_value(new))
