"""Errors of imports."""

from __future__ import annotations

from pathlib import Path

from checkpoints.exceptions import CheckpointsError, InvalidInput


class ImportRefused(CheckpointsError):
    """The session exists and is not one that an import may extend."""

    code = "import_refused"
    hint = "Import under another session id, or fork the session and go on with the fork. Nothing was written."

    def __init__(self, session_id: str, why: str) -> None:
        self.session_id = session_id
        super().__init__(f"Nothing can be imported into session {session_id!r}: {why}.")


class ImportOvertaken(CheckpointsError):
    """Somebody else wrote to the session while it was imported."""

    code = "import_overtaken"
    hint = "Import again: what is there already is not imported twice."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"Session {session_id!r} changed while it was imported.")


class NothingToImport(InvalidInput):
    """A path that holds no transcript of the format."""

    code = "nothing_to_import"
    hint = "Give a transcript file, or a folder that contains some."

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        super().__init__(f"There is nothing to import in {path}: {why}.")
