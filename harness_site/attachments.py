"""Exports that are sent while they are made: each ends with words that say whether it is complete.

The status of a response is gone before its first byte, and a connection that breaks off looks like one that has ended.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from django.http import StreamingHttpResponse
from django.utils.http import content_disposition_header

from harness_site.rendering import csv, masking

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Form:
    """A form of export. What is complete ends with the characters of `ending` (before the last line break), which
    nothing that an agent wrote can be; `failed` is sent instead where the rest cannot be made."""

    content_type: str
    ending: str
    failed: str


JSONL: Final = Form("application/jsonl", '"complete": true}', '{"record": "end", "complete": false}\n')
HTML: Final = Form(
    "text/html; charset=utf-8",
    "<!-- export: complete --></html>",
    '</ol></section><footer role="alert"><p class="note bad"><b>This export is not complete.</b> It broke off here; '
    "the log of the server says why.</p></footer></main></body><!-- export: not complete --></html>\n",
)
CSV: Final = Form("text/csv; charset=utf-8", csv.COMPLETE, csv.line([csv.NOT_COMPLETE]))


def attachment(
    content: Iterable[bytes] | Iterable[str], form: Form, name: str, *, total: str = ""
) -> StreamingHttpResponse:
    """Send `content`, which ends as its form does, as a file called `name`.

    `total` says about how much is to come, as `message 120`: a page that waits for it says how far it is, and learns
    from `Harness-Ending` what the last characters have to be.
    """
    headers = {"Content-Disposition": content_disposition_header(True, name), "Harness-Ending": form.ending}
    if total:
        headers["Harness-Total"] = total
    pieces = masking.kept(_ended(content, form, name))
    return StreamingHttpResponse(pieces, content_type=form.content_type, headers=headers)


def _ended(content: Iterable[bytes] | Iterable[str], form: Form, name: str) -> Iterator[bytes | str]:
    try:
        yield from content
    except Exception:
        logger.exception("The export %s broke off; it says so at its end.", name)
        yield form.failed
