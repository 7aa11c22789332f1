"""Terminal output of an import: a progress bar while it runs, and a summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from checkpoints.importers.import_report import ImportProgress, ImportReport

_BAR_WIDTH = 30
#: Largest number of damaged places that are listed.
_MAX_LISTED = 20
#: Largest number of characters of the name of an unknown type.
_MAX_KIND_LENGTH = 100


class ProgressBar:
    """Progress bar that redraws one line on a terminal; elsewhere it prints nothing."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream, self._drawn = stream, ""

    def __call__(self, progress: ImportProgress) -> None:
        if not self._stream.isatty():
            return
        share = progress.read / progress.total if progress.total else 1.0
        done = int(share * _BAR_WIDTH)
        line = (
            f"\r{'█' * done}{'░' * (_BAR_WIDTH - done)} {share:4.0%}  file {progress.file} of {progress.files}  "
            f"{progress.report.messages:,} messages"
        )
        if line != self._drawn:
            self._stream.write(line)
            self._stream.flush()
            self._drawn = line

    def write_newline_if_drawn(self) -> None:
        if self._drawn:
            self._stream.write("\n")


def iterate_summary_lines(report: ImportReport) -> Iterator[str]:
    """Format the report as lines for people.

    Names of unknown types come from the files: what a terminal would obey or no stream can encode is escaped.
    """
    return map(_escape_unprintable_characters, _iterate_lines_of_report(report))


def _escape_unprintable_characters(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line)


def _iterate_lines_of_report(report: ImportReport) -> Iterator[str]:
    yield (
        f"Read {_format_count_with_noun(report.files, 'file')}, {_format_count_with_noun(report.lines, 'line')}: "
        f"{_format_count_with_noun(report.sessions, 'session')} ({report.new_sessions:,} new), "
        f"{_format_count_with_noun(report.messages, 'message')} ({report.new_messages:,} new), "
        f"{_format_count_with_noun(report.calls, 'tool call')} ({report.new_calls:,} new)."
    )
    if report.formats:
        yield "Formats: " + ", ".join(f"{name} {count:,}" for name, count in sorted(report.formats.items())) + "."
    if report.unchanged:
        yield f"{_format_count_with_noun(report.unchanged, 'unchanged file')} not read again."
    if report.unanswered:
        yield f"{_format_count_with_noun(report.unanswered, 'call')} without a result. Nobody has to decide about them."
    if report.repeated:
        yield f"{_format_count_with_noun(report.repeated, 'repeated line')} left out."
    for kind, count in sorted(report.unknown.items()):
        name = kind if len(kind) <= _MAX_KIND_LENGTH else f"{kind[:_MAX_KIND_LENGTH]}…"
        yield f"Unknown {name}: {count:,}, kept as it is."
    if report.helpers:
        files = _format_count_with_noun(len(report.helpers), "file")
        yield f"{files} of the program's own helpers left out; --json lists them."
    yield from _iterate_first_lines_and_rest_count(
        [f"No transcript in {path}." for path in report.empty], len(report.empty), "such files"
    )
    refused = [f"Refused: {refused.path}: {refused.why}" for refused in report.refused]
    yield from _iterate_first_lines_and_rest_count(refused, len(refused), "refused files")
    damaged = [f"Damaged: {place.path}, line {place.line}: {place.why}." for place in report.damaged]
    yield from _iterate_first_lines_and_rest_count(damaged, report.skipped, "damaged places")


def _iterate_first_lines_and_rest_count(lines: list[str], total: int, what: str) -> Iterator[str]:
    """List the first lines, and the number of all that follow."""
    yield from lines[:_MAX_LISTED]
    if total > _MAX_LISTED:
        yield f"{total - _MAX_LISTED:,} more {what}; --json lists them."


def _format_count_with_noun(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
