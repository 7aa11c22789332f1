"""An export that fails ends with a marker that says so."""

import logging
from collections.abc import Iterator

import pytest

from harness_site.core.streamed_downloads import HTML, JSONL, ExportFormat, build_download_response


def broken(pieces: list[str]) -> Iterator[str]:
    yield from pieces
    raise RecursionError("a value without end")


@pytest.mark.parametrize("form", [JSONL, HTML])
def test_failure_is_marked_at_the_end_and_logged(form: ExportFormat, caplog: pytest.LogCaptureFixture) -> None:
    response = build_download_response(broken(["first\n", "second\n"]), form, "s.jsonl", total="record 3")
    with caplog.at_level(logging.ERROR):
        sent = response.getvalue().decode()
    assert sent == f"first\nsecond\n{form.failed}"
    assert not sent.rstrip().endswith(form.ending)
    assert "not complete" in sent or '"complete": false' in sent
    (told,) = caplog.records
    assert told.getMessage() == "The export s.jsonl broke off; it says so at its end."
    assert told.exc_info is not None


def test_complete_export_is_sent_unchanged() -> None:
    response = build_download_response(iter(["a", "b"]), JSONL, "s.jsonl", total="record 3")
    assert response.getvalue() == b"ab"
    assert response.headers["Harness-Total"] == "record 3"
    assert response.headers["Harness-Ending"] == '"complete": true}'
