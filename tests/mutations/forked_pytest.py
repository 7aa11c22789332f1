"""Process that forks runs of pytest: `python forked_pytest.py`.

pytest and Django are imported once; the library and its tests are not, because each run has a copy of its own. An
order is a line of JSON on standard input; it is answered by the exit code of the run.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import traceback
from contextlib import suppress
from typing import Any, Never

import pytest
from _pytest.config import default_plugins
from django.core.exceptions import ImproperlyConfigured

PATIENCE = 300  # seconds; only ever spent by a test that fails
PRELOADED_MODULES = (
    *(f"_pytest.{name}" for name in default_plugins),
    "asyncio",
    "django.contrib.auth",
    "django.core.management.commands.migrate",
    "django.db.backends.postgresql.base",
    "django.db.backends.sqlite3.base",
    "django.db.migrations.executor",
    "django.test",
    "django.test.runner",
    "hypothesis.stateful",
    "psycopg_pool",
)


def main() -> None:
    del sys.path[0]  # the folder of this file
    for module in PRELOADED_MODULES:
        with suppress(ImportError, ImproperlyConfigured):
            importlib.import_module(module)
    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            run(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def run(folder: str, environment: dict[str, str], arguments: list[str], output: str) -> Never:
    """Run pytest in `folder` as a process of its own would; what it says goes to the file `output`."""
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.alarm(PATIENCE)
    os.chdir(folder)
    os.environ.update(environment)
    sys.path.insert(0, folder)
    code: Any = 3
    try:
        code = int(pytest.main(arguments))
    except Exception:  # as the interpreter would end a process of its own
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
