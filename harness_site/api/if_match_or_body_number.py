"""`If-Match`: the revision or version that a write is bound to."""

from __future__ import annotations

import re
from typing import Final

from django.http import HttpRequest

from checkpoints.exceptions import InvalidInput

_ETAG: Final = re.compile(r'"(\d{1,18})"')


def get_if_match_or_body_number(request: HttpRequest, given: int | None, field: str) -> int | None:
    """Return the number that `If-Match` or the field of the body names; None if neither does.

    Raises `InvalidInput` for a header that is no number, or that names another number than the body.
    """
    header = request.META.get("HTTP_IF_MATCH", "").strip()
    if not header:
        return given
    match = _ETAG.fullmatch(header)
    if match is None:
        raise InvalidInput(f'If-Match is {header[:60]!r}; send the ETag of the resource, such as "7".')
    number = int(match[1])
    if given is not None and given != number:
        raise InvalidInput(f"If-Match names {number}, and {field} is {given}.")
    return number
