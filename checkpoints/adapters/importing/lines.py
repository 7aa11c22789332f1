"""Reading JSON lines: one at a time, with damage reported instead of raised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from checkpoints.adapters.importing.report import ImportProgress, ImportReport, Progress
from checkpoints.conf import MAX_VALUE_BYTES
from checkpoints.exceptions import InvalidInput
from checkpoints.serde.canonical import canonical, parse

#: Progress is told each time so many bytes have been read.
_STEP = 256 * 1024


@dataclass(frozen=True)
class Reading:
    """The files of one import: where its report goes, and who wants to know how far it is."""

    report: ImportReport
    progress: Progress | None
    sizes: dict[Path, int]

    def tell(self, path: Path, read: int) -> None:
        if self.progress is None:
            return
        paths = list(self.sizes)
        number = paths.index(path)
        before = sum(self.sizes[earlier] for earlier in paths[:number])
        total = sum(self.sizes.values())
        done = min(before + read, total)
        self.progress(ImportProgress(path, number + 1, len(paths), done, total, self.report))


@dataclass(frozen=True, slots=True)
class Line:
    """A JSON object with the number of its line, from 1."""

    number: int
    value: dict[str, Any]


def reading(paths: list[Path], progress: Progress | None) -> Reading:
    return Reading(ImportReport(), progress, {path: path.stat().st_size for path in paths})


def objects(path: Path, reading: Reading) -> Iterator[Line]:
    """The objects of a file of JSON lines. What is none is reported as damaged; empty lines do not count.

    Only one line is in memory. What was there when reading began is read: an agent may go on writing.
    """
    left, told, number = reading.sizes[path], 0, 0
    reading.report.files += 1
    with path.open("rb") as file:
        while left > 0 and (raw := file.readline(min(left, MAX_VALUE_BYTES + 1))):
            number, left = number + 1, left - len(raw)
            if len(raw) > MAX_VALUE_BYTES:
                left -= _skip_line(file, left)
                reading.report.damage(path, number, "it is too long", raw[:2000].decode("utf-8", "replace"))
            elif raw.strip():
                reading.report.lines += 1
                if (value := _object(path, number, raw, reading.report)) is not None:
                    yield Line(number, value)
            if file.tell() - told >= _STEP:
                told = file.tell()
                reading.tell(path, told)
    reading.tell(path, reading.sizes[path])


def _skip_line(file: Any, left: int) -> int:
    """Read on to the end of the line; returns how many bytes that took."""
    skipped = 0
    while skipped < left and (more := file.readline(min(left - skipped, 1024 * 1024))):
        skipped += len(more)
        if more.endswith(b"\n"):
            break
    return skipped


def _object(path: Path, number: int, raw: bytes, report: ImportReport) -> dict[str, Any] | None:
    """The object on a line that the store can keep exactly; None, and a report, where there is none."""
    try:
        value = parse(raw.decode("utf-8-sig" if number == 1 else "utf-8").strip())
        if isinstance(value, dict):
            canonical(value, "line")
            return value
        why = f"it is a {type(value).__name__}, not an object"
    except UnicodeDecodeError:
        why = "it is not UTF-8"
    except InvalidInput as error:
        why = error.detail
    except JSONDecodeError as error:
        why = "it ends before it is complete" if not raw.endswith(b"\n") else f"it is not JSON ({error})"
    except ValueError as error:
        why = str(error)
    report.damage(path, number, why, raw.decode("utf-8", "replace"))
    return None
