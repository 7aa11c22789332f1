"""JSON answers: plain values, exact amounts of money, and times in ISO 8601."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

from django.http import HttpResponse

JSON: Final = "application/json"
#: Answers that name this header are held back while they say so: see `long_poll_and_sse_middleware`.
WAITING: Final = "Harness-Waiting"


def encode_json(value: Any) -> str:
    """Encode a value of the library: a `Decimal` becomes text, as JSON numbers are not exact."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_encode_non_json_type)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can name
        return json.dumps(value, separators=(",", ":"), allow_nan=False, default=_encode_non_json_type)
    return text


def _encode_non_json_type(value: object) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, frozenset | set):
        return sorted(value)
    raise TypeError(f"A {type(value).__name__} has no JSON form.")


def build_json_response(
    value: Any, status: int = HTTPStatus.OK, *, etag: object = None, waiting: bool = False, content_type: str = JSON
) -> HttpResponse:
    """Build an answer. `etag` is the revision or version of the resource; `waiting` marks one that may still change."""
    response = HttpResponse(encode_json(value), status=status, content_type=content_type)
    if etag is not None:
        response["ETag"] = f'"{etag}"'
    if waiting:
        response[WAITING] = "1"
    return response
