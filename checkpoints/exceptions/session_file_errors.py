"""Errors about files of exported sessions."""

from __future__ import annotations

from checkpoints.exceptions.base_error import CheckpointsError


class FileError(CheckpointsError):
    """Base of errors about session files."""

    code = "file_error"

    def __init__(self, path: object, said: str) -> None:
        self.path = str(path)
        super().__init__(f"{self.path} {said}")


class FileNotReadable(FileError):
    """A session file cannot be read."""

    code = "file_not_readable"
    hint = "Check the path and its permissions. Nothing was imported."

    def __init__(self, path: object, why: str) -> None:
        super().__init__(path, f"cannot be read: {why}.")


class FileNotWritten(FileError):
    """A session file could not be written; one that was there is unchanged."""

    code = "file_not_written"
    hint = "The file is as it was before, and the session in the database is not touched by this."

    def __init__(self, path: object, why: str) -> None:
        super().__init__(path, f"could not be written: {why}.")


class FileDamaged(FileError):
    """A file is not a complete session."""

    code = "file_damaged"
    hint = "Use another copy of it. Nothing was imported."

    def __init__(self, path: object, why: str) -> None:
        super().__init__(path, f"is not a whole session: {why}.")


class WrongSession(FileError):
    """The file holds another session than the one that was asked for."""

    code = "wrong_session"
    hint = "Nothing was imported."

    def __init__(self, path: object, found: str, wanted: str) -> None:
        self.found, self.wanted = found, wanted
        super().__init__(path, f"holds session {found!r}, not {wanted!r}.")


class WrongWorkspace(FileError):
    """The file is of another workspace, where its idempotency keys would not be recognised."""

    code = "wrong_workspace"
    hint = "Import it into a workspace of the same name. Nothing was imported."

    def __init__(self, path: object, found: str, wanted: str) -> None:
        self.found, self.wanted = found, wanted
        super().__init__(path, f"holds a session of the workspace {found!r}, not of {wanted!r}.")


class ImportConflict(FileError):
    """A row of the session exists in the database already, under another session."""

    code = "import_conflict"
    hint = "Nothing was imported."

    def __init__(self, path: object, why: str) -> None:
        super().__init__(path, f"cannot be imported: {why}.")
