"""Functions for children that run a program or a page as a user would, and send what it prints, line by line."""

from __future__ import annotations

import asyncio
import io
import json
import os
import runpy
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from tests.docs import run_page


class _LinesForParent(io.TextIOBase):
    """Output whose lines are messages to the parent."""

    def __init__(self) -> None:
        self._pipe = sys.stdout
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            print(json.dumps(["printed", line]), file=self._pipe, flush=True)
        return len(text)


def run_file(path: str, folder: str) -> None:
    """Run a program in a folder."""
    os.chdir(folder)
    with redirect_stdout(_LinesForParent()):
        runpy.run_path(path, run_name="__main__")


def run_module(module: str, arguments: Sequence[str]) -> None:
    """Run a module with arguments as `python -m` does."""
    sys.argv[1:] = arguments
    with redirect_stdout(sys.stderr):
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def run_blocks_of_page(page: str, folder: str) -> None:
    """Run the Python blocks of a page in a folder."""
    os.chdir(folder)
    with redirect_stdout(io.StringIO()):
        asyncio.run(run_page.run(Path(page).read_text(), page))
