"""Errors of imports."""

from __future__ import annotations

from pathlib import Path

from checkpoints.exceptions import CheckpointsError, InvalidInput
from checkpoints.importers.escape_non_utf8_path import format_path


class ImportRefused(CheckpointsError):
    """The session exists and is not one that an import may extend."""

    code = "import_refused"
    hint = "Import under another session id (--session-id), or delete the session if it was imported by mistake."

    def __init__(self, session_id: str, why: str) -> None:
        self.session_id = session_id
        super().__init__(f"Nothing can be imported into session {session_id!r}: {why}.")


class ImportOvertaken(CheckpointsError):
    """Another process wrote to the session while it was imported."""

    code = "import_overtaken"
    hint = "Import again: what is there already is not imported twice."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"Session {session_id!r} changed while it was imported.")


class NothingToImport(InvalidInput):
    """A path that holds no transcript of a known format."""

    code = "nothing_to_import"
    hint = "Give a transcript file, or a folder that contains some."

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        super().__init__(f"There is nothing to import in {format_path(path)}: {why}.")


class FormatRefused(InvalidInput):
    """A file whose content is not of the format that it is to be read as."""

    code = "format_refused"
    hint = "Leave the format out, so that it is detected, or name the right one. docs/importing.md lists them."

    def __init__(self, path: Path, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"{format_path(path)} is not imported: {why}.")


class EncodingRefused(FormatRefused):
    """A file that has to be converted before its content can be read."""

    code = "encoding_refused"
    hint = "Convert it to UTF-8 without compression, and import it again."


class InvalidPriceTable(InvalidInput):
    """A price table that cannot be read."""

    code = "invalid_price_table"
    hint = "docs/importing.md describes the file."

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        super().__init__(f"The price table {path} cannot be used: {why}.")
