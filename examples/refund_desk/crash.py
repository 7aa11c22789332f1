"""Simulated crash at the worst moment: after the effect, before its result is recorded."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class CrashOnce:
    """Kill this process inside each of `tools`, the first time it runs. A file in `folder` marks that it did."""

    def __init__(self, tools: Iterable[str], folder: Path) -> None:
        self._tools = frozenset(tools)
        self._folder = folder

    @contextmanager
    def crash_after_first_effect(self, tool: str) -> Iterator[None]:
        """Wrap the effect of `tool`."""
        must_crash = tool in self._tools and self._mark_first_crash(tool)
        yield
        if must_crash:
            os.kill(os.getpid(), signal.SIGKILL)

    def _mark_first_crash(self, tool: str) -> bool:
        try:
            (self._folder / f"{tool}.crashed").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True
