"""Transcripts that are validated, encoded and digested, before a save compares and stores them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.exceptions import NotRepresentable
from checkpoints.formats import digests
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.store.checkpointer_state import TranscriptHead


@dataclass(frozen=True)
class PreparedTranscript:
    """Transcript, or the end of one, validated and digested: `chains[i]` is the chain after message i.

    `first` is the position of its first message.
    """

    messages: Sequence[dict[str, Any]]
    bodies: Sequence[str]
    chains: Sequence[bytes]
    first: int = 0


def encode_and_digest_transcript(
    messages: Sequence[dict[str, Any]], *, after: bytes = digests.EMPTY_CHAIN, first: int = 0
) -> PreparedTranscript:
    """Validate and digest `messages`, which start at position `first` after the chain `after`.

    Raises `NotRepresentable` and `TooLarge`, naming the place. The objects are read now: later changes to them have no
    effect.
    """
    if not isinstance(messages, list | tuple):
        raise NotRepresentable("transcript", f"a {type(messages).__name__} is not a list of messages")
    bodies = []
    for position, message in enumerate(messages, first):
        if not isinstance(message, dict):
            raise NotRepresentable(f"transcript[{position}]", f"a {type(message).__name__} is not a message (a dict)")
        bodies.append(to_canonical_json(message, f"transcript[{position}]"))
    return PreparedTranscript(messages, bodies, digests.compute_hash_chains(bodies, after), first)


def does_transcript_continue_head(prepared: PreparedTranscript, head: TranscriptHead) -> bool:
    """Return whether the transcript starts with everything up to `head`."""
    if head.length == 0:
        return True
    return len(prepared.chains) >= head.length and prepared.chains[head.length - 1] == head.chain
