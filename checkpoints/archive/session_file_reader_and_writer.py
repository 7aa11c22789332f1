"""File format of a session: lines of canonical JSON, with a header line first and a digest of the others last.

    {"format":"harness session","version":11,"session_id":"s","workspace":"default", …}
    ["run",{"id":"0199…", …}]
    …
    {"digest":"…","end":42}

`version` grows with every change of what the lines may hold. The digest is BLAKE2b over everything before its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from checkpoints.exceptions import FileDamaged, FileNotReadable, SchemaFromFuture, WrongSession
from checkpoints.formats.canonical_json import parse_json, to_canonical_json

FORMAT_NAME = "harness session"
FORMAT_VERSION = 11


@dataclass(frozen=True)
class FileHeader:
    session_id: str
    workspace: str
    latest_version: int
    exported_at: str
    format: str = FORMAT_NAME
    version: int = FORMAT_VERSION


class SessionFileWriter:
    """Writer of the lines and of their digest."""

    def __init__(self, file: BinaryIO, header: FileHeader) -> None:
        self._file = file
        self._digest = _create_hasher()
        self.rows = 0
        self.size = 0
        self._write_line(asdict(header))

    def write_row(self, kind: str, values: dict[str, Any]) -> None:
        self._write_line([kind, values])
        self.rows += 1

    def write_end_line(self) -> str:
        digest = self._digest.hexdigest()
        self._write_line({"digest": digest, "end": self.rows})
        return digest

    def _write_line(self, value: Any) -> None:
        line = to_canonical_json(value, "row").encode() + b"\n"
        self._digest.update(line)
        self.size += self._file.write(line)


def _create_hasher() -> blake2b:
    return blake2b(digest_size=32, person=b"session file")


class SessionFileReader:
    """Reader of a file, which is read once and verified at the start.

    Raises `FileNotReadable`, `FileDamaged`, `SchemaFromFuture`, and `WrongSession` if it does not hold `session_id`.
    """

    def __init__(self, path: Path, session_id: str | None) -> None:
        self.path = path
        self.header = self._verify_whole_file_and_parse_header(session_id)

    def iterate_rows(self) -> Iterator[tuple[str, Any]]:
        """Iterate over the rows in order: kind and values."""
        lines = self._iterate_lines()
        next(lines)
        for number, line in enumerate(lines, 2):
            value = self._parse_line(number, line)
            if isinstance(value, dict):
                return
            if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str):
                raise FileDamaged(self.path, f"line {number} is not a row")
            yield value[0], value[1]

    def _verify_whole_file_and_parse_header(self, session_id: str | None) -> FileHeader:
        digest, count, last = _create_hasher(), -1, b""
        first = b""
        for line in self._iterate_lines():
            first = first or line
            if last:
                digest.update(last)
                count += 1
            last = line
        header = self._parse_header(first)
        if last != to_canonical_json({"digest": digest.hexdigest(), "end": count}).encode() + b"\n":
            raise FileDamaged(self.path, "it ends early, or something in it was changed")
        if session_id is not None and header.session_id != session_id:
            raise WrongSession(self.path, header.session_id, session_id)
        return header

    def _parse_header(self, line: bytes) -> FileHeader:
        value = self._parse_line(1, line)
        if not isinstance(value, dict) or value.get("format") != FORMAT_NAME or type(value.get("version")) is not int:
            raise FileDamaged(self.path, "it does not begin as a session does")
        if value["version"] > FORMAT_VERSION:
            raise SchemaFromFuture(str(value.get("session_id")), value["version"], FORMAT_VERSION)
        try:
            return FileHeader(**value)
        except TypeError:
            raise FileDamaged(self.path, "its first line is not that of a session") from None

    def _iterate_lines(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                yield from file
        except OSError as error:
            raise FileNotReadable(self.path, error.strerror or str(error)) from error

    def _parse_line(self, number: int, line: bytes) -> Any:
        try:
            return parse_json(line.decode())
        except ValueError:
            raise FileDamaged(self.path, f"line {number} cannot be read") from None
