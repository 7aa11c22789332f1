"""The files that a page of `docs/` asks its reader to write: blocks marked `py` whose first line names the file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.processes import ROOT

_FILE = re.compile(r"^```py\n(# (\S+\.py)\n.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^ *(?:[A-Z_]+=\S+ )*(?:harness|python) (.+)$", re.MULTILINE)
_SHELL = re.compile(r"^ *```sh\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def files_of(page: str) -> dict[str, str]:
    """Map the name of each file on `docs/<page>` to its text."""
    return {name: code for code, name in _FILE.findall((ROOT / "docs" / page).read_text())}


def commands_of(page: str) -> list[str]:
    """Return the arguments of each `harness` and `python` command on `docs/<page>`, in order."""
    blocks = _SHELL.findall((ROOT / "docs" / page).read_text())
    return [command for block in blocks for command in _COMMAND.findall(block)]


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for a user's program: no settings of this project, but its packages."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HARNESS_", "DJANGO_"))}
    return {**kept, "PYTHONPATH": str(ROOT), **variables}


class ProgramFailed(Exception):
    """A program of a page ended with another status than it should, or wrote to stderr."""


def run(*arguments: str, folder: Path, status: int = 0, variables: Mapping[str, str] | None = None) -> str:
    """Run `python <arguments>` in `folder` and return its output. Raise `ProgramFailed`, also for unexpected output on
    stderr."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        env=environment(variables or {}),
        capture_output=True,
        text=True,
    )
    errors = leave_out_log_of_new_databases(done.stderr)
    if (done.returncode, errors) != (status, ""):
        raise ProgramFailed(f"{arguments} ended with {done.returncode}:\n{errors}")
    return done.stdout


def leave_out_log_of_new_databases(errors: str) -> str:
    """Return what a program wrote to stderr without the lines that name a new SQLite file."""
    return re.sub(r"^Created the SQLite database .*\n", "", errors, flags=re.MULTILINE)
