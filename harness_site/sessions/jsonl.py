"""A session as lines of JSON, one record each, with its secrets masked, and with what hides in it as escapes, so that
every character survives."""

import json
from collections.abc import Iterator
from typing import Any

from checkpoints.queries import archive
from harness_site.rendering.masking import masked_value
from harness_site.rendering.references import without_digests
from harness_site.rendering.safe_text import escape_hidden


def lines(session_pk: int) -> Iterator[bytes]:
    """The records of a session, in UTF-8."""
    return map(_line, archive.records(session_pk))


def _line(record: archive.Record) -> bytes:
    value: Any = masked_value(without_digests(record))
    return f"{escape_hidden(json.dumps(value, ensure_ascii=False))}\n".encode()
