"""A session as lines of JSON, one record each, with its secrets masked."""

import json
from collections.abc import Iterator
from typing import Any

from checkpoints.queries import archive
from harness_site.rendering.masking import masked_value
from harness_site.rendering.references import without_digests


def lines(session_pk: int) -> Iterator[bytes]:
    """The records of a session, in UTF-8."""
    return map(_line, archive.records(session_pk))


def _line(record: archive.Record) -> bytes:
    value: Any = masked_value(without_digests(record))
    try:
        return json.dumps(value, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half of a character, which has no UTF-8
        return json.dumps(value).encode() + b"\n"
