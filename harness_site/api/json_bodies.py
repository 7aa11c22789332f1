"""Bodies of requests: JSON within limits, also compressed."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest

from checkpoints.exceptions import MalformedRequest, TooLarge
from checkpoints.formats.canonical import parse_json

_CHUNK: Final = 65_536


def read_body(request: HttpRequest) -> bytes:
    """Read the body, decompressed. Raises `TooLarge`, `MalformedRequest`.

    Django's own limit is that of forms, so the stream is read here.
    """
    most = settings.SERVER_LIMITS.body_bytes
    body = request.read(most + 1)
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding == "gzip":
        body = _decompress(body, most)
    elif encoding not in {"identity", ""}:
        raise MalformedRequest(f"its Content-Encoding is {encoding!r}; gzip and identity are understood")
    if len(body) > most:
        raise TooLarge("the body of the request", len(body), most)
    return body


def _decompress(body: bytes, most: int) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            return file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise MalformedRequest(f"it is no gzip data ({error})") from None


def parse_body(body: bytes) -> dict[str, Any]:
    """Parse a JSON object; an empty body is an empty object. Raises `MalformedRequest`."""
    if not body:
        return {}
    try:
        value = parse_json(body.decode())
    except UnicodeDecodeError:
        raise MalformedRequest("it is not UTF-8") from None
    except ValueError as error:
        raise MalformedRequest(str(error)) from None
    if not isinstance(value, dict):
        raise MalformedRequest(f"it is a JSON {type(value).__name__}, not an object")
    return value
