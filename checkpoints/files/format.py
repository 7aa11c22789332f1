"""The file of a session: lines of canonical JSON. The first says what it is, the last one proves the others.

    {"format":"harness session","version":3,"session_id":"s","workspace":"default", …}
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
from checkpoints.serde.canonical import canonical, parse

NAME = "harness session"
VERSION = 3


@dataclass(frozen=True)
class Header:
    session_id: str
    workspace: str
    latest_version: int
    exported_at: str
    format: str = NAME
    version: int = VERSION


class Writer:
    """Writes the lines and keeps the digest of them."""

    def __init__(self, file: BinaryIO, header: Header) -> None:
        self._file = file
        self._digest = _hasher()
        self.rows = 0
        self.size = 0
        self._line(asdict(header))

    def row(self, kind: str, values: dict[str, Any]) -> None:
        self._line([kind, values])
        self.rows += 1

    def end(self) -> str:
        digest = self._digest.hexdigest()
        self._line({"digest": digest, "end": self.rows})
        return digest

    def _line(self, value: Any) -> None:
        line = canonical(value, "row").encode() + b"\n"
        self._digest.update(line)
        self.size += self._file.write(line)


def _hasher() -> blake2b:
    return blake2b(digest_size=32, person=b"session file")


class Reader:
    """A file that has been read once and found whole. Raises `FileNotReadable`, `FileDamaged`, `SchemaFromFuture`, and
    `WrongSession` where it is another one than `session_id`."""

    def __init__(self, path: Path, session_id: str | None) -> None:
        self.path = path
        self.header = self._checked(session_id)

    def rows(self) -> Iterator[tuple[str, Any]]:
        """The rows in order: kind and values."""
        lines = self._lines()
        next(lines)
        for number, line in enumerate(lines, 2):
            value = self._parsed(number, line)
            if isinstance(value, dict):
                return
            if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str):
                raise FileDamaged(self.path, f"line {number} is not a row")
            yield value[0], value[1]

    def _checked(self, session_id: str | None) -> Header:
        digest, count, last = _hasher(), -1, b""
        first = b""
        for line in self._lines():
            first = first or line
            if last:
                digest.update(last)
                count += 1
            last = line
        header = self._header(first)
        if last != canonical({"digest": digest.hexdigest(), "end": count}).encode() + b"\n":
            raise FileDamaged(self.path, "it ends early, or something in it was changed")
        if session_id is not None and header.session_id != session_id:
            raise WrongSession(self.path, header.session_id, session_id)
        return header

    def _header(self, line: bytes) -> Header:
        value = self._parsed(1, line)
        if not isinstance(value, dict) or value.get("format") != NAME or type(value.get("version")) is not int:
            raise FileDamaged(self.path, "it does not begin as a session does")
        if value["version"] > VERSION:
            raise SchemaFromFuture(str(value.get("session_id")), value["version"], VERSION)
        try:
            return Header(**value)
        except TypeError:
            raise FileDamaged(self.path, "its first line is not that of a session") from None

    def _lines(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                yield from file
        except OSError as error:
            raise FileNotReadable(self.path, error.strerror or str(error)) from error

    def _parsed(self, number: int, line: bytes) -> Any:
        try:
            return parse(line.decode())
        except ValueError:
            raise FileDamaged(self.path, f"line {number} cannot be read") from None
