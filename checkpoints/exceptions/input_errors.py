"""Errors about arguments and values that a caller hands in."""

from __future__ import annotations

from checkpoints.exceptions.base_error import CheckpointsError


class InvalidInput(CheckpointsError, ValueError):
    """Base of errors about arguments; the class itself is raised where no more specific one fits."""

    code = "invalid_input"


class InvalidIdentifier(InvalidInput):
    """A value cannot be an identifier."""

    code = "invalid_identifier"
    hint = "Use 1 to 255 characters of text without control characters."

    def __init__(self, kind: str, value: object, why: str) -> None:
        super().__init__(f"{value!r} is no valid {kind}: {why}.")


class NotRepresentable(InvalidInput):
    """A value has no exact JSON form. Nothing was written."""

    code = "not_representable"
    hint = "Convert it to text, a finite number, a list or a dict with text keys before saving. Nothing was written."

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"{path} cannot be kept exactly: {why}.")


class ConcurrentModification(InvalidInput):
    """Another thread changed a value while it was read to be saved. Nothing was written."""

    code = "concurrent_modification"
    hint = "Save again once nothing changes it, or hand in a copy. Nothing was written."

    def __init__(self, what: str) -> None:
        self.path = what
        super().__init__(f"{what} was changed by another thread while it was being saved.")


class InvalidArguments(InvalidInput):
    """The arguments of a tool call do not fit its signature."""

    code = "invalid_arguments"
    hint = "Nothing was run."

    def __init__(self, tool: str, why: str) -> None:
        self.tool = tool
        super().__init__(f"The arguments for {tool!r} cannot be used: {why}.")


class TooLarge(InvalidInput):
    """A value is larger than its limit."""

    code = "too_large"
    hint = "Nothing was written. Keep large data outside and store a reference to it."

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what} has {size:,} bytes; {limit:,} is the most.")


class InvalidDatabaseUrl(InvalidInput):
    """A path or URL names no database that can be opened."""

    code = "invalid_database_url"
    hint = "Use sqlite:///file.db, a path, or postgresql://user:password@host:port/name."

    def __init__(self, why: str) -> None:
        super().__init__(f"The database cannot be opened: {why}.")
