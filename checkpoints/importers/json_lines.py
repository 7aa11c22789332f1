"""Reader of JSON lines: one at a time, with damage reported instead of raised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from checkpoints.conf import MAX_VALUE_BYTES
from checkpoints.exceptions import InvalidInput
from checkpoints.formats.canonical import parse_json, to_canonical_json
from checkpoints.importers.import_report import ImportProgress, ImportReport, Progress

#: Number of bytes between two progress reports.
_PROGRESS_STEP_BYTES = 256 * 1024


@dataclass(frozen=True)
class ImportFiles:
    """Files of one import, with its report and its progress callback."""

    report: ImportReport
    progress: Progress | None
    sizes: dict[Path, int]

    def report_progress(self, path: Path, read: int) -> None:
        if self.progress is None:
            return
        paths = list(self.sizes)
        number = paths.index(path)
        bytes_before = sum(self.sizes[earlier] for earlier in paths[:number])
        total = sum(self.sizes.values())
        bytes_read = min(bytes_before + read, total)
        self.progress(ImportProgress(path, number + 1, len(paths), bytes_read, total, self.report))


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """JSON object with the number of its line, from 1."""

    number: int
    value: dict[str, Any]


def open_import_files(paths: list[Path], progress: Progress | None) -> ImportFiles:
    return ImportFiles(ImportReport(), progress, {path: path.stat().st_size for path in paths})


def iterate_json_objects(path: Path, reading: ImportFiles) -> Iterator[NumberedLine]:
    """Iterate over the objects of a file of JSON lines. Other lines are reported as damaged; empty lines do not count.

    Only one line is in memory. The file is read up to its size at the start: an agent may still be writing to it.
    """
    remaining, reported, number = reading.sizes[path], 0, 0
    reading.report.files += 1
    with path.open("rb") as file:
        while remaining > 0 and (raw := file.readline(min(remaining, MAX_VALUE_BYTES + 1))):
            number, remaining = number + 1, remaining - len(raw)
            if len(raw) > MAX_VALUE_BYTES:
                remaining -= _skip_rest_of_line(file, remaining)
                reading.report.add_damaged_place(path, number, "it is too long", raw[:2000].decode("utf-8", "replace"))
            elif raw.strip():
                reading.report.lines += 1
                if (value := _parse_json_line(path, number, raw, reading.report)) is not None:
                    yield NumberedLine(number, value)
            if file.tell() - reported >= _PROGRESS_STEP_BYTES:
                reported = file.tell()
                reading.report_progress(path, reported)
    reading.report_progress(path, reading.sizes[path])


def _skip_rest_of_line(file: Any, limit: int) -> int:
    """Read to the end of the line; returns the number of bytes."""
    size = 0
    while size < limit and (chunk := file.readline(min(limit - size, 1024 * 1024))):
        size += len(chunk)
        if chunk.endswith(b"\n"):
            break
    return size


def _parse_json_line(path: Path, number: int, raw: bytes, report: ImportReport) -> dict[str, Any] | None:
    """Parse the object on a line that the store can keep exactly; None, and a report, if there is none."""
    try:
        value = parse_json(raw.decode("utf-8-sig" if number == 1 else "utf-8").strip())
        if isinstance(value, dict):
            to_canonical_json(value, "line")
            return value
        reason = f"it is a {type(value).__name__}, not an object"
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    except InvalidInput as error:
        reason = error.detail
    except JSONDecodeError as error:
        reason = "it ends before it is complete" if not raw.endswith(b"\n") else f"it is not JSON ({error})"
    except ValueError as error:
        reason = str(error)
    report.add_damaged_place(path, number, reason, raw.decode("utf-8", "replace"))
    return None
