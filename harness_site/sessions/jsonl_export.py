"""Export of a session as JSON Lines, with secrets masked and hidden characters escaped so that none is lost."""

import json
from collections.abc import Iterator
from typing import Any

from harness_site.core.hidden_characters import escape_hidden_in_json
from harness_site.core.masking.masker import mask_json_value
from harness_site.core.masking.replace_digests_by_fingerprints import replace_file_digests_by_keyed_fingerprints
from harness_site.sessions.selectors import unmasked_session_export_records


def verify_session_and_generate_jsonl_lines(session_pk: int) -> Iterator[bytes]:
    """Yield the records of a session as JSON Lines in UTF-8."""
    return map(
        _mask_and_encode_record, unmasked_session_export_records.verify_session_and_generate_export_records(session_pk)
    )


def _mask_and_encode_record(record: unmasked_session_export_records.Record) -> bytes:
    value: Any = mask_json_value(replace_file_digests_by_keyed_fingerprints(record))
    return f"{escape_hidden_in_json(json.dumps(value, ensure_ascii=False))}\n".encode()
