"""Commands of Django on another database, run in one process because its start takes longer than most of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Final, NamedTuple

from tests.support.processes import ROOT

_PROGRAM: Final = """
import django, io, json, sys
from django.core.management import CommandError, call_command

django.setup()
for arguments in json.loads(sys.argv[1]):
    output, error_output, error = io.StringIO(), io.StringIO(), ""
    try:
        call_command(*arguments, stdout=output, stderr=error_output)
    except CommandError as refusal:
        error = str(refusal)
    print(json.dumps([output.getvalue(), error_output.getvalue(), error]))
"""


class Done(NamedTuple):
    """Output of a command, and the message of the error that it ended with."""

    output: str
    error_output: str
    error: str


def run_commands(url: str, *commands: str) -> list[Done]:
    """Run commands one after the other in one process with this database. Each is a line of words."""
    environment = {**os.environ, "HARNESS_DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "harness_site.settings"}
    arguments = json.dumps([command.split() for command in commands])
    process = [sys.executable, "-c", _PROGRAM, arguments]
    done = subprocess.run(process, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [Done(*json.loads(line)) for line in done.stdout.splitlines()]


def run_commands_without_error(url: str, *commands: str) -> list[str]:
    """Run commands in one process with this database, and return their outputs."""
    done = run_commands(url, *commands)
    assert [each.error for each in done] == [""] * len(commands)
    return [each.output for each in done]
