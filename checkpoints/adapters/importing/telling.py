"""An import on a terminal: a bar while it runs, and what it found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from checkpoints.adapters.importing.report import ImportProgress, ImportReport

_WIDTH = 30
#: Damaged places that are listed one by one.
_LISTED = 20


class Bar:
    """Redraws one line on a terminal; elsewhere it says nothing."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream, self._drawn = stream, ""

    def __call__(self, progress: ImportProgress) -> None:
        if not self._stream.isatty():
            return
        share = progress.read / progress.total if progress.total else 1.0
        filled = int(share * _WIDTH)
        drawn = (
            f"\r{'█' * filled}{'░' * (_WIDTH - filled)} {share:4.0%}  file {progress.file} of {progress.files}  "
            f"{progress.report.messages:,} messages"
        )
        if drawn != self._drawn:
            self._stream.write(drawn)
            self._stream.flush()
            self._drawn = drawn

    def end(self) -> None:
        if self._drawn:
            self._stream.write("\n")


def summary(report: ImportReport) -> Iterator[str]:
    """What was read, in lines for people."""
    yield (
        f"Read {_count(report.files, 'file')}, {_count(report.lines, 'line')}: "
        f"{_count(report.sessions, 'session')} ({report.new_sessions:,} new), "
        f"{_count(report.messages, 'message')} ({report.new_messages:,} new), "
        f"{_count(report.calls, 'tool call')} ({report.new_calls:,} new)."
    )
    if report.unanswered:
        yield f"{_count(report.unanswered, 'call')} without a result. Nobody has to decide about them."
    if report.repeated:
        yield f"{_count(report.repeated, 'repeated line')} left out."
    for kind, count in sorted(report.unknown.items()):
        yield f"Unknown {kind}: {count:,}, kept as it is."
    for path in report.empty:
        yield f"No messages in {path}."
    for damaged in report.damaged[:_LISTED]:
        yield f"Damaged: {damaged.path}, line {damaged.line}: {damaged.why}."
    if report.skipped > _LISTED:
        yield f"{report.skipped - _LISTED:,} more damaged places; --json lists them."


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
