"""Copies of the library and its tests with one mutated line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from django.conf import ENVIRONMENT_VARIABLE

from tests.mutations.mutations import Mutation
from tests.support.processes import ROOT

#: What tests of the library need beside the library.
NEEDED = ("checkpoints", "harness_site", "tests")
_PLUGINS = ("-p", "pytest_django.plugin", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider")
_LEFT_OUT = shutil.ignore_patterns("vendor", "e2e")


@dataclass(frozen=True)
class Verdict:
    """How `pytest` ended in a copy."""

    code: int
    said: str

    @property
    def passed(self) -> bool:
        return self.code == 0

    @property
    def failed(self) -> bool:
        """A test failed, and neither its preparation nor the run itself broke down."""
        return self.code == 1 and "\nFAILED " in self.said and "\nERROR " not in self.said


def copied(to: Path) -> Path:
    """Copy what the tests of the library need to the folder `to`."""
    for name in NEEDED:
        shutil.copytree(ROOT / name, to / name, ignore=_LEFT_OUT)
    shutil.copy(ROOT / "pyproject.toml", to)
    return to


def mutate(copy: Path, mutation: Mutation) -> None:
    """Replace one line. Fails if the source does not contain it exactly once, because the list must then be updated."""
    file = copy / mutation.file
    source = file.read_text()
    found = source.count(mutation.old)
    assert found == 1, f"{mutation.file} has this {found} times, not once: {mutation.old!r}"
    file.write_text(source.replace(mutation.old, mutation.new))


class Runner:
    """Context manager that runs tests of copies, one run at a time."""

    def __enter__(self) -> Self:
        program = [sys.executable, str(Path(__file__).with_name("forked_pytest.py"))]
        environment = {name: value for name, value in os.environ.items() if name != ENVIRONMENT_VARIABLE}
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, copy: Path, model: str, *tests: str, migrate: bool = False) -> Verdict:
        """Run tests of a copy, on a copy of the database at `model`, which nobody may be using; if `migrate`, on one
        whose tables the copy itself makes."""
        kept = []
        if model.startswith("sqlite") and not migrate:
            shutil.copy(model.removeprefix("sqlite://"), copy / "test.sqlite3")
            kept = ["--reuse-db"]  # on PostgreSQL Django makes the copy
        environment = {
            "HARNESS_MUTANT_MODEL": "" if migrate else model.rpartition("/")[2],
            ENVIRONMENT_VARIABLE: "tests.mutations.settings",
            "HARNESS_DATABASE_URL": model,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # loading them all takes as long as a test
        }
        output = copy / "output"
        order = {
            "folder": str(copy),
            "environment": environment,
            "arguments": ["-q", *_PLUGINS, *kept, *tests],
            "output": str(output),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        code = self._process.stdout.readline()
        return Verdict(int(code), f"\n{output.read_text(errors='replace')}")
