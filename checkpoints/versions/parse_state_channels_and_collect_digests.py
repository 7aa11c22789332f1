"""Channels of the states of a framework: the version of each, and the digest of its value."""

from __future__ import annotations

import re
from typing import Any, Final

from checkpoints.exceptions import CheckpointCorrupted
from checkpoints.formats import digests
from checkpoints.formats.canonical_json import parse_json_object
from checkpoints.models import FrameworkState, Session
from checkpoints.versions import framework_value_blobs

#: Version of each channel, and the digest of its value; None for a channel without a value.
Channels = dict[str, tuple[int | float | str, str | None]]
_DIGEST: Final = re.compile(f"[0-9a-f]{{{2 * digests.BLOB_DIGEST_SIZE}}}")


def parse_channels(session_id: str, text: str) -> Channels:
    """Parse the stored channels of a state. Raises `CheckpointCorrupted`."""
    return {name: (entry[0], entry[1]) for name, entry in parse_channel_entries(session_id, text).items()}


def parse_channel_entries(session_id: str, text: str) -> dict[str, list[Any]]:
    """Parse the stored channels of a state with all that is stored of each. Raises `CheckpointCorrupted`."""
    try:
        stored = parse_json_object(text) or {}
    except ValueError as error:
        raise CheckpointCorrupted(session_id, "channels", str(error)) from error
    if not all(
        isinstance(entry, list) and len(entry) in (2, 3) and _is_digest_or_none(entry[1]) for entry in stored.values()
    ):
        raise CheckpointCorrupted(session_id, "channels", "an entry has no version and digest")
    return stored


def _is_digest_or_none(value: object) -> bool:
    return value is None or (isinstance(value, str) and _DIGEST.fullmatch(value) is not None)


def collect_digests_of_states_and_writes(using: str, session: Session) -> set[str]:
    """List the digests of the values that the states and writes of a session name. Raises `CheckpointCorrupted`."""
    texts = FrameworkState.objects.using(using).filter(session=session).values_list("channels", flat=True)
    named = {digest for text in texts for _, digest in parse_channels(session.session_id, text).values() if digest}
    return named | framework_value_blobs.find_blob_digests_needed_by_writes(using, session)


def list_digests_of_missing_blobs(using: str, session: Session) -> list[str]:
    """List the digests of the blobs that a state or a write of a session needs and that are not there.

    Raises `CheckpointCorrupted` for channels or a list that cannot be read.
    """
    return framework_value_blobs.list_digests_of_unstored_blobs(
        using, session, collect_digests_of_states_and_writes(using, session)
    )
