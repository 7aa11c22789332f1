"""Command that a module runs with something that it provides: `python -m tests.support.MODULE -- command args…`."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType


def read_command(arguments: Sequence[str], module: str) -> list[str]:
    """Return the command in the arguments of a module, which ends with its usage if there is none."""
    command = [*arguments[1:]] if arguments[:1] == ["--"] else [*arguments]
    if not command:
        sys.exit(f"usage: python -m {module} -- command args…")
    return command


def run_command(command: Sequence[str], settings: Mapping[str, str]) -> int:
    """Run a command with additional environment variables, and return its exit code."""
    child = subprocess.Popen(command, env={**os.environ, **settings})
    try:
        code = child.wait()
    except BaseException as reason:
        if not isinstance(reason, KeyboardInterrupt):  # Ctrl-C has reached the child as well
            child.terminate()
        child.wait()
        raise
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def convert_sigterm_to_exit() -> Iterator[None]:
    """Let SIGTERM unwind the stack like Ctrl-C, instead of ending the process immediately."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def leave(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one, as `timeout` sends it, would interrupt the cleanup
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
