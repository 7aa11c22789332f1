"""Dying at the worst moment: the effect is there, and nobody has been told."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class CrashOnce:
    """Kills this process inside each of `tools`, the first time it runs. A file in `folder` remembers that it did."""

    def __init__(self, tools: Iterable[str], folder: Path) -> None:
        self._tools = frozenset(tools)
        self._folder = folder

    @contextmanager
    def inside(self, tool: str) -> Iterator[None]:
        """Around the effect of `tool`."""
        doomed = tool in self._tools and self._first_time(tool)
        yield
        if doomed:
            os.kill(os.getpid(), signal.SIGKILL)

    def _first_time(self, tool: str) -> bool:
        try:
            (self._folder / f"{tool}.crashed").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True
