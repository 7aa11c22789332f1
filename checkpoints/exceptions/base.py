"""The base of all errors."""

from __future__ import annotations


class CheckpointsError(Exception):
    """Base of all errors of this library. `code` names the class in machine-readable places."""

    code = "checkpoints_error"
    hint = ""

    def __str__(self) -> str:
        said = super().__str__()
        return f"{said} {self.hint}" if self.hint else said

    @property
    def detail(self) -> str:
        """What happened, without the hint."""
        return super().__str__()
