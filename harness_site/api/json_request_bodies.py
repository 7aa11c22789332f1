"""Bodies of requests: JSON within limits, also compressed."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable
from typing import Any, Final

import zstandard
from django.conf import settings
from django.http import HttpRequest

from checkpoints.exceptions import MalformedRequest, TooLarge
from checkpoints.formats.canonical_json import parse_json


def read_decompressed_body(request: HttpRequest) -> bytes:
    """Read the body, decompressed. Raises `TooLarge`, `MalformedRequest`.

    Django's own limit is that of forms, so the stream is read here.
    """
    max_bytes = settings.SERVER_LIMITS.body_bytes
    body = request.read(max_bytes + 1)
    encoding = request.META.get("HTTP_CONTENT_ENCODING", "identity").strip().lower()
    if encoding in _READERS:
        body = _decompress_body(body, encoding, max_bytes)
    elif encoding not in {"identity", ""}:
        raise MalformedRequest(f"its Content-Encoding is {encoding!r}; gzip, zstd and identity are understood")
    if len(body) > max_bytes:
        raise TooLarge("The body of the request", len(body), max_bytes)
    return body


def _decompress_body(body: bytes, encoding: str, max_bytes: int) -> bytes:
    try:
        return _READERS[encoding](body, max_bytes)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise MalformedRequest(f"it is no {encoding} data ({error})") from None


def _decompress_gzip_one_byte_past_limit(body: bytes, max_bytes: int) -> bytes:
    """Decompress one byte more than `max_bytes` at most, by which the caller recognizes too large a body."""
    with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
        return file.read(max_bytes + 1)


def _decompress_zstd_and_truncate_past_limit(body: bytes, max_bytes: int) -> bytes:
    """Decompress as `_decompress_gzip_one_byte_past_limit` does. Raises `EOFError` if the frame has no end."""
    # The memory for a window is bounded as in RFC 8878.
    decompressor = zstandard.ZstdDecompressor(max_window_size=8 * 1_048_576)
    content = decompressor.stream_reader(body).read(max_bytes + 1)
    if len(content) <= max_bytes:
        # The reader takes the end of the data for the end of the frame.
        whole = decompressor.decompressobj()
        whole.decompress(body)
        if not whole.eof:
            raise EOFError("it ends too early")
    return content


_READERS: Final[dict[str, Callable[[bytes, int], bytes]]] = {
    "gzip": _decompress_gzip_one_byte_past_limit,
    "zstd": _decompress_zstd_and_truncate_past_limit,
}


def parse_json_body(body: bytes) -> dict[str, Any]:
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
