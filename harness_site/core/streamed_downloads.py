"""Streamed downloads with a final marker that tells whether the file is complete.

The HTTP status is sent before the first byte, and a broken connection looks like the end of the response.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from django.http import StreamingHttpResponse
from django.utils.http import content_disposition_header

from harness_site.core import csv_rows
from harness_site.core.hidden_characters import format_on_one_line
from harness_site.core.masking import masker

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """A file format. Complete files end with `ending` (before the last line break).

    `failed` is sent instead if the rest of the content cannot be produced.
    """

    content_type: str
    ending: str
    failed: str


JSONL: Final = ExportFormat("application/jsonl", '"complete": true}', '{"record": "end", "complete": false}\n')
HTML: Final = ExportFormat(
    "text/html; charset=utf-8",
    "<!-- export: complete --></html>",
    '</ol></section><footer role="alert"><p class="note bad"><b>This export is not complete.</b> It broke off here; '
    "the log of the server says why.</p></footer></main></body><!-- export: not complete --></html>\n",
)
CSV: Final = ExportFormat(
    # The table marks its last row itself.
    "text/csv; charset=utf-8",
    csv_rows.ENDING,
    "",
)


def build_download_response(
    content: Iterable[bytes] | Iterable[str], form: ExportFormat, name: str, *, total: str = ""
) -> StreamingHttpResponse:
    """Stream `content`, which ends with the marker of its format, as a file called `name`.

    `total` is the expected length, such as `message 120`, from which the page computes the progress. The expected last
    characters are sent in the header `Harness-Ending`.
    """
    response = build_streamed_page_response(content, form, name)
    response.headers["Content-Disposition"] = content_disposition_header(True, name)
    if total:
        response.headers["Harness-Total"] = total
    return response


def build_streamed_page_response(
    content: Iterable[bytes] | Iterable[str], form: ExportFormat, name: str
) -> StreamingHttpResponse:
    """Stream `content`, which ends with the marker of its format, to be shown by the browser; the log calls it
    `name`."""
    pieces = masker.iterate_under_current_rules(_stream_or_mark_as_failed(content, form, name))
    return StreamingHttpResponse(pieces, content_type=form.content_type, headers={"Harness-Ending": form.ending})


def _stream_or_mark_as_failed(
    content: Iterable[bytes] | Iterable[str], form: ExportFormat, name: str
) -> Iterator[bytes | str]:
    try:
        yield from content
    except Exception:
        logger.exception("The export %s broke off; it says so at its end.", name)
        yield form.failed


#: Path separators, and characters that some system does not allow in a file name.
_REFUSED: Final = re.compile(r'[\\/:*?"<>|%]+')
#: Device names on Windows, with any extension.
_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|con(?:in|out)\$|(?:com|lpt)[0-9¹²³])(?= *(?:\.|$))", re.IGNORECASE)
_MAX_FILENAME_LENGTH: Final = 150
_LONGEST_ENDING: Final = 20


def build_safe_file_name(text: str, fallback: str = "file") -> str:
    """Convert a text to a file name that every operating system accepts, with hidden characters named."""
    name = _REFUSED.sub("-", format_on_one_line(text)).strip(" .-")
    stem, dot, ending = name.rpartition(".")
    if len(name) > _MAX_FILENAME_LENGTH:
        suffix = f"{dot}{ending}" if stem and len(ending) <= _LONGEST_ENDING else ""
        name = f"{name[: _MAX_FILENAME_LENGTH - len(suffix)].rstrip(' .')}{suffix}"
    if _DEVICE.match(name):
        name = f"_{name}"
    return name or fallback
