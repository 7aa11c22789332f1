"""Child processes, one for each life of an agent, forked from one launcher."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from django.conf import ENVIRONMENT_VARIABLE

from checkpoints.exceptions import InvalidInput, ReviewRequired, StorageUnavailable
from checkpoints.testing.inject_process_faults import Fault
from checkpoints.testing.write_boundaries import Boundary, Side


@dataclass(frozen=True)
class Life:
    """Outcome of one process: killed, ended by an error of the library (its code), or returned with a value.

    `error` is empty for a process that failed in any other way; `output` is the traceback. A killed process cannot
    report which boundaries it has `passed`, nor how many `seconds` it worked.
    """

    killed: bool = False
    value: Any = None
    error: str | None = None
    output: str = ""
    passed: list[Boundary] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def needs_review(self) -> bool:
        return self.error == ReviewRequired.code

    @property
    def has_lost_database(self) -> bool:
        return self.error == StorageUnavailable.code

    @property
    def has_returned(self) -> bool:
        return not self.killed and self.error is None


class Processes:
    """Launcher of lives, one after the other. A context manager: at its end the launcher has exited.

    The processes are plain scripts: they have no settings of a Django project, and nothing of this process but its
    import path. Needs `os.fork`.
    """

    def __enter__(self) -> Self:
        environment = {name: value for name, value in os.environ.items() if name != ENVIRONMENT_VARIABLE}
        self._launcher = subprocess.Popen(
            [sys.executable, "-m", "checkpoints.testing.fork_launcher"],
            env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._send_line(sys.path)
        return self

    def __exit__(self, *_: object) -> None:
        self._launcher.kill()
        self._launcher.communicate()

    def run(
        self,
        function: Callable[..., object],
        arguments: dict[str, Any],
        *,
        fault_at: int = 0,
        fault: Fault = Fault.KILL,
        kill_after: float | None = None,
    ) -> Life:
        """Run `function(**arguments)` in a new process to its end. `arguments` and the value are JSON values.

        `fault` happens at the write boundary of that number; `kill_after` is in seconds.
        """
        self._send_line(
            {
                "function": get_importable_name(function),
                "arguments": arguments,
                "fault_at": fault_at,
                "fault": fault,
                "kill_after": kill_after,
            }
        )
        report = self._receive_message_from_launcher()
        if "ended" in report:
            killed = report["ended"] == -signal.SIGKILL
            return Life(killed=killed, error=None if killed else "", output=f"It ended with {report['ended']}.")
        self._receive_message_from_launcher()
        report["passed"] = [Boundary(number, Side(side), place) for number, side, place in report.get("passed", ())]
        return Life(**report)

    def _send_line(self, value: Any) -> None:
        assert self._launcher.stdin is not None  # noqa: S101
        self._launcher.stdin.write(f"{json.dumps(value)}\n")
        self._launcher.stdin.flush()

    def _receive_message_from_launcher(self) -> dict[str, Any]:
        assert self._launcher.stdout is not None  # noqa: S101
        line = self._launcher.stdout.readline()
        if not line:
            raise RuntimeError("The launcher of the processes has ended; its error output says why.")
        return dict(json.loads(line))


def get_importable_name(function: Callable[..., object]) -> str:
    """Return the name under which another process can import `function`. Raises `InvalidInput` if there is none."""
    module, qualified = function.__module__, function.__qualname__
    if module == "__main__" or "<" in qualified:
        raise InvalidInput(f"Another process cannot import {qualified} from {module}. Move it to a module of its own.")
    return f"{module}:{qualified}"
