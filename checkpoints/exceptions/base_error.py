"""Base class of all errors."""

from __future__ import annotations

from typing import Any


class CheckpointsError(Exception):
    """Base of all errors of this library. `code` names the class in machine-readable places."""

    code = "checkpoints_error"
    hint = ""

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} {self.hint}" if self.hint else message

    @property
    def detail(self) -> str:
        """Message without the hint."""
        return super().__str__()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_unpickled_error, (type(self), self.args), self.__dict__


def _rebuild_unpickled_error(kind: type[CheckpointsError], args: tuple[Any, ...]) -> CheckpointsError:
    """Build an error that another process has pickled, without `__init__`: its attributes and message are set as they
    were there."""
    return kind.__new__(kind, *args)
