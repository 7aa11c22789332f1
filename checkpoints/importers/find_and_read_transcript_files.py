"""Files of transcripts: find them, and read their JSON values one at a time."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from json import JSONDecodeError
from pathlib import Path
from typing import IO, Any, Final

from checkpoints.constants import MAX_VALUE_BYTES
from checkpoints.exceptions import InvalidInput
from checkpoints.formats.canonical_json import parse_json, to_canonical_json
from checkpoints.importers.escape_non_utf8_path import format_path
from checkpoints.importers.import_errors import NothingToImport
from checkpoints.importers.import_report import ImportReport, RefusedFile

LINE_SUFFIXES: Final = (".jsonl", ".ndjson")
_SUFFIXES: Final = (*LINE_SUFFIXES, ".json", ".traj")
#: A transcript whose file changed within this number of seconds may go on.
LIVE_SECONDS: Final = 600
#: Number of values, and of bytes of one, by which a format is recognised.
SAMPLE_VALUES: Final = 24
#: Number of values that are enough if all of them are certainly of one format.
FEW_SAMPLE_VALUES: Final = 4
_SAMPLE_BYTES: Final = 4 * 1024 * 1024
#: Reasons to convert a file, and how it begins then.
_UNREADABLE_BEGINNINGS: Final = {
    "it is UTF-16 or UTF-32, not UTF-8": (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff", b"{\0", b"\0{", b"\0\0\0{"),
    "it is compressed": (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"BZh", b"\xfd7zX"),
}


@dataclass(frozen=True, slots=True)
class NumberedValue:
    """JSON value with the number of its line or entry, from 1."""

    number: int
    value: Any


@dataclass
class SourceFile:
    """File of transcripts. `relative` is its path below the imported folder, without suffix; `path` is absolute."""

    path: Path
    relative: str
    size: int
    modified_ns: int
    #: Whole value of a file that is not made of lines; parsed when it is first needed.
    document: Any = field(default=None, repr=False)
    is_lines: bool = True
    #: First bytes of its content, as far as a sample of it has been read.
    beginning: bytes = b""

    @property
    def path_text(self) -> str:
        """Path for reports and for the database."""
        return format_path(self.path)

    @property
    def modified_at(self) -> datetime:
        return datetime.fromtimestamp(self.modified_ns / 1e9, UTC)

    def was_changed_recently(self, now: datetime) -> bool:
        """Return whether the file changed so recently that its transcript may go on."""
        return (now - self.modified_at).total_seconds() < LIVE_SECONDS


def build_source_file_from_stat(path: Path, relative: str) -> SourceFile:
    """Describe a file. Raises `OSError`."""
    status = path.stat()
    return SourceFile(path.absolute(), relative, status.st_size, status.st_mtime_ns)


def find_source_files(path: Path, unreadable: list[OSError] | None = None) -> list[SourceFile]:
    """Find the files that may be transcripts at `path`: itself, or those of a folder of any depth.

    Symbolic links inside a folder are not followed. Of `~/.claude` and `~/.codex`, the folder of transcripts is taken.
    Folders that cannot be read are left out; their errors are added to `unreadable`. Raises `NothingToImport`.
    """
    errors: list[OSError] = []
    if path.is_file():
        return [build_source_file_from_stat(path, format_path(path.stem))]
    if not path.is_dir():
        raise NothingToImport(path, "it does not exist")
    is_codex = path.name == ".codex" and (path / "sessions").is_dir()
    folder = path / "projects" if (path / "projects").is_dir() else path / "sessions" if is_codex else path
    files = sorted(_iterate_json_files_in_folder(folder, errors), key=lambda file: file.path.parts)
    if unreadable is not None:
        unreadable += errors
    if not files:
        refused = [f"{each.path}: {each.why}" for each in map(build_unreadable_folder_refusal, errors[:1])]
        raise NothingToImport(path, refused[0] if refused else "there is no file of JSON")
    return files


def build_unreadable_folder_refusal(error: OSError) -> RefusedFile:
    """Build the report about a folder that could not be read."""
    return RefusedFile(format_path(error.filename), f"it cannot be read ({error.strerror})", is_temporary=True)


def _iterate_json_files_in_folder(folder: Path, errors: list[OSError]) -> Iterator[SourceFile]:
    root = str(folder.absolute())
    for parent, folders, names in os.walk(root, onerror=errors.append, followlinks=False):
        folders.sort()
        for name in names:
            if not name.endswith(_SUFFIXES) or name.endswith(".meta.json"):
                continue
            path = f"{parent}{os.sep}{name}"
            try:
                status = os.lstat(path)
            except OSError:  # deleted meanwhile
                continue
            if stat.S_ISREG(status.st_mode):
                relative = path.removeprefix(root).lstrip(os.sep).rpartition(".")[0]
                relative = format_path(relative.replace(os.sep, "/"))
                yield SourceFile(Path(path), relative, status.st_size, status.st_mtime_ns)


def read_first_values_and_detect_json_lines(file: SourceFile, count: int = SAMPLE_VALUES) -> list[Any]:
    """Return the values on the first `count` lines, and set whether the file is made of lines.

    Damaged lines are left out. If it is one value, that is parsed, and its first values are returned.
    """
    if file.document is not None:
        return [value.value for value in islice(_iterate_document_values(file), SAMPLE_VALUES)]
    with file.path.open("rb") as stream:
        lines = [stream.readline(_SAMPLE_BYTES)]
        while lines[-1] and not lines[-1].strip():
            lines.append(stream.readline(_SAMPLE_BYTES))
        lines += islice(iter(lambda: stream.readline(_SAMPLE_BYTES), b""), count)
    file.beginning = lines[0][:4]
    parsed = [_parse_json_or_none(line) for line in lines]
    values = [value for value in parsed if isinstance(value, dict)]
    starts_list = b"".join(lines[:1]).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    has_more_than_first = isinstance(parsed[0], dict) and any(line.strip() for line in lines[1:])
    if len(values) > 1 or (values and len(lines) == 1) or has_more_than_first:
        return values
    file.document = None if file.size > MAX_VALUE_BYTES * 8 else _parse_json_or_none(file.path.read_bytes())
    file.is_lines = not isinstance(file.document, dict | list)
    if file.is_lines:
        file.document = None
        return [] if starts_list else values
    return read_first_values_and_detect_json_lines(file)


def find_reason_to_convert_encoding_or_empty(file: SourceFile) -> str:
    """Return why a file of lines has to be converted before it can be read; empty if it has not, or has no sample."""
    if not file.is_lines:
        return ""
    for names, beginnings in _UNREADABLE_BEGINNINGS.items():
        if file.beginning.startswith(beginnings):
            return names
    return ""


def _parse_json_or_none(raw: bytes) -> Any:
    try:
        text = raw.decode(json.detect_encoding(raw))
        del raw  # a document of hundreds of megabytes is in memory once less
        return parse_json(text)
    except (ValueError, RecursionError):
        return None


def _iterate_document_values(file: SourceFile) -> Iterator[NumberedValue]:
    document = file.document
    for number, value in enumerate(document if isinstance(document, list) else [document], 1):
        yield NumberedValue(number, value)


class FileReader:
    """Reader of the values of one file, which can go on where it ended if lines have been appended."""

    def __init__(self, file: SourceFile, report: ImportReport, *, live: bool) -> None:
        self.file, self.offset = file, 0
        self.report, self._number = report, 0
        self._live = live and file.path.suffix in LINE_SUFFIXES

    def iterate_values(self) -> Iterator[NumberedValue]:
        """Iterate over the values from the current offset. Damaged lines are reported; empty lines do not count.

        Only one line is in memory. The file is read up to its size at the start. The last line of a live file may
        still be written: if it is not complete, it is left for the next time.
        """
        if not self.file.is_lines:
            self.offset = self.file.size
            yield from _iterate_document_values(self.file)
            return
        with self.file.path.open("rb") as stream:
            stream.seek(self.offset)
            while self.offset < self.file.size and (raw := self._read_next_complete_line_or_none(stream)) is not None:
                if raw.strip():
                    self.report.lines += 1
                    if (value := self._parse_line_object_or_report_damage(raw)) is not None:
                        yield NumberedValue(self._number, value)

    def _read_next_complete_line_or_none(self, stream: IO[bytes]) -> bytes | None:
        """Read the next line; None at the end, or if the last line is not complete."""
        raw = stream.readline(min(self.file.size - self.offset, MAX_VALUE_BYTES + 1))
        is_whole = raw.endswith(b"\n")
        if not raw:
            self._number += 1
            reason = "the file became shorter while it was read; import it again"
            self.report.add_damaged_place(self.file.path, self._number, reason, "")
            return None
        if (
            self._live
            and not is_whole
            and len(raw) <= MAX_VALUE_BYTES
            and not isinstance(_parse_json_or_none(raw), dict)
        ):
            return None
        self._number += 1
        self.offset += len(raw)
        if len(raw) > MAX_VALUE_BYTES:
            self.report.add_damaged_place(
                self.file.path, self._number, "it is too long", raw[:2000].decode("utf-8", "replace")
            )
            self._skip_rest_of_line(stream)
            return b""
        return raw

    def _skip_rest_of_line(self, stream: IO[bytes]) -> None:
        while self.offset < self.file.size:
            chunk = stream.readline(min(self.file.size - self.offset, 1024 * 1024))
            self.offset += len(chunk)
            if not chunk or chunk.endswith(b"\n"):
                return

    def _parse_line_object_or_report_damage(self, raw: bytes) -> dict[str, Any] | None:
        """Parse the object on a line that the store can keep exactly; None, and a report, if there is none."""
        try:
            value = parse_json(raw.decode("utf-8-sig" if self._number == 1 else "utf-8").strip())
            if isinstance(value, dict):
                if b"\\ud" in raw or b"\\uD" in raw:  # only surrogates can have no stored form here
                    to_canonical_json(value, "line")
                return value
            reason = "it is not a JSON object"
        except UnicodeDecodeError:
            reason = "it is not UTF-8"
        except InvalidInput as error:
            reason = error.detail
        except JSONDecodeError as error:
            reason = f"it is not JSON ({error})" if raw.endswith(b"\n") else "it ends before it is complete"
        except ValueError as error:
            reason = str(error)
        self.report.add_damaged_place(self.file.path, self._number, reason, raw.decode("utf-8", "replace"))
        return None
