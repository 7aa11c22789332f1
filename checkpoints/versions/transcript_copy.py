"""Copy of a transcript at one moment, for a later save. Only new messages are copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from checkpoints.formats.canonical import parse_json
from checkpoints.versions import transcript_segments


@dataclass(frozen=True)
class FrozenTranscript:
    messages: list[dict[str, Any]] = field(default_factory=list)
    snapshot: list[Any] = field(default_factory=list, repr=False)

    def freeze_next(self, transcript: Sequence[dict[str, Any]]) -> FrozenTranscript:
        """Freeze `transcript` as it is now, whether or not it continues this one. Raises `NotRepresentable`,
        `TooLarge`."""
        is_continuation = isinstance(transcript, list | tuple) and transcript_segments.starts_with_copy(
            self.snapshot, transcript
        )
        keep = len(self.snapshot) if is_continuation else 0
        prepared = transcript_segments.prepare_transcript(transcript[keep:] if keep else transcript, first=keep)
        new_messages = [parse_json(body) for body in prepared.bodies]
        return FrozenTranscript(
            self.messages[:keep] + new_messages, self.snapshot[:keep] + transcript_segments.copy_value(new_messages)
        )
