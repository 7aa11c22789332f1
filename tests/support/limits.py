"""Smaller limits for the time of a test."""

from types import ModuleType

import pytest

from checkpoints.prepared import Prepared


def limited(monkeypatch: pytest.MonkeyPatch, module: ModuleType, **limits: int) -> None:
    """Give constants of a module other values; its prepared reads are made anew with them, for this test alone."""
    for name, value in limits.items():
        monkeypatch.setattr(module, name, value)
    for name, read in list(vars(module).items()):
        if isinstance(read, Prepared):
            monkeypatch.setattr(module, name, Prepared(read.build))
